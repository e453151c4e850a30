"""A query is checked once, when it is made, and says what it holds."""

import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

import unmask
from unmask import Query, UsageError
from unmask.inference.method_names import CONSTRUCTION_NAMES, method_names
from unmask.inference.query import SPECS


def test_it_is_frozen_and_hashable_and_can_be_sent_elsewhere() -> None:
    query = Query("The [MASK]", method="hcb", options={"order": "ba", "pivot": 3}, include=["man", 7])
    with pytest.raises(FrozenInstanceError):
        query.seed = 1  # type: ignore[misc]
    again = pickle.loads(pickle.dumps(query))
    assert (again, hash(again)) == (query, hash(query))
    assert query != replace(query, seed=1)


def test_the_options_are_its_own() -> None:
    given = {"order": "ba"}
    query = Query(method="hcb", options=given)
    given["order"] = "up"
    assert query.options == {"order": "ba"}


def test_values_are_kept_as_plain_python() -> None:
    query = Query(
        candidates=np.int64(5),
        support=np.int32(6),
        seed=np.uint8(7),
        include=np.array([1, 2]),
        method="ag-weighted",
        options={"power": np.float32(0.5), "sweeps": np.int64(3)},
    )
    assert (query.candidates, query.support, query.seed, query.include) == (5, 6, 7, (1, 2))
    assert query.options == {"power": 0.5, "sweeps": 3}
    kept = (query.candidates, query.support, query.seed, *query.include, *query.options.values())
    assert {type(value) for value in kept} == {int, float}


def test_keywords_that_are_no_fields_are_options_of_the_method() -> None:
    query = Query.of("The [MASK]", {"method": "hcb", "order": "ba", "options": {"pivot": "man"}})
    assert query.options == {"pivot": "man", "order": "ba"}
    assert Query.of(query, {"seed": 3}) == replace(query, seed=3)
    with pytest.raises(UsageError, match="unknown argument 'suport': did you mean 'support'"):
        Query.of("The [MASK]", {"suport": "all"})
    with pytest.raises(UsageError, match="ag has no option 'colour'"):
        Query.of("The [MASK]", {"colour": "red"})


def test_fill_takes_a_query_as_well(mlm_of) -> None:
    text, given = "The [MASK] [MASK] here", {"method": "hcb", "options": {"order": "ba"}, "candidates": 9}
    by_keywords = unmask.fill(text, mlm=mlm_of("bert"), **given)
    assert unmask.fill(Query(text, **given), mlm=mlm_of("bert")).top(3) == by_keywords.top(3)


def test_the_names_are_those_of_the_registry():
    assert tuple(unmask.CONSTRUCTIONS) == CONSTRUCTION_NAMES


@pytest.mark.parametrize("method", method_names())
def test_an_unknown_option_is_refused_by_every_method(method: str) -> None:
    with pytest.raises(UsageError, match="has no option 'colour'"):
        Query(method=method, options={"colour": 3})


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("hcb", {"order": "ba"}),  # of two blanks: where the pivot stands
        ("hcb", {"order": "confidence"}),  # of more: the order of the chain
        ("chain", {"order": (2, 0, 1), "block": 1, "beam": 4}),
        ("chain", {"pairs": "ag-weighted", "power": 0.5}),
        ("ag", {"pairs": "hcb", "pivot": "man"}),
        ("grid", {"tolerance": 1e-6}),
    ],
)
def test_what_is_an_option_for_some_number_of_blanks_is_accepted(method, options) -> None:
    assert Query(method=method, options=options).options == options


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("candidates", "12", 12),
        ("candidates", "all", "all"),
        ("support", "7", 7),
        ("support", "words", "words"),
        ("seed", "3", 3),
        ("seed", "lucky", "lucky"),
    ],
)
def test_strings_of_a_command_line_are_read(field, text, value) -> None:
    assert SPECS[field].kind.parse(text) == value


def test_an_unknown_option_is_answered_with_all_that_there_are() -> None:
    with pytest.raises(UsageError) as refusal:
        Query("[MASK] [MASK] [MASK]", method="ag", options={"colour": 1})
    assert "expected tolerance, sweeps, order, block, beam or pairs" in str(refusal.value)
