"""A file's vectors: the same in every format, in one attempt or two, with the words beside them."""

import gzip
import io
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from unmask.embeddings import files
from unmask.embeddings.encoder import Encoder
from unmask.embeddings.files import Settings, embed_file, read_texts
from unmask.embeddings.sense_corpus import count_sentences, read_sentences
from unmask.embeddings.standardise import Standardiser, save_standardisers
from unmask.errors import RunError, UsageError

TEXTS = [f"the old man walks at the {place}, {n}" for n in range(5) for place in ("bank", "casino", "house")]


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n\n", encoding="utf-8")
    return path


@pytest.fixture
def wanted(texts, checkpoint):
    def make(**options):
        return Settings(str(texts), str(checkpoint("bert")), **options)

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


class Kept:
    """Notes the chunks that are written, and dies where it is told to."""

    def __init__(self):
        self.real, self.names, self.dies_at = files._keep, [], None

    def __call__(self, partial, found):
        if len(self.names) == self.dies_at:
            raise KeyboardInterrupt
        self.names.append(found.key[:8])
        return self.real(partial, found)


@pytest.fixture
def kept(monkeypatch):
    monkeypatch.setattr(files, "_keep", Kept())
    return files._keep


def interrupt(wanted, out, kept, after=2):
    kept.dies_at = after
    with pytest.raises(KeyboardInterrupt):
        embed_file(wanted, out)
    assert not out.exists()
    kept.dies_at = None


@pytest.mark.parametrize("lines", [15, 5, 2])
def test_a_run_that_goes_on_with_other_texts_has_none_of_the_old_ones(tmp_path, wanted, texts, kept, lines):
    """As many bytes where there are as many lines; a shorter file leaves chunks behind."""
    interrupt(wanted(), tmp_path / "v.npy", kept)
    changed = [TEXTS[0], *(text.replace("old", "red") for text in TEXTS[1:lines])]
    texts.write_text("\n".join(changed) + "\n\n", encoding="utf-8")
    embed_file(wanted(), tmp_path / "v.npy")
    embed_file(wanted(), tmp_path / "anew.npy")
    assert units_of(tmp_path / "v.npy") == units_of(tmp_path / "anew.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy"), np.load(tmp_path / "anew.npy"))


def test_standard_input_is_told_from_what_it_was_before(tmp_path, wanted, kept, monkeypatch):
    def given(text):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        return replace(wanted(), texts="-")

    interrupt(given("the old man\n" * 9), tmp_path / "v.npy", kept, after=1)
    embed_file(given("a red cat\n" * 9), tmp_path / "v.npy")
    assert {unit["unit"] for unit in units_of(tmp_path / "v.npy")} == {"a", "red", "cat"}


def test_a_partial_run_of_other_weights_is_not_mixed_in(tmp_path, wanted, checkpoint, kept):
    model = tmp_path / "model"
    shutil.copytree(checkpoint("bert"), model)
    changing = replace(wanted(), model=str(model))
    interrupt(changing, tmp_path / "v.npy", kept)
    weights = load_file(model / "model.safetensors")
    name = next(name for name in weights if name.endswith("word_embeddings.weight"))
    save_file(weights | {name: weights[name] * 2}, model / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UsageError, match="weights was"):
        embed_file(changing, tmp_path / "v.npy")


def test_a_unit_knows_the_line_of_its_text(tmp_path, wanted, texts):
    texts.write_text("the dog\n\n \na cat\n")
    embed_file(wanted(), tmp_path / "v.npy")
    assert [unit["text"] for unit in units_of(tmp_path / "v.npy")] == [0, 0, 3, 3]


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
    embed_file(Settings(str(path), wanted().model), tmp_path / "v.npy")
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


def test_statistics_that_change_under_their_name_are_told_apart(tmp_path, wanted):
    raw = np.random.default_rng(0).normal(size=(9, 32))
    given = wanted(standardiser=str(tmp_path / "s.safetensors"))
    records = []
    for scale in (1, 2):
        save_standardisers({"2": Standardiser.fit(scale * raw)}, tmp_path / "s.safetensors", {})
        records.append(given.to_dict())
    assert records[0]["statistics"] != records[1]["statistics"]


def test_a_standardiser_of_other_weights_is_refused(tmp_path, wanted, checkpoint):
    even = Standardiser(np.zeros(32), np.ones(32))
    for name, about in (
        ("same", {"weights": Encoder.load(checkpoint("bert")).weights}),
        ("other", {"model": "another", "weights": Encoder.load(checkpoint("electra")).weights}),
        ("unknown", {}),
    ):
        save_standardisers({"2": even}, tmp_path / f"{name}.safetensors", about)
    for name in ("same", "unknown"):
        embed_file(wanted(standardiser=str(tmp_path / f"{name}.safetensors")), tmp_path / f"{name}.npy")
    with pytest.raises(UsageError, match=r"other weights \(of another\): fit it anew"):
        embed_file(wanted(standardiser=str(tmp_path / "other.safetensors")), tmp_path / "v.npy")


def test_texts_without_words_in_front_leave_parquet_its_columns(tmp_path, wanted, texts):
    import pyarrow.parquet as pq

    texts.write_text("\u200d\n" * 5 + "the dog\n", encoding="utf-8")
    embed_file(wanted(), tmp_path / "v.parquet")
    assert pq.read_table(tmp_path / "v.parquet")["unit"].to_pylist() == ["the", "dog"]


def damaged(path):
    """A compressed file with a wrong byte in its middle."""
    packed = bytearray(gzip.compress("".join(f"the dog {n}\n" for n in range(2000)).encode()))
    packed[len(packed) // 2] ^= 0xFF
    packed[len(packed) // 2 + 1] ^= 0xFF
    path.write_bytes(packed)
    return path


def test_a_damaged_compressed_file_is_one_line(tmp_path):
    for read in (read_texts, read_sentences):
        with pytest.raises(RunError, match="is damaged and can't be unpacked"):
            list(read(damaged(tmp_path / "t.data.xml.gz")))
    assert count_sentences(tmp_path / "t.data.xml.gz") == 0


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.txt", "\n \n", "at least one text"),
        ("bad.jsonl", '{"text": 3}\n', "line 1: expected"),
        ("bad.jsonl", "{\n", "line 1: expected a JSON object"),
        ("latin.txt", b"caf\xe9\n", "line 1 is not UTF-8"),
    ],
)
def test_files_that_hold_no_texts_are_refused(tmp_path, wanted, name, content, message):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UsageError, match=message):
        embed_file(Settings(str(tmp_path / name), wanted().model), tmp_path / "v.npy")


def test_names_that_say_no_format_or_exist_are_refused(tmp_path, wanted):
    with pytest.raises(UsageError, match=r"ends in .npy, .parquet, .safetensors"):
        embed_file(wanted(), tmp_path / "v.csv")
    (tmp_path / "v.npy").touch()
    with pytest.raises(UsageError, match="exists"):
        embed_file(wanted(), tmp_path / "v.npy")


def test_a_cluster_writes_what_one_process_does(tmp_path, wanted):
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'unmask[ray]'")
    files.embed_file(wanted(), tmp_path / "alone.npy")
    files.embed_file(wanted(), tmp_path / "spread.npy", ray="local")
    assert (tmp_path / "spread.npy").read_bytes() == (tmp_path / "alone.npy").read_bytes()
    assert units_of(tmp_path / "spread.npy") == units_of(tmp_path / "alone.npy")
    with pytest.raises(RunError, match="can't reach a Ray cluster"):
        files.embed_file(wanted(), tmp_path / "nowhere.npy", ray="127.0.0.1:1")
