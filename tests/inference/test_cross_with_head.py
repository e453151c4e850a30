"""Cross conditionals with a pair head: its guesses alone, or as the start of the regression."""

import copy

import pytest
import torch

import unmask
from head_toy import with_head
from unmask.errors import UsageError
from unmask.inference.cross import cross_conditionals
from unmask.inference.exact import exact_conditionals
from unmask.joints.registry import CONSTRUCTIONS, construct
from unmask.text.cloze import parse_blanks
from unmask.text.support import Support

TEXT = "a ___ b c ___ d"


@pytest.fixture(params=["bert", "roberta"])
def mlm(request, mlm_of):
    """A tiny model with a head of random weights."""
    return with_head(mlm_of(request.param))


@pytest.fixture
def pair(mlm):
    words = Support.words(mlm.vocabulary)
    return parse_blanks(TEXT, mlm.vocabulary, mlm.window), (words, words)


def test_no_candidates_is_one_pass_and_the_heads_own_answer(mlm, pair):
    cloze, (words, _) = pair
    table = cross_conditionals(mlm, cloze, (words, words), 0)
    a, b = cloze.blanks
    states = mlm.states_at(torch.tensor([cloze.ids]), cloze.blanks)[0]
    rows = mlm.pair_head.states(states[0], states[1], mlm.input_embeddings[words.ids], b - a)
    columns = mlm.pair_head.states(states[1], states[0], mlm.input_embeddings[words.ids], a - b)
    decode = mlm.decoder(words.ids)
    assert torch.allclose(table.b_given_a(), decode(rows).log_softmax(-1), atol=1e-5)
    assert torch.allclose(table.a_given_b(), decode(columns).log_softmax(-1).T, atol=1e-5)
    assert table.diagnostics.passes == 1


def test_the_error_is_that_of_the_head_at_this_distance_and_said_to_be(mlm, pair):
    known = cross_conditionals(mlm, *pair, 0).diagnostics
    assert known.estimated_error == 0.02
    assert known.completion_error == (0.05, 0.05)
    assert known.estimated_from == "pair head"
    one = cross_conditionals(mlm, *pair, 1).diagnostics  # nothing can be left out
    assert (one.estimated_error, one.estimated_from) == (0.02, "pair head")
    assert cross_conditionals(mlm, *pair, 8).diagnostics.estimated_from == "left-out candidates"


def test_every_token_asked_about_is_the_exact_table_whatever_the_head_says(mlm, pair):
    cloze, supports = pair
    table, exact = cross_conditionals(mlm, cloze, supports, len(supports[0])), exact_conditionals(mlm, *pair)
    assert torch.allclose(table.a_given_b(), exact.a_given_b(), atol=1e-5)
    assert torch.allclose(table.b_given_a(), exact.b_given_a(), atol=1e-5)


def test_evaluated_rows_are_the_models_own(mlm, pair):
    table, exact = cross_conditionals(mlm, *pair, 6), exact_conditionals(mlm, *pair)
    of_a, of_b = table.evaluated
    assert torch.allclose(table.b_given_a(of_a), exact.b_given_a(of_a), atol=1e-5)
    assert torch.allclose(table.a_given_b(slice(None), of_b), exact.a_given_b(slice(None), of_b), atol=1e-5)


@pytest.mark.parametrize("method", list(CONSTRUCTIONS))
def test_every_construction_works_on_predicted_tables(mlm, pair, method):
    joint = construct(method, cross_conditionals(mlm, *pair, 0))
    total = joint.log_block(slice(None), slice(None)).double().logsumexp((0, 1))
    assert float(total) == pytest.approx(0.0, abs=1e-4)


def test_auto_starts_with_few_candidates(mlm, pair):
    lax = cross_conditionals(mlm, *pair, "auto", tolerance=100.0).diagnostics
    assert lax.candidates == 8
    assert lax.passes == 17


def test_a_plain_completion_does_not_ask_the_head(mlm, pair):
    with_head = cross_conditionals(mlm, *pair, 6, completion="plain")
    without = copy.copy(mlm)
    without.pair_head = None
    assert torch.equal(
        with_head.a_given_b(), cross_conditionals(without, *pair, 6, completion="plain").a_given_b()
    )


def test_no_candidates_without_a_head_names_the_command(mlm_of):
    with pytest.raises(UsageError, match="unmask distill"):
        unmask.fill(TEXT, mlm=mlm_of("bert"), candidates=0)
    with pytest.raises(UsageError, match="plain"):
        unmask.fill(TEXT, mlm=mlm_of("bert"), candidates=0, completion="plain")


def test_a_token_to_be_scored_needs_no_pass_of_its_own(mlm, pair):
    cloze, supports = pair
    words = supports[0].ids.tolist()
    table = cross_conditionals(mlm, cloze, supports, 0, include=(words[-1:], words[-2:-1]), ungrouped=3)
    assert table.diagnostics.passes == 1
    assert len(table.evaluated[0]) == 0


def test_an_answer_from_one_pass_is_told_like_any_other(mlm):
    from unmask.serialize import fill_answer

    answer = fill_answer(unmask.fill(TEXT, mlm=mlm, candidates=0), mlm, 3)
    assert answer["mass_outside_candidates"] == 1.0
    assert (answer["passes"], answer["candidates"], answer["estimated_from"]) == (1, 0, "pair head")
    assert len(answer["fillings"]) == 3
