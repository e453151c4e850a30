"""`unmask evaluate` and `unmask report`: tables for people, JSON for machines, one line for what is wrong."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import toy_data

Run = Callable[..., Any]


@pytest.fixture
def data(tmp_path: Path) -> str:
    return f"text={toy_data.text_file(tmp_path / 'sentences.txt')}"


@pytest.fixture
def made(run: Run, bert: str, data: str, tmp_path: Path) -> Path:
    """A finished run."""
    out = tmp_path / "made"
    done = run(
        "evaluate", "--data", data, "--model", bert, "--examples", 5, "--methods", "product,ag", "--out", out
    )
    assert done.code == 0, done.err
    return out


def test_a_run_prints_a_table_and_says_where_the_report_is(
    run: Run, bert: str, data: str, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    done = run(
        "evaluate", "--data", data, "--model", bert, "--examples", 4, "--methods", "product,l2r", "--out", out
    )
    assert done.code == 0
    assert "P-PPL" in done.out
    assert "U-PPL" in done.out
    assert f"report: {out / 'report.html'}" in done.out
    assert "4/4 examples" in done.err
    assert "random pairs, 4 examples" in done.err


def test_json_is_one_object_and_nothing_else(run: Run, bert: str, data: str, made: Path) -> None:
    again = [
        "evaluate",
        "--data",
        data,
        "--model",
        bert,
        "--examples",
        5,
        "--methods",
        "product,ag",
        "--out",
        made,
    ]
    done = run(*again, "--json")
    assert json.loads(done.out) == json.loads((made / "summary.json").read_text())
    one = run("report", made, "--json")
    assert json.loads(one.out) == json.loads(done.out)


def test_a_report_is_made_anew_from_the_records(run: Run, made: Path) -> None:
    before = {name: (made / name).read_bytes() for name in ("summary.json", "report.md", "report.html")}
    for name in before:
        (made / name).unlink()
    assert run("report", made).code == 0
    assert {name: (made / name).read_bytes() for name in before} == before


def test_several_runs_stand_side_by_side(run: Run, bert: str, data: str, made: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    settings = ("--methods", "ag", "--pairs", "contiguous", "--examples", 5)
    run("evaluate", "--data", data, "--model", bert, *settings, "--out", other)
    page = tmp_path / "both.html"
    done = run("report", made, other, "--out", page)
    assert done.code == 0
    lines = [line.split() for line in done.out.splitlines()]
    assert lines[2][:2] == ["run", "model"]
    assert ["method", "made", "other"] in lines
    assert "named twice" in run("report", made, made).line
    assert "Evaluations side by side" in page.read_text()
    for folder in (made, other):
        (folder / "report.md").unlink()
    both = json.loads(run("report", made, other, "--json").out)
    assert not (made / "report.md").exists()  # a comparison writes nothing into the runs
    assert [r["pairs"] for r in both["runs"]] == ["random", "contiguous"]


def test_a_run_that_is_not_finished_says_so_beside_others(
    run: Run, bert: str, data: str, made: Path, tmp_path: Path
) -> None:
    part = tmp_path / "part"
    part.mkdir()
    lines = (made / "examples.jsonl").read_text().splitlines(keepends=True)
    (part / "examples.jsonl").write_text("".join(lines[:2]))
    (part / "settings.json").write_text((made / "settings.json").read_text())
    page = tmp_path / "both.html"
    done = run("report", made, part, "--out", page)
    assert done.code == 0
    assert done.err == "note: part: 2 of 5 examples: not finished\n"
    assert "2 of 5 examples: not finished" in page.read_text()
    assert json.loads(run("report", made, part, "--json").out)["runs"][1]["drawn"] == 5


def test_a_run_that_goes_on_says_where_and_that_a_torn_line_is_done_anew(
    run: Run, bert: str, data: str, made: Path
) -> None:
    lines = (made / "examples.jsonl").read_bytes().splitlines(keepends=True)
    (made / "examples.jsonl").write_bytes(b"".join(lines[:3]) + lines[3][:40])
    wanted = (made / "summary.json").read_text()
    options = ["--data", data, "--model", bert, "--examples", 5, "--methods", "product,ag", "--out", made]
    done = run("evaluate", *options)
    assert done.code == 0
    assert "resuming: 3 of 5 examples are done; the last one was cut off and is done anew" in done.err
    assert (made / "summary.json").read_text() == wanted


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--data", "text=/no/such/file"], "/no/such/file does not exist: check the path"),
        (["--data", "books"], "expected data as snli=DIR, xsum=FILE, text=FILE or hub:NAME, got 'books'"),
        (["--examples", "some"], "expected a number of examples, or all, got 'some'"),
        (["--examples", "0"], "expected at least one example, got 0"),
        (
            ["--pairs", "near"],
            "expected pairs as random, contiguous, distance=3 or distance=1..8, got",
        ),
        (["--methods", "best"], "unknown method 'best'"),
        (["--methods", "hcb:order=up"], "option 'order' of hcb: expected 'ab' or 'ba'"),
        (
            ["--candidates", "many"],
            "candidates: expected a whole number from 0 on",
        ),
        (["--workers", "2"], "workers are those of a Ray cluster: give --ray too"),
        (["--ray", "nowhere"], "expected the address of a Ray cluster as HOST:PORT"),
    ],
)
def test_misuse_is_one_line(
    run: Run, bert: str, data: str, tmp_path: Path, change: list[str], message: str
) -> None:
    done = run(
        "evaluate", "--data", data, "--model", bert, "--examples", 2, "--out", tmp_path / "run", *change
    )
    assert done.code == 2
    assert message in done.line


def test_an_unreachable_cluster_is_a_failure_of_one_line(
    run: Run, bert: str, data: str, tmp_path: Path
) -> None:
    done = run("evaluate", "--data", data, "--model", bert, "--out", tmp_path / "run", "--ray", "127.0.0.1:9")
    assert done.code == 1
    assert "can't reach a Ray cluster at '127.0.0.1:9'" in done.line


def test_other_settings_are_refused(run: Run, bert: str, data: str, made: Path) -> None:
    done = run("evaluate", "--data", data, "--model", bert, "--examples", 5, "--methods", "ag", "--out", made)
    assert done.code == 2
    assert "holds another run (methods was product, ag, now ag): give another --out" in done.line


def test_a_folder_that_is_no_run_has_no_report(run: Run, tmp_path: Path, made: Path) -> None:
    done = run("report", tmp_path)
    assert done.code == 2
    assert "holds no evaluation" in done.line
    done = run("report", made, "--out", tmp_path / "x.html")
    assert done.code == 2
    assert "--out is for the comparison of several runs" in done.line
    (made / "examples.jsonl").write_text("")
    assert "holds no finished example yet" in run("report", made).line
