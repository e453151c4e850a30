"""What `auto` gives is compared with exact values pair by pair, and the sentences say what came out."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "recipes"))

import table_exact
from table_exact import METHODS, differences, leader, of_one_model, pairs_of, tables

RUN = "xsum-contiguous"


def record(key, loss):
    """A pair whose log P-PPL is `loss` by ag, and less by 0.1 for each method further."""
    metrics = {
        m: {
            "log_prob": -2 * (loss - n / 10),
            "log_a_given_b": -1.0,
            "log_b_given_a": -1.0,
            "a_kl": 0.5,
            "g_kl": 0.25,
        }
        for n, m in enumerate(METHODS)
    }
    return {"key": key, "metrics": metrics}


@pytest.fixture
def found():
    auto = [record(key, loss) for key, loss in (("b", 4.0), ("a", 3.0), ("c", 9.0))]
    exact = [record(key, loss) for key, loss in (("a", 3.2), ("b", 4.2))]
    return {
        RUN: pairs_of(auto, exact),
        "made": {RUN: {"date": "2026-11-18", "weights": "a", "pair_head": "b"}},
    }


def test_pairs_are_matched_by_key_and_those_without_exact_values_are_left_out(found):
    said = found[RUN]
    assert said["examples"] == 2
    assert said["pairs"]["ag"]["log P-PPL"] == [[3.0, 3.2], [4.0, 4.2]]
    assert said["pairs"]["gibbs"]["A-KL"] == [[0.5, 0.5], [0.5, 0.5]]


def test_the_bias_is_auto_less_exact_and_the_lead_is_among_exact_values(found):
    compared = differences(found[RUN]["pairs"])
    for place, method in enumerate(METHODS):
        assert compared["bias"][method]["value"] == pytest.approx(-0.2)
        assert compared["less"][method]["value"] == pytest.approx(-place / 10)


def entry(value, half):
    return {"value": value, "low": value - half, "high": value + half}


@pytest.mark.parametrize(
    ("less", "end"),
    [
        (entry(-0.2, 0.1), "`gibbs` leads."),
        (entry(0.2, 0.1), "`ag` leads."),
        (entry(0.2, 0.3), "neither leads."),
    ],
)
def test_the_sentence_says_who_leads_or_that_nobody_does(less, end):
    told = leader({RUN: {"bias": {"ag": entry(-0.07, 0.01)}, "less": {"gibbs": less}}}, {RUN: 100})
    assert told.endswith(end)


def test_runs_of_other_weights_are_not_shown_beside_newer_ones(found):
    older = {"date": "2026-11-01", "weights": "z", "pair_head": "b"}
    mixed = found | {"snli-random": found[RUN], "made": found["made"] | {"snli-random": older}}
    assert list(of_one_model(mixed)) == [RUN]
    assert tables(mixed) == tables(found)
    assert "2 of xsum contiguous" in tables(found)["source"]


def test_nothing_is_shown_before_anything_was_measured():
    assert table_exact.tables({}) == {}
