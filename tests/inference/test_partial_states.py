"""Cross conditionals by partial passes: corrected by whole ones, judged by them, and fewer passes in all."""

import math

import pytest
import torch

import unmask
from likelier_words import with_likelier_words
from unmask.inference.completed import Judgement
from unmask.inference.cross import MOST_WHOLE, WHOLE_PASSES, Effort, cross_conditionals
from unmask.inference.exact import exact_conditionals
from unmask.inference.partial_states import PartialStates
from unmask.joints.registry import construct

SENTENCES = ["The {man} {is} in the park.", "She {looked} at {him} with a smile."]
TOKENS = 500  # so few that each has a row of its own


@pytest.fixture(scope="module")
def english():
    return unmask.load("english", pair_head=None)


@pytest.fixture(scope="module")
def pairs(english):
    return [with_likelier_words(english, text, TOKENS) for text in SENTENCES]


def test_an_error_that_is_linear_in_the_partial_states_is_corrected():
    generator = torch.Generator().manual_seed(0)
    partial = torch.randn(80, 4, generator=generator)
    exact = partial @ (torch.eye(4) + 0.1 * torch.randn(4, 4, generator=generator)) + 0.3
    whole = torch.arange(0, 80, 2)
    found = PartialStates.corrected(partial, whole, exact[whole])
    torch.testing.assert_close(found.states[whole], exact[whole])
    before, after, left_out = (
        float((x - y).square().mean())
        for x, y in ((partial, exact), (found.states, exact), (found.left_out, exact[whole]))
    )
    assert after < 0.01 * before
    assert after / 3 < left_out < 20 * before  # it tells of an error, and of a small one
    assert left_out < 0.05 * before


def test_auto_takes_partial_passes_and_counts_them_by_their_positions(english, pairs):
    cloze, supports = pairs[0]
    made = cross_conditionals(english, cloze, supports).diagnostics
    whole = made.passes - 1 - math.ceil(2 * made.partial_passes / len(cloze.ids))
    assert made.partial_passes == 2 * made.candidates
    assert 2 * WHOLE_PASSES <= whole <= 2 * MOST_WHOLE
    assert made.passes < 2 * made.candidates + 1


def test_a_number_of_candidates_has_whole_passes_alone(english, pairs):
    cloze, supports = pairs[0]
    made = cross_conditionals(english, cloze, supports, 64).diagnostics
    assert (made.passes, made.partial_passes) == (129, 0)


def test_tokens_that_are_named_have_whole_passes(english, pairs):
    """Their rows are the model's own, to the last digit that float32 keeps."""
    for cloze, supports in pairs:
        named = tuple((token,) for token in cloze.truth)
        made = cross_conditionals(english, cloze, supports, include=named)
        exact = exact_conditionals(english, cloze, supports)
        row = supports[0].index(cloze.truth[0])
        torch.testing.assert_close(
            made.b_given_a(torch.tensor([row])), exact.b_given_a(torch.tensor([row])), atol=1e-4, rtol=0
        )


def test_partial_passes_come_as_near_as_twice_as_many_whole_ones(english, pairs):
    """Against exact tables, over likely pairs, under ag."""
    errors = {"auto": 0.0, 32: 0.0}
    for cloze, supports in pairs:
        exact = construct("ag", exact_conditionals(english, cloze, supports))
        ids = torch.tensor([filling.ids for filling in exact.top(50)])
        for candidates in errors:
            made = construct("ag", cross_conditionals(english, cloze, supports, candidates))
            errors[candidates] += float((made.log_prob(ids) - exact.log_prob(ids)).abs().mean())
    assert errors["auto"] < errors[32]


@pytest.mark.parametrize(
    ("partial", "shift_by_partial", "expected"),
    [
        (True, 0.01, Effort(128, 16)),  # few candidates are to blame
        (True, 0.09, Effort(64, 32)),  # partial passes are
        (False, 0.0, Effort(128, 128)),
    ],
)
def test_more_effort_goes_where_the_error_comes_from(partial, shift_by_partial, expected):
    worst = Judgement(0.3, 0.1, "left-out candidates", shift_by_partial)
    start = Effort(64, 16) if partial else Effort(64, 64)
    assert start.more(worst, partial, 8000) == expected


def test_effort_ends(english):
    worst = Judgement(0.3, 1.0, "left-out candidates", 0.9)
    effort, steps = Effort(8, 16), 0
    while (further := effort.more(worst, True, 8000)) is not None:
        assert further > effort or further.whole > effort.whole
        effort, steps = further, steps + 1
    assert effort == Effort(512, 256)
    assert steps < 12
