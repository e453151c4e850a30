"""A run of any kind, from within: what it claims, what it takes over, and the example of CONTRIBUTING.md."""

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest

from unmask.errors import RunError, UsageError
from unmask.progress import Progress
from unmask.runs.claim import locked
from unmask.runs.run import Run, finished, in_batches
from unmask.runs.settings_record import RunKind

TOY = RunKind("toy run", records="records.jsonl", may_change=frozenset({"verbose"}), prepared=("cache",))
TASKS = [{"key": n, "text": text} for n, text in enumerate(["a", "bb", "ccc"])]


def lengths():
    return lambda tasks: [{"key": task["key"], "length": len(task["text"])} for task in tasks]


def records_of(out, settings, tasks=TASKS, **options):
    with Run.in_directory(TOY, out, settings) as run:
        list(run.work(tasks, lengths, **options))
        return list(run)


def test_a_task_is_done_once_and_a_finished_run_makes_no_worker(tmp_path):
    out = tmp_path / "run"
    found = records_of(out, {"seed": 0}, TASKS[:2])
    assert found == [{"key": 0, "length": 1}, {"key": 1, "length": 2}]
    assert records_of(out, {"seed": 0}) == [*found, {"key": 2, "length": 3}]
    with Run.in_directory(TOY, out, {"seed": 0}) as run:
        assert list(run.work(TASKS, lambda: pytest.fail("nothing is left"), ray="127.0.0.1:1")) == []


def test_progress_is_told_of_what_was_done_before(tmp_path):
    told = []

    class Told(Progress):
        def resumed(self, done, total, torn):
            told.append((done, total, torn))

        def started(self, stage, total):
            told.append((stage, total))

    records_of(tmp_path / "run", {}, TASKS[:2])
    records_of(tmp_path / "run", {}, progress=Told(), stage="texts")
    assert told == [(2, 3, False), ("texts", 1)]


def test_a_stream_of_tasks_is_read_as_the_work_goes_on(tmp_path):
    read = []

    def stream():
        for task in TASKS:
            read.append(task["key"])
            yield task

    with Run.in_directory(TOY, tmp_path / "run", {}) as run:
        work = run.work(stream(), lengths)
        assert next(work)["key"] == 0
        assert read == [0]


def test_the_settings_record_says_what_the_run_is(tmp_path):
    records_of(tmp_path / "run", {"seed": 0, "sizes": (1, 2)})
    record = json.loads((tmp_path / "run" / "settings.json").read_text())
    assert record["format"] == 2
    assert record["kind"] == "toy run"
    assert record["settings"] == {"seed": 0, "sizes": [1, 2]}


def test_settings_that_may_change_are_those_of_the_beginning_until_they_are_updated(tmp_path):
    out = tmp_path / "run"
    records_of(out, {"seed": 0, "verbose": False})
    with Run.in_directory(TOY, out, {"seed": 0, "verbose": True}) as run:
        assert run.settings["verbose"] is False
        run.update_settings({"seed": 0, "verbose": True})
    with Run.in_directory(TOY, out, {"seed": 0, "verbose": True}) as run:
        assert run.settings["verbose"] is True
    with pytest.raises(UsageError, match="seed was 0, now 1"):
        records_of(out, {"seed": 1})


def test_a_directory_in_which_nothing_is_finished_is_taken_over(tmp_path):
    out = tmp_path / "run"
    records_of(out, {"seed": 0}, [])
    (out / "cache").mkdir()
    (out / "cache" / "old").touch()
    assert len(records_of(out, {"seed": 1})) == 3
    assert not (out / "cache").exists()
    records_of(tmp_path / "other", {"seed": 0}, [])
    (tmp_path / "other" / "thesis.txt").touch()
    with pytest.raises(UsageError, match="holds another run"):
        records_of(tmp_path / "other", {"seed": 1})


def test_a_file_in_which_nothing_is_finished_is_taken_over(tmp_path):
    out = tmp_path / "run.jsonl"
    for seed in (0, 1):
        with Run.in_file(TOY, out, {"seed": seed}) as run:
            list(run.work(TASKS[:seed], lengths))
    with Run.in_file(TOY, out, {"seed": 1}) as run:
        assert list(run) == [{"key": 0, "length": 1}]
    with pytest.raises(UsageError, match="seed was 1, now 0"), Run.in_file(TOY, out, {"seed": 0}):
        pass


def test_another_kind_of_run_is_told_by_its_name(tmp_path):
    records_of(tmp_path / "run", {})
    other = RunKind("parade")
    with pytest.raises(UsageError, match=r"holds no parade but another kind of run \(toy run\)"):
        Run.in_directory(other, tmp_path / "run", {}).__enter__()
    with Run.in_file(TOY, tmp_path / "file.jsonl", {}):
        pass
    with pytest.raises(UsageError, match="another kind of run"):
        Run.in_file(other, tmp_path / "file.jsonl", {}).__enter__()


def test_a_locked_directory_that_stays_empty_is_removed(tmp_path):
    with locked(tmp_path / "new"), pytest.raises(RunError, match="another process is at work"):
        records_of(tmp_path / "new", {})
    assert not (tmp_path / "new").exists()


def test_an_attempt_is_counted_where_the_kind_wants_it(tmp_path):
    timed = RunKind("timed run", records="records.jsonl", timed=True)
    for number in (1, 2, 3):
        with Run.in_directory(timed, tmp_path / "run", {}) as run:
            (record,) = run.work(TASKS[number - 1 : number], lengths)
            assert record["attempt"] == number
            assert record["clock"] >= 0


def test_batches_are_worked_off_in_their_order():
    batches = in_batches(iter(range(5)), 2)
    assert list(finished(batches, lambda: sum)) == [1, 5, 4]
    assert list(in_batches([], 2)) == []


def test_every_setting_that_may_change_is_a_setting():
    """A setting that is renamed here and not there would have to be the same from then on."""
    from unmask.embeddings.files import VECTORS
    from unmask.embeddings.files import Settings as EmbedSettings
    from unmask.evaluation.run import EVALUATION, SETTINGS_FIELDS
    from unmask.tasks import Settings as TaskSettings
    from unmask.tasks.run import FINETUNING
    from unmask.training import Settings as TrainingSettings
    from unmask.training.run import TRAINING

    for kind, settings in (
        (VECTORS, EmbedSettings),
        (FINETUNING, TaskSettings),
        (TRAINING, TrainingSettings),
    ):
        assert kind.may_change <= {field.name for field in fields(settings)}
    assert EVALUATION.may_change <= SETTINGS_FIELDS


def test_the_kind_of_run_of_the_guide_works(tmp_path):
    """The program of CONTRIBUTING.md, "Adding a kind of run"."""
    guide = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = guide[guide.index("## Adding a kind of run") :]
    program = {"__name__": "guide"}
    exec(re.search(r"```python\n(.*?)```", section, re.S)[1], program)
    (tmp_path / "texts.txt").write_text("one two\nthree\n")
    settings = program["CountSettings"](str(tmp_path / "texts.txt"))
    for _ in range(2):
        assert program["count_words"](settings, tmp_path / "run") == 3
    assert json.loads((tmp_path / "run" / "total.json").read_text()) == {"words": 3}
    assert len((tmp_path / "run" / "counts.jsonl").read_text().splitlines()) == 2
