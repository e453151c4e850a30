"""The file of finished work survives kills, full disks and a second writer."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmask.errors import RunError, UsageError
from unmask.runs.records import Records


def test_records_come_back_in_order_with_their_keys(tmp_path: Path) -> None:
    with Records(tmp_path / "r.jsonl") as records:
        records.append({"key": "b", "value": 0.1 + 0.2})
        records.append({"key": "a", "text": "naïve\nline"})
        records.append({"note": "no key"})
    with Records(tmp_path / "r.jsonl") as again:
        assert list(again) == [
            {"key": "b", "value": 0.1 + 0.2},
            {"key": "a", "text": "naïve\nline"},
            {"note": "no key"},
        ]
        assert again.keys == {"a", "b"}
        assert "a" in again
        assert "c" not in again
        assert len(again) == 3
        again.append({"key": "c"})
        assert [r.get("key") for r in again] == ["b", "a", None, "c"]


def test_a_key_comes_once(tmp_path: Path) -> None:
    with Records(tmp_path / "r.jsonl", key="id") as records:
        records.append({"id": 7})
        with pytest.raises(UsageError, match="id 7"):
            records.append({"id": 7})
        assert len(list(records)) == 1


@given(cut=st.integers(1, 60), junk=st.sampled_from([b"", b"\x00\x00\n", b"[1]\n", b"\xff{"]))
def test_whatever_a_kill_left_of_the_last_line_is_cut_off(cut: int, junk: bytes, tmp_path_factory) -> None:
    path = tmp_path_factory.mktemp("records") / "r.jsonl"
    first = {"key": 1, "text": "whole"}
    with Records(path) as records:
        records.append(first)
        whole = path.stat().st_size
        records.append({"key": 2, "text": "x" * 50})
    data = path.read_bytes()
    path.write_bytes(data[: max(whole, len(data) - cut)] if not junk else data[:whole] + junk)
    with Records(path) as again:
        assert list(again) == [first]
        assert again.keys == {1}
        again.append({"key": 2})
    assert [json.loads(line)["key"] for line in path.read_text().splitlines()] == [1, 2]


@pytest.mark.parametrize("cut", [1, 4, 9, 30])
def test_what_a_kill_left_of_the_first_line_is_known_as_ours(cut: int, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with Records(path) as records:
        records.append({"number": 0, "key": "a", "text": "x" * 50})
    path.write_bytes(path.read_bytes()[:cut])
    with Records(path) as again:
        assert (len(again), again.dropped) == (0, cut)
        again.append({"key": "a"})
    assert path.read_text() == '{"key": "a"}\n'


@pytest.mark.parametrize(
    "theirs",
    ["One line of text.\n", "no end of line", "two\nlines\n", '{"key": 3}', "[1]\n", "\n", '{"keys": ', "7"],
)
def test_a_file_that_is_somebodys_is_refused_and_not_touched(theirs: str, tmp_path: Path) -> None:
    path = tmp_path / "thesis.txt"
    path.write_text(theirs)
    with pytest.raises(UsageError, match="is no file of records"):
        Records(path)
    assert path.read_text() == theirs


def test_opening_a_file_changes_nothing_in_it(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"theirs": 1}\n{"theirs": 2}')
    with Records(path) as records:
        assert list(records) == [{"theirs": 1}]
    assert path.read_text() == '{"theirs": 1}\n{"theirs": 2}'


def test_a_damaged_line_in_the_middle_is_no_leftover_of_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"key": 1}\n{"key": \n{"key": 3}\n')
    with pytest.raises(RunError, match="line 2 is damaged"):
        Records(path)
    assert path.read_text().count("\n") == 3


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_number_in_the_middle_is_damage(constant: str, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(f'{{"key": 1, "x": 0.5}}\n{{"key": 2, "x": {constant}}}\n{{"key": 3, "x": 1}}\n')
    with pytest.raises(RunError, match="line 2 is damaged"):
        Records(path)


def test_what_is_no_number_is_not_written(tmp_path: Path) -> None:
    with Records(tmp_path / "r.jsonl") as records:
        records.append({"key": 1})
        with pytest.raises(RunError, match="NaN"):
            records.append({"key": 2, "x": float("nan")})
        assert [record["key"] for record in records] == [1]
        records.append({"key": 2, "x": 0.0})
        assert len(records) == 2


def test_a_second_writer_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    first = Records(tmp_path / "r.jsonl")
    with pytest.raises(RunError, match="another process"):
        Records(tmp_path / "r.jsonl")
    first.close()
    Records(tmp_path / "r.jsonl").close()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
def test_a_full_disk_leaves_whole_lines_and_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    script = (
        "import resource, sys\n"
        "from unmask.runs.records import Records\n"
        "from unmask.errors import RunError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "records = Records(sys.argv[1])\n"
        "try:\n"
        "    for i in range(100): records.append({'key': i, 'text': 'x' * 80})\n"
        "except RunError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, env=os.environ, check=True
    )
    assert "disk is full" in done.stdout
    assert "make room" in done.stdout
    whole = path.read_bytes()
    assert whole.endswith(b"\n")
    kept = [json.loads(line)["key"] for line in whole.splitlines()]
    assert kept == list(range(len(kept)))
    assert kept
    with Records(path) as records:  # and it goes on where it was
        assert records.dropped == 0
        records.append({"key": len(kept)})


def test_a_path_that_cannot_be_is_one_clear_line(tmp_path: Path) -> None:
    with Records(tmp_path / "new" / "r.jsonl") as records:  # a directory is made where there is none
        records.append({"key": 1})
    with pytest.raises(RunError, match="check the path"):
        Records(tmp_path / "new" / "r.jsonl" / "r.jsonl")
