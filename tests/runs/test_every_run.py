"""Every kind of run: killed and resumed it ends as if unbroken, and it mixes with nothing else's."""

import fcntl
import json
import os
import sys

import pytest
from attempts import Runs, started_forker
from kinds import KINDS, prepare

RECORDED = [name for name, kind in KINDS.items() if kind.records]
DIRECTORIES = ["evaluate", "embed", "distill", "train", "finetune"]
FILES = ["score FILE", "benchmark blimp", "benchmark blanks"]


@pytest.fixture(scope="module")
def forker():
    with started_forker() as process:
        yield process


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("runs") / "home"
    prepare(home)
    return home


@pytest.fixture(scope="module")
def unbroken(forker, home, checkpoint, tmp_path_factory):
    """What each kind comes to without an interruption."""
    results = {}

    def result(name):
        if name not in results:
            out = tmp_path_factory.mktemp("unbroken") / KINDS[name].place
            results[name] = Runs(forker, name, home, str(checkpoint("bert")), out).resume()
        return results[name]

    return result


@pytest.fixture
def runs(request, forker, home, checkpoint, tmp_path):
    name = request.param
    return Runs(forker, name, home, str(checkpoint("bert")), tmp_path / KINDS[name].place)


def kind_of(runs):
    return KINDS[runs.order["kind"]]


def contents(out):
    """Every file of a run, to see that nothing was touched."""
    return {p: p.read_bytes() for p in out.parent.rglob("*") if p.is_file() and p.name != "log.txt"}


def leave_half_a_piece(runs):
    """Leave what a kill in the middle of writing leaves behind."""
    kind = kind_of(runs)
    if kind.records is not None:
        with kind.records(runs.out).open("ab") as records:
            records.write(b'{"key": "half a li')
    else:
        (runs.out / "checkpoint-5").mkdir(exist_ok=True)
        (runs.out / "checkpoint-5" / "trainer_state.json").write_text('{"global_st')


every_kind = pytest.mark.parametrize("runs", KINDS, indirect=True)


@every_kind
def test_a_run_that_is_killed_twice_ends_as_if_unbroken(runs, unbroken):
    kind = kind_of(runs)
    first = runs.kill(after=2 if kind.records else 1)
    before = kind.records(runs.out).read_bytes() if kind.records else b""
    assert runs.kill(after=first + 1) > first
    if kind.records is not None:
        after = kind.records(runs.out).read_bytes()
        assert after.startswith(before[: before.rindex(b"\n") + 1])  # nothing is lost
        keys = [json.loads(line)["key"] for line in after.splitlines(keepends=True) if line.endswith(b"\n")]
        assert len(set(keys)) == len(keys)  # and nothing twice
    leave_half_a_piece(runs)
    assert runs.resume() == unbroken(runs.order["kind"])


@every_kind
def test_other_settings_and_a_second_process_are_refused(runs, unbroken):
    kind = kind_of(runs)
    runs.kill(after=3 if kind.records else 1)
    before = contents(runs.out)
    refusal = runs.refuse(other=True)
    assert refusal.startswith("UsageError: ")
    assert " holds another run (" in refusal
    assert " was " in refusal
    handle = os.open(kind.held(runs.out), os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        refusal = runs.refuse()
    finally:
        os.close(handle)
    assert refusal.startswith("RunError: another process is at work in")
    assert contents(runs.out) == before
    assert runs.resume() == unbroken(runs.order["kind"])


@every_kind
@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
def test_a_full_disk_is_one_line_and_the_run_can_be_resumed(runs, unbroken):
    """The limit on the size of files stands in for the disk."""
    refusal = runs.refuse(largest_file=kind_of(runs).largest_file)
    assert refusal.startswith("RunError: ")
    assert "the disk is full: make room and start the same command again" in refusal
    if kind_of(runs).records is not None:
        kept = kind_of(runs).records(runs.out)
        assert not kept.exists() or kept.read_bytes()[-1:] in (b"\n", b"")
    assert runs.resume() == unbroken(runs.order["kind"])


@every_kind
def test_a_place_that_is_something_elses_is_left_as_it_is(runs):
    place = kind_of(runs).held(runs.out)
    if runs.order["kind"] in DIRECTORIES:
        place.mkdir()
        (place / "thesis.txt").write_text("do not touch")
    else:
        place.write_text("do not touch\n")
    before = contents(runs.out)
    assert runs.refuse().startswith("UsageError: ")
    assert contents(runs.out) == before


@pytest.mark.parametrize("runs", FILES, indirect=True)
def test_a_file_of_records_of_the_version_before_is_resumed(runs, unbroken):
    """Its first line was the settings themselves, without a format."""
    runs.kill(after=3)
    first, *rest = runs.out.read_text().splitlines(keepends=True)
    line = json.dumps({"key": "settings", **json.loads(first)["settings"]}) + "\n"
    runs.out.write_text(line + "".join(rest))
    ends = runs.resume()
    assert ends.splitlines()[1:] == unbroken(runs.order["kind"]).splitlines()[1:]
    assert ends.startswith(line + "".join(rest[:-1]))


@pytest.mark.parametrize("runs", [kind for kind in DIRECTORIES if kind != "distill"], indirect=True)
def test_a_directory_of_the_version_before_is_refused(runs):
    """Its settings had no format; those of an evaluation were in config.json."""
    runs.kill(after=2 if kind_of(runs).records else 1)
    path = kind_of(runs).held(runs.out) / "settings.json"
    settings = json.loads(path.read_text())["settings"]
    if runs.order["kind"] == "evaluate":
        of_the_run = ("unmask", "weights", "examples_drawn", "drawn", "skipped")
        config = {name: settings.pop(name) for name in of_the_run} | {"settings": settings}
        path.rename(path.with_name("config.json"))
        path.with_name("config.json").write_text(json.dumps(config))
    else:
        if runs.order["kind"] == "train":  # names of that version
            settings["steps"] = settings.pop("max_steps")
        path.write_text(json.dumps(settings))
    before = contents(runs.out)
    refusal = runs.refuse()
    assert refusal.startswith("UsageError: ")
    assert "of an earlier version of unmask" in refusal
    assert contents(runs.out) == before


@pytest.mark.parametrize("runs", RECORDED, indirect=True)
def test_a_format_of_a_later_version_is_refused(runs):
    runs.kill(after=2)
    held = kind_of(runs).held(runs.out)
    path = held / "settings.json" if held.is_dir() else held
    path.write_text(path.read_text().replace('"format": 2', '"format": 3'))
    assert "holds a run of another version of unmask (format 3" in runs.refuse()
