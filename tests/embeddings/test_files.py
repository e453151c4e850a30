"""A file's vectors: the same in every format, in one sitting or two, with the words beside them."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from unmask.embeddings import files
from unmask.embeddings.encoder import Encoder
from unmask.embeddings.files import Wanted, embed_file
from unmask.embeddings.standardise import Standardiser, save_standardisers
from unmask.errors import Failure, Misuse

TEXTS = [f"the old man walks at the {place}, {n}" for n in range(5) for place in ("bank", "casino", "house")]


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n\n", encoding="utf-8")
    return path


@pytest.fixture
def wanted(texts, checkpoint):
    def make(**options):
        return Wanted(str(texts), str(checkpoint("bert")), **options)

    return make


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(files, "TEXTS_A_CHUNK", 4)


def units_of(path):
    return [json.loads(line) for line in path.with_name(path.name + ".units.jsonl").read_text().splitlines()]


def test_every_format_holds_the_vectors_and_the_words(tmp_path, wanted, checkpoint):
    import pyarrow.parquet as pq

    expected, readings = Encoder.load(checkpoint("bert")).vectors(TEXTS)
    names = [unit.name for reading in readings for unit in reading.units]
    written = embed_file(wanted(), tmp_path / "v.npy")
    assert (written.rows, written.width, written.texts) == (len(names), 32, len(TEXTS))
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), expected, atol=1e-5)
    units = units_of(tmp_path / "v.npy")
    assert [unit["unit"] for unit in units] == names
    assert all(TEXTS[u["text"]][u["start"] : u["end"]] == u["unit"] for u in units)
    embed_file(wanted(), tmp_path / "v2.safetensors")
    np.testing.assert_array_equal(
        load_file(tmp_path / "v2.safetensors")["vectors"], np.load(tmp_path / "v.npy")
    )
    assert units_of(tmp_path / "v2.safetensors") == units
    embed_file(wanted(), tmp_path / "v.parquet")
    table = pq.read_table(tmp_path / "v.parquet")
    np.testing.assert_array_equal(np.stack(table["vector"].to_numpy()), np.load(tmp_path / "v.npy"))
    assert table.drop_columns("vector").to_pylist() == units


def test_a_killed_run_goes_on_and_does_nothing_twice(tmp_path, wanted, monkeypatch):
    embed_file(wanted(), tmp_path / "whole.npy")
    real, done = files._keep, []

    def dies(path, found):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(path.name)
        real(path, found)

    monkeypatch.setattr(files, "_keep", dies)
    with pytest.raises(KeyboardInterrupt):
        embed_file(wanted(), tmp_path / "broken.npy")
    assert not (tmp_path / "broken.npy").exists()

    def notes(path, found):
        done.append(path.name)
        real(path, found)

    monkeypatch.setattr(files, "_keep", notes)
    embed_file(wanted(), tmp_path / "broken.npy")
    assert done == [f"{i:08}.npz" for i in range(4)]
    assert (tmp_path / "broken.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()
    assert units_of(tmp_path / "broken.npy") == units_of(tmp_path / "whole.npy")
    assert not list(tmp_path.glob("*.partial"))


def test_a_partial_run_with_other_settings_is_not_mixed_in(tmp_path, wanted, monkeypatch):
    monkeypatch.setattr(files, "_keep", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        embed_file(wanted(), tmp_path / "v.npy")
    monkeypatch.undo()
    with pytest.raises(Misuse, match="layers was 'last', now '1'"):
        embed_file(wanted(layers="1"), tmp_path / "v.npy")


def test_a_full_disk_is_one_line(tmp_path, wanted, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "_keep", full)
    with pytest.raises(Failure, match="the disk is full"):
        embed_file(wanted(), tmp_path / "v.npy")


def test_a_type_is_the_mean_of_its_words(tmp_path, wanted):
    embed_file(wanted(), tmp_path / "words.npy")
    embed_file(wanted(unit="type"), tmp_path / "types.npy")
    words, units = np.load(tmp_path / "words.npy"), units_of(tmp_path / "words.npy")
    types, names = np.load(tmp_path / "types.npy"), units_of(tmp_path / "types.npy")
    assert names[0] == {"unit": "the", "count": 2 * len(TEXTS)}
    assert sum(entry["count"] for entry in names) == len(words)
    for vector, entry in zip(types, names, strict=True):
        rows = [i for i, unit in enumerate(units) if unit["unit"] == entry["unit"]]
        np.testing.assert_allclose(vector, words[rows].mean(axis=0), atol=1e-6)


def test_words_that_come_apart_are_kept_as_they_are(tmp_path, wanted):
    path = tmp_path / "texts.jsonl"
    path.write_text('{"words": ["the", "old man", "walk-ed"]}\n{"text": "the dog"}\n')
    embed_file(Wanted(str(path), wanted().model), tmp_path / "v.npy")
    assert [unit["unit"] for unit in units_of(tmp_path / "v.npy")] == [
        "the",
        "old man",
        "walk-ed",
        "the",
        "dog",
    ]


def test_a_standardiser_is_applied(tmp_path, wanted):
    embed_file(wanted(), tmp_path / "raw.npy")
    raw = np.load(tmp_path / "raw.npy")
    save_standardisers({"2": Standardiser.fit(raw)}, tmp_path / "s.safetensors", {})
    embed_file(wanted(standardiser=str(tmp_path / "s.safetensors")), tmp_path / "even.npy")
    even = np.load(tmp_path / "even.npy")
    assert np.abs(even.mean(axis=0)).max() < 1e-5
    assert np.abs(even.std(axis=0) - 1).max() < 1e-5


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.txt", "\n \n", "at least one text"),
        ("bad.jsonl", '{"text": 3}\n', "line 1: expected"),
        ("bad.jsonl", "{\n", "line 1: expected JSON"),
        ("latin.txt", b"caf\xe9\n", "expected UTF-8"),
    ],
)
def test_files_that_hold_no_texts_are_refused(tmp_path, wanted, name, content, message):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(Misuse, match=message):
        embed_file(Wanted(str(tmp_path / name), wanted().model), tmp_path / "v.npy")


def test_names_that_say_no_format_or_exist_are_refused(tmp_path, wanted):
    with pytest.raises(Misuse, match=r"ends in .npy, .parquet, .safetensors"):
        embed_file(wanted(), tmp_path / "v.csv")
    (tmp_path / "v.npy").touch()
    with pytest.raises(Misuse, match="exists"):
        embed_file(wanted(), tmp_path / "v.npy")


def test_a_cluster_writes_what_one_process_does(tmp_path, wanted):
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'unmask[ray]'")
    files.embed_file(wanted(), tmp_path / "alone.npy")
    files.embed_file(wanted(), tmp_path / "spread.npy", ray="local")
    assert (tmp_path / "spread.npy").read_bytes() == (tmp_path / "alone.npy").read_bytes()
    assert units_of(tmp_path / "spread.npy") == units_of(tmp_path / "alone.npy")
    with pytest.raises(Failure, match="can't reach a Ray cluster"):
        files.embed_file(wanted(), tmp_path / "nowhere.npy", ray="127.0.0.1:1")
