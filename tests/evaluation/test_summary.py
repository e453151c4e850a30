"""The summary: what the records say, by brute force; and the report that is made of it."""

import html
import json
import re
import subprocess
from itertools import pairwise

import numpy as np
import pytest
from browser import find

from unmask.evaluation import figures
from unmask.evaluation.figures import few_ticks, told_apart
from unmask.evaluation.report import (
    compare_runs,
    comparison_page,
    comparison_table,
    facts,
    markdown,
    method_table,
    page,
    side_by_side,
)
from unmask.evaluation.summary import summarise

METHODS = ["product", "ag"]


def record(number, distance, inside, gain, ids=(1, 2, 3)):
    generator = np.random.default_rng(number)
    base = float(-8 - 3 * generator.random())

    def metrics(log_prob, rank):
        return {
            "log_prob": log_prob,
            "log_a_given_b": log_prob / 2 - 0.5,
            "log_b_given_a": log_prob / 2 + 0.25,
            "a_kl": 0.5 - log_prob / 100,
            "g_kl": 0.25,
            "reverse_kl": 0.75,
            "jsd": 0.1,
            "rank": rank,
        }

    grid = [[-1.0, -2.0], [-3.0, -4.0]]
    return {
        "number": number,
        "key": str(number),
        "text": f"The <man> & dog {number}.",
        "ids": list(ids),
        "blanks": [0, 1],
        "tokens": ["man", "##s"],
        "distance": distance,
        "inside": inside,
        "metrics": {"product": metrics(base, 40), "ag": metrics(base + gain, 1 + number)},
        "incompatibility": 0.5,
        "not_converged": ["ag"] if number == 3 else [],
        "passes": 257,
        "completion_error": {"a_given_b": 0.02, "b_given_a": None},
        "mass_outside_support": 0.0,
        "table": {"a": ["man", "dog"], "b": ["##s", "is"], "log_probs": {"product": grid, "ag": grid}},
    }


RECORDS = [
    record(0, 1, [False, True], 1.0, ids=(1, 2, 3)),
    record(1, 1, [False, False], 0.5, ids=(1, 1, 4)),
    record(2, 7, [False, False], 2.0, ids=(5, 6, 4)),
    record(3, 30, [True, False], -0.5, ids=(1, 3, 4)),
]
SETTINGS = {
    "model": "m",
    "data": "text=x",
    "pairs": "random",
    "support": 2000,
    "candidates": "auto",
    "methods": METHODS,
    "examples": 4,
    "drawn": 4,
    "skipped": {"unlabeled": 2, "too short": 0},
}


@pytest.fixture
def summary():
    return summarise(RECORDS, SETTINGS)


def test_perplexities_are_those_of_the_definition(summary):
    for method in METHODS:
        all_metrics = [r["metrics"][method] for r in RECORDS]
        joint = np.exp(np.mean([-m["log_prob"] / 2 for m in all_metrics]))
        unary = np.exp(np.mean([-(m["log_a_given_b"] + m["log_b_given_a"]) / 2 for m in all_metrics]))
        found = summary["methods"][method]
        assert found["p_ppl"]["value"] == pytest.approx(joint)
        assert found["u_ppl"]["value"] == pytest.approx(unary)
        assert found["a_kl"]["value"] == pytest.approx(np.mean([m["a_kl"] for m in all_metrics]))
        assert found["p_ppl"]["low"] <= joint <= found["p_ppl"]["high"]
    assert summary["methods"]["ag"]["recall@1"]["value"] == 0.25
    assert summary["methods"]["ag"]["recall@5"]["value"] == 1
    assert summary["methods"]["product"]["recall@10"]["value"] == 0
    assert summary["methods"]["ag"]["median_rank"] == 2.5
    assert summary["methods"]["ag"]["not_converged"] == 1


def test_comparisons_are_of_pairs(summary):
    (found,) = [c for c in summary["comparisons"] if c["metric"] == "p_ppl"]
    assert (found["first"], found["second"]) == ("product", "ag")
    assert found["value"] == pytest.approx(np.mean([1.0, 0.5, 2.0, -0.5]) / 2)
    assert -0.25 <= found["low"] < found["value"] < found["high"] <= 1
    (found,) = [c for c in summary["comparisons"] if c["metric"] == "recall@5"]
    assert found["value"] == -1


def test_breakdowns_part_the_examples(summary):
    told = {
        name: {g["group"]: g["examples"] for g in groups} for name, groups in summary["breakdowns"].items()
    }
    assert told["distance"] == {"1": 2, "5-8": 1, "17 or more": 1}
    assert told["word class"] == {"inside, start": 1, "start, inside": 1, "start, start": 2}
    # by the rarer of the two true tokens, which occur 1, 4, 1 and 2 times in the sentences of the sample
    assert list(told["frequency"].values()) == [2, 1, 1]
    near = summary["breakdowns"]["distance"][0]["methods"]["ag"]["p_ppl"]["value"]
    losses = [-r["metrics"]["ag"]["log_prob"] / 2 for r in RECORDS[:2]]
    assert near == pytest.approx(np.exp(np.mean(losses)))
    for groups in summary["breakdowns"].values():
        for group in groups:
            assert set(group["methods"]["ag"]) >= {"u_ppl", "a_kl", "g_kl", "reverse_kl", "jsd", "recall@10"}
    assert summary["breakdowns"]["distance"][0]["methods"]["ag"]["median_rank"] == 1.5
    far = summary["breakdowns"]["distance"][1]["methods"]["ag"]
    assert far["recall@1"] == {"value": 0, "low": 0, "high": 0}
    assert far["a_kl"]["value"] == pytest.approx(RECORDS[2]["metrics"]["ag"]["a_kl"])


def test_the_order_of_the_records_does_not_matter(summary):
    assert summarise(RECORDS[::-1], SETTINGS) == summary


@pytest.mark.slow
def test_one_method_and_one_example_are_enough():
    alone = SETTINGS | {"methods": ["ag"]}
    found = summarise(RECORDS[:1], alone)
    assert found["comparisons"] == []
    assert "P-PPL" in markdown(found)
    assert "<svg" in page(found, RECORDS[:1])


def test_the_report_says_what_was_measured(summary):
    told = " ".join(facts(summary))
    for part in (
        "text=x",
        "4 examples",
        "2 unlabeled",
        "257 forward passes",
        "0.020 nats",
        "ag on 1",
        "support 2000",
    ):
        assert part in told
    heads, rows = method_table(summary)
    assert [row[0] for row in rows] == ["ag", "product"]  # the best first
    assert all(len(row) == len(heads) for row in rows)
    assert "Paired differences of A-KL (row less column" in markdown(summary)
    assert "Paired differences of G-KL (row less column" in markdown(summary)
    _, rows = comparison_table(summary, "p_ppl")
    assert rows[0][2].startswith("-0.375")
    assert rows[1][1].startswith("+0.375")


def test_the_report_says_what_is_missing():
    told = facts(summarise(RECORDS[:3], SETTINGS))[0]
    assert "3 of 4 examples: not finished" in told
    more = SETTINGS | {"examples": 1000}
    assert "4 examples, all that could be drawn of 1000 asked for" in facts(summarise(RECORDS, more))[0]
    every = SETTINGS | {"examples": None}
    assert "4 examples (passed over" in facts(summarise(RECORDS, every))[0]


@pytest.mark.slow
def test_the_page_needs_no_network_and_escapes_what_it_shows(summary):
    text = page(summary, RECORDS)
    assert text.count("<svg") == 2
    assert not re.search(r'(src|href)="https?:', text)
    assert "<script" not in text
    assert "<link" not in text
    assert html.escape("The <man> & dog 2.") in text
    assert "The <man>" not in text
    assert "gains most over product" in text
    assert "gains least over product" in text
    assert page(summary, RECORDS) == text


@pytest.mark.browser
def test_the_page_opens_in_a_browser(summary, tmp_path):
    """Rendered by Chromium, if there is one: each figure has its place, and something is drawn there."""
    browser, _ = find()
    measure = (
        "<script>document.title = 'boxes ' + JSON.stringify([...document.querySelectorAll('svg')].map(svg =>"
        "{const box = svg.getBoundingClientRect(); return [box.x, box.y, box.width, box.height]}))</script>"
    )
    (tmp_path / "report.html").write_text(page(summary, RECORDS) + measure, encoding="utf-8")
    shot = tmp_path / "report.png"
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1100,2400"]
    address = (tmp_path / "report.html").as_uri()

    def rendered(*more: str) -> str:
        done = subprocess.run(
            [browser, *options, *more, address], capture_output=True, timeout=120, check=True, text=True
        )
        return done.stdout

    title = re.search(r"<title>boxes (.*?)</title>", rendered("--dump-dom"))
    assert title is not None
    rendered(f"--screenshot={shot}")
    from matplotlib.image import imread

    pixels = imread(shot)[..., :3]
    boxes = json.loads(title[1])
    assert len(boxes) == 2
    for box in boxes:
        x, y, width, height = map(round, box)
        assert width > 300
        assert height > 100
        drawn = pixels[y : y + height, x : x + width]
        assert drawn.shape[:2] == (height, width)  # all of it is in the picture
        assert 0.01 < (drawn.min(-1) < 0.8).mean() < 0.7


@pytest.mark.parametrize("low", [0.02, 1.0, 33.0, 48.0, 91.0, 5000.0])
@pytest.mark.parametrize("ratio", [1.1, 1.3, 2.1, 9.0, 4000.0])
def test_an_axis_has_a_few_numbers_whatever_its_range(low, ratio):
    ticks = few_ticks(low, low * ratio)
    assert (2 if ratio < 1.2 else 3) <= len(ticks) <= 7
    assert all(low <= tick <= low * ratio * 1.05 for tick in ticks)
    assert ticks == sorted(set(ticks))


def test_runs_stand_side_by_side(summary):
    other = summarise(RECORDS[:3], SETTINGS | {"methods": ["ag"]})
    tables = side_by_side({"one": summary, "two": other})
    heads, rows = tables["P-PPL"]
    assert heads == ["method", "one", "two"]
    assert [row[0] for row in rows] == METHODS
    assert rows[0][2] == ""
    assert rows[1][1] != rows[1][2]
    assert [run["run"] for run in compare_runs({"one": summary, "two": other})["runs"]] == ["one", "two"]
    assert "Evaluations side by side" in comparison_page({"one": summary, "two": other})


def test_lines_of_a_figure_have_colours_that_can_be_told_apart():
    for methods in (
        ["product", "ag", "gibbs", "ag-weighted:power=0.25", "ag-weighted:power=0.5"],
        ["l2r", "mrf-logit", "hcb", "mixture", "hcb:order=ba"],
    ):
        assert len(set(told_apart(methods).values())) == 5


@pytest.mark.slow
def test_a_group_of_few_examples_does_not_stretch_the_axis(monkeypatch):
    """Three examples whose losses are far apart would squeeze the lines of all others."""
    limits = []
    draw = figures._svg
    monkeypatch.setattr(
        figures, "_svg", lambda figure: limits.append(figure.axes[0].get_ylim()) or draw(figure)
    )
    many = [record(n, 1, [False, False], 0.5) for n in range(12)]
    few = [record(n, 7, [False, False], gain) for n, gain in ((12, 0.5), (13, -9.0), (14, 9.0))]
    config = SETTINGS | {"drawn": 15}
    figures.by_distance(summarise(many + few, config))
    figures.by_distance(summarise(many + [record(n, 7, [False, False], 0.5) for n in range(12, 15)], config))
    assert limits[0] == pytest.approx(limits[1])


def test_bars_of_perplexities_start_at_1(monkeypatch, summary):
    starts = []
    draw = figures._svg
    monkeypatch.setattr(
        figures, "_svg", lambda figure: starts.extend(a.get_xlim()[0] for a in figure.axes) or draw(figure)
    )
    figures.bars(summary)
    assert starts == [1.0, 1.0]


def test_groups_of_distance_leave_no_gap():
    from unmask.evaluation.summary import DISTANCES

    assert DISTANCES[0][0] == 1
    assert DISTANCES[-1][1] is None
    assert all(high + 1 == low for (_, high), (low, _) in pairwise(DISTANCES))
