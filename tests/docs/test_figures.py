"""The figures show what the pages say that they show."""

import importlib.util
import json
from pathlib import Path

import pytest

import unmask
from unmask.text.cloze import parse_braces

FIGURES = Path(__file__).parents[2] / "docs" / "figures"


@pytest.fixture(scope="module")
def cross():
    return json.loads((FIGURES / "cross_error.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("measure", ["log_q_error", "kl"])
@pytest.mark.parametrize("method", ["ag", "gibbs"])
def test_the_error_of_cross_conditionals_falls_with_k_to_nothing_at_all_tokens(cross, measure, method):
    for completion in ("plain", "learned"):
        errors = cross[measure][f"{completion} {method}"]
        assert errors[-2] < errors[len(errors) // 2] < errors[0]
        assert cross["K"][-1] == cross["tokens"]
        assert errors[-1] < 1e-4


@pytest.mark.parametrize("measure", ["log_q_error", "kl"])
@pytest.mark.parametrize("method", ["ag", "gibbs"])
def test_the_learned_completion_beats_the_plain_one(cross, measure, method):
    plain, learned = (cross[measure][f"{completion} {method}"] for completion in ("plain", "learned"))
    pairs = list(zip(cross["K"], plain, learned, strict=True))[:-1]
    assert all(better < worse for k, worse, better in pairs if k >= 64)


def test_the_left_out_error_tells_the_true_one(cross):
    estimates = zip(cross["K"], cross["left_out"]["learned"], cross["unevaluated"]["learned"], strict=True)
    for k, estimate, truth in list(estimates)[:-1]:
        if k >= 64:
            assert estimate == pytest.approx(truth, rel=0.5)


def test_the_numbers_are_measured_with_a_row_for_every_token(monkeypatch):
    # by its place: other figures are called like recipes
    spec = importlib.util.spec_from_file_location("cross_error_figure", FIGURES / "cross_error.py")
    cross_error = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(cross_error)
    monkeypatch.setattr(cross_error, "TOKENS", 600)  # more than would have rows of their own
    mlm = unmask.load()
    cloze = parse_braces(cross_error.TEXTS[0], mlm.vocabulary, mlm.window)
    found = cross_error.measure(mlm, [cloze], [16, 600])
    for completion in cross_error.COLOURS:
        few, everything = found["unevaluated"][completion]
        assert few > 0.01
        assert everything == 0
