"""A run: resumed as if unbroken, refused where it would mix, told clearly where it can't be."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import toy_data

from unmask import lazy
from unmask.cli.terminal import Ticker
from unmask.errors import RunError, UsageError
from unmask.evaluation.run import evaluate, open_run
from unmask.evaluation.settings import Settings, parse_methods
from unmask.progress import Progress
from unmask.runs.records import Records

HERE = Path(__file__).parent
METHODS = ("product", "ag", "gibbs", "l2r")


class Stop(Exception):
    """A kill that a test can catch."""


class StopAfter(Progress):
    """Ends the run from within, after some examples."""

    def __init__(self, examples: int) -> None:
        self.left = examples

    def advanced(self, units: int) -> None:
        self.left -= units
        if self.left == 0:
            raise Stop


@pytest.fixture
def settings(tmp_path, checkpoint):
    data = toy_data.text_file(tmp_path / "sentences.txt", [*toy_data.SENTENCES, "dog", "man " * 80])
    return Settings(data=f"text={data}", model=str(checkpoint("bert")), examples=None, methods=METHODS)


def test_a_run_is_a_folder_with_everything_in_it(tmp_path, settings):
    summary = evaluate(settings, tmp_path / "run")
    folder = tmp_path / "run"
    assert {p.name for p in folder.iterdir()} == {
        "settings.json",
        "examples.jsonl",
        "summary.json",
        "cost.json",
        "report.md",
        "report.html",
    }
    assert json.loads((folder / "summary.json").read_text()) == summary
    assert summary["examples"] == 12
    assert summary["skipped"] == {"too short": 1, "too long": 1}
    assert list(summary["methods"]) == list(METHODS)
    records = [json.loads(line) for line in (folder / "examples.jsonl").read_text().splitlines()]
    assert len({r["key"] for r in records}) == 12
    for record in records:
        assert set(record["metrics"]) == set(METHODS)
        assert len(record["tokens"]) == 2
        assert all(token.removeprefix("##") in record["text"].lower() for token in record["tokens"])
    assert summary["drawn"] == 12
    assert summary["asked_for"] is None


def test_a_stopped_run_goes_on_where_it_was(tmp_path, settings):
    whole = evaluate(settings, tmp_path / "whole")
    for examples in (1, 4, 3):
        with pytest.raises(Stop):
            evaluate(settings, tmp_path / "broken", progress=StopAfter(examples))
    path = tmp_path / "broken" / "examples.jsonl"
    before = path.read_bytes()
    assert before.count(b"\n") == 8
    path.write_bytes(before + b'{"key": "half a li')  # and a kill in the middle of a line
    assert evaluate(settings, tmp_path / "broken") == whole
    assert path.read_bytes().startswith(before)
    assert path.read_bytes().count(b"\n") == 12
    same = [(tmp_path / name / "summary.json").read_bytes() for name in ("whole", "broken")]
    assert same[0] == same[1]
    took = json.loads((tmp_path / "broken" / "cost.json").read_text())
    assert [attempt["examples"] for attempt in took["attempts"]] == [1, 4, 3, 4]
    assert took["examples"] == 12
    assert took["seconds"] > took["seconds_of_work"] > 0  # one process, and a model to load each time
    assert took["seconds"] == pytest.approx(sum(attempt["seconds"] for attempt in took["attempts"]))
    if sys.platform != "win32":
        assert 10**7 < took["peak_memory"] < 10**11


@pytest.mark.parametrize("architecture", ["bert", "roberta"])
def test_a_first_word_and_a_mark_of_punctuation_go_on_no_word(tmp_path, checkpoint, architecture):
    """Whether words are marked at their start or inside."""
    text = "The old man, at the casino."
    data = toy_data.text_file(tmp_path / "one.txt", [text])
    settings = Settings(
        data=f"text={data}", model=str(checkpoint(architecture)), methods=("product",), candidates=2
    )
    seen = {}
    for seed in range(12):
        evaluate(replace(settings, seed=seed), tmp_path / str(seed))
        _, (record,) = open_run(tmp_path / str(seed))
        seen |= dict(zip(record["tokens"], record["inside"], strict=True))
    plain = {token.lstrip("Ġ").lower(): inside for token, inside in seen.items()}
    assert not any(plain[token] for token in ("the", ",", "."))


def test_a_run_that_goes_on_keeps_what_it_was_started_with(tmp_path, settings):
    """The same texts from another file, with a blank line more: the summary is still that of the folder."""
    first = evaluate(settings, tmp_path / "run")
    other = toy_data.text_file(tmp_path / "other.txt", [*toy_data.SENTENCES, "", "dog", "man " * 80])
    assert evaluate(replace(settings, data=f"text={other}"), tmp_path / "run") == first


def test_a_pivot_is_among_the_tokens_of_every_example(tmp_path, settings):
    """However unlikely it is, and however few tokens a blank may hold."""
    wanted = replace(settings, methods=("product", "hcb:pivot=casino"), support=4, candidates="all")
    assert evaluate(wanted, tmp_path / "run")["examples"] == 12


def test_a_run_without_matplotlib_is_refused_before_any_work(tmp_path, settings, monkeypatch):
    monkeypatch.setattr(lazy, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="needs matplotlib"):
        evaluate(settings, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "damage",
    [
        lambda record: {name: value for name, value in record.items() if name != "metrics"},
        lambda record: record | {"metrics": {"ag": record["metrics"]["ag"]}},
        lambda record: record | {"metrics": []},
        lambda record: record | {"number": "two"},
    ],
)
def test_a_record_that_is_none_is_told_with_its_line(tmp_path, settings, damage):
    evaluate(replace(settings, examples=3), tmp_path / "run")
    path = tmp_path / "run" / "examples.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[1] = damage(lines[1])
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(RunError, match="line 2 is damaged: restore the file"):
        open_run(tmp_path / "run")


@pytest.mark.parametrize("damage", [{"settings": {}}, {"digest": "0"}])
def test_settings_that_were_changed_by_hand_are_damaged(tmp_path, settings, damage):
    evaluate(replace(settings, examples=3), tmp_path / "run")
    path = tmp_path / "run" / "settings.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | damage))
    with pytest.raises(RunError, match="are damaged"):
        open_run(tmp_path / "run")


def test_a_mistyped_option_spoils_no_folder(tmp_path, settings):
    for wrong, told in (
        ({"methods": ("hcb:pivot=nosuchword",)}, "nosuchword"),
        ({"candidates": -1}, "candidates"),
        ({"candidates": 10**6}, "candidates"),
        ({"completion": "guess"}, "completion: expected"),
        ({"support": "verbs"}, "support: expected"),
    ):
        with pytest.raises(UsageError, match=told):
            evaluate(replace(settings, **wrong), tmp_path / "run")
        assert not (tmp_path / "run").exists()


def test_a_run_without_an_example_gives_its_folder_away(tmp_path, settings):
    evaluate(replace(settings, examples=1, seed=3), tmp_path / "run")
    (tmp_path / "run" / "examples.jsonl").write_text("")
    assert evaluate(replace(settings, examples=2), tmp_path / "run")["examples"] == 2
    assert open_run(tmp_path / "run")[0]["examples"] == 2


def test_lines_that_stand_there_twice_are_refused(tmp_path, settings):
    evaluate(replace(settings, examples=2), tmp_path / "run")
    path = tmp_path / "run" / "examples.jsonl"
    path.write_text(2 * path.read_text())
    with pytest.raises(RunError, match="twice the same"):
        open_run(tmp_path / "run")
    with pytest.raises(RunError, match="twice the same"):
        evaluate(replace(settings, examples=2), tmp_path / "run")


def test_a_run_can_be_read_while_it_is_written(tmp_path, settings):
    evaluate(replace(settings, examples=2), tmp_path / "run")
    with Records(tmp_path / "run" / "examples.jsonl"):
        assert len(open_run(tmp_path / "run")[1]) == 2


def test_a_finished_run_asks_for_no_cluster(tmp_path, settings):
    whole = evaluate(replace(settings, examples=1), tmp_path / "run")
    assert evaluate(replace(settings, examples=1), tmp_path / "run", ray="127.0.0.1:1") == whole


def test_a_checkpoint_is_no_run_and_is_left_alone(settings):
    folder = Path(settings.model)
    before = {path.name for path in folder.iterdir()}
    with pytest.raises(UsageError, match="holds no evaluation"):
        evaluate(settings, folder)
    with pytest.raises(UsageError, match="holds no evaluation"):
        open_run(folder)
    assert {path.name for path in folder.iterdir()} == before


def test_a_line_that_is_no_example_is_named(tmp_path, settings):
    evaluate(replace(settings, examples=1), tmp_path / "run")
    with (tmp_path / "run" / "examples.jsonl").open("a") as file:
        file.write("{}\n")
    with pytest.raises(RunError, match="line 2 is damaged"):
        evaluate(replace(settings, examples=1), tmp_path / "run")
    with pytest.raises(RunError, match="line 2 is damaged"):
        open_run(tmp_path / "run")
    (tmp_path / "run" / "examples.jsonl").unlink()
    with pytest.raises(UsageError, match="no finished example"):
        open_run(tmp_path / "run")
    assert not (tmp_path / "run" / "examples.jsonl").exists()


def test_a_finished_run_is_finished(tmp_path, settings):
    first = evaluate(settings, tmp_path / "run")
    seen = []

    class Watch(Progress):
        def started(self, stage: str, total: int) -> None:
            seen.append(total)

    assert evaluate(settings, tmp_path / "run", progress=Watch()) == first
    assert seen == [0]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"seed": 1}, "seed was 0, now 1"),
        ({"pairs": "contiguous"}, "pairs was random, now contiguous"),
        ({"methods": ("ag",)}, "methods was product, ag, gibbs, l2r, now ag"),
        ({"examples": 5}, "examples was None, now 5"),
        ({"candidates": 8}, "candidates was auto, now 8"),
    ],
)
def test_a_run_with_other_settings_refuses_to_mix(tmp_path, settings, change, told):
    with pytest.raises(Stop):
        evaluate(settings, tmp_path / "run", progress=StopAfter(2))
    before = (tmp_path / "run" / "examples.jsonl").read_bytes()
    with pytest.raises(UsageError, match=told):
        evaluate(replace(settings, **change), tmp_path / "run")
    assert (tmp_path / "run" / "examples.jsonl").read_bytes() == before


def test_other_texts_or_other_weights_refuse_to_mix(tmp_path, settings, checkpoint):
    from tiny import save_tiny

    with pytest.raises(Stop):
        evaluate(settings, tmp_path / "run", progress=StopAfter(1))
    other = save_tiny("bert", tmp_path / "other", seed=5)
    with pytest.raises(UsageError, match="weights was"):
        evaluate(replace(settings, model=str(other)), tmp_path / "run")
    data = toy_data.text_file(tmp_path / "fewer.txt", toy_data.SENTENCES[:5])
    with pytest.raises(UsageError, match="examples_drawn was"):
        evaluate(replace(settings, data=f"text={data}"), tmp_path / "run")
    moved = toy_data.text_file(tmp_path / "moved.txt", [*toy_data.SENTENCES, "dog", "man " * 80])
    assert evaluate(replace(settings, data=f"text={moved}"), tmp_path / "run")["examples"] == 12


def test_a_folder_that_is_something_else_is_misuse(tmp_path, settings):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("do not touch")
    with pytest.raises(UsageError, match="holds no evaluation"):
        evaluate(settings, tmp_path / "mine")
    with pytest.raises(UsageError, match="is a file"):
        evaluate(settings, tmp_path / "mine" / "thesis.txt")
    with pytest.raises(UsageError, match="holds no evaluation"):
        open_run(tmp_path / "mine")


def test_a_damaged_config_is_a_failure(tmp_path, settings):
    with pytest.raises(Stop):
        evaluate(settings, tmp_path / "run", progress=StopAfter(1))
    (tmp_path / "run" / "settings.json").write_text("{")
    with pytest.raises(RunError, match="is damaged"):
        evaluate(settings, tmp_path / "run")


def test_records_of_another_run_are_a_failure(tmp_path, settings):
    with pytest.raises(Stop):
        evaluate(settings, tmp_path / "run", progress=StopAfter(1))
    with (tmp_path / "run" / "examples.jsonl").open("a") as file:
        file.write('{"key": "stray"}\n')
    with pytest.raises(RunError, match=r"1 examples? that this run has not drawn"):
        evaluate(settings, tmp_path / "run")


def test_data_of_which_nothing_can_be_used_is_misuse(tmp_path, settings):
    data = toy_data.text_file(tmp_path / "short.txt", ["dog", "man " * 80, "cat"])
    with pytest.raises(UsageError, match="2 too short, 1 too long"):
        evaluate(replace(settings, data=f"text={data}"), tmp_path / "run")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"examples": 0}, "at least one example"),
        ({"seed": -1}, "seed: expected a whole number from 0"),
        ({"pairs": "all"}, "expected pairs as"),
        ({"methods": ("ag", "ag")}, "named twice"),
        ({"methods": ("adaptive-gradient",)}, "unknown method 'adaptive-gradient'"),
        ({"methods": ("ag:rounds=3",)}, "ag has no option 'rounds'"),
        ({"methods": ("hcb:order=up",)}, "'order' of hcb: expected"),
        ({"methods": ("hcb:order",)}, "NAME:OPTION=VALUE"),
    ],
)
def test_settings_that_cannot_be_are_refused_before_any_work(settings, change, told):
    with pytest.raises(UsageError, match=told):
        replace(settings, **change)


def test_methods_have_options():
    assert parse_methods(("hcb:order=ba:pivot=7", "ag:tolerance=1e-6")) == [
        ("hcb:order=ba:pivot=7", "hcb", {"order": "ba", "pivot": 7}),
        ("ag:tolerance=1e-6", "ag", {"tolerance": 1e-6}),
    ]


def test_progress_has_a_rate_and_the_time_left(tmp_path, settings, capsys):
    evaluate(settings, tmp_path / "run", progress=Ticker("examples", tick=0.0))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 12
    assert lines[5].startswith("6/12 examples, ")
    assert lines[5].endswith(" left")
    assert "/s" in lines[5] or "/min" in lines[5]
