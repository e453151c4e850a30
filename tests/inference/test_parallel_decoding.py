"""Decoding in few passes: every scheme is a distribution, and its passes are what it says."""

from itertools import product

import pytest
import torch

from head_toy import guessed_table, with_head
from unmask import UsageError
from unmask.inference import generation
from unmask.inference.guessed_edges import guessed_information, mutual_information
from unmask.inference.model_conditionals import ModelConditionals
from unmask.inference.parallel_decoding import (
    ParallelDecoder,
    Pass,
    Scheme,
    as_pairs,
    as_tree,
    by_confidence,
    by_entropy_bound,
    by_tree_bound,
    drawn,
    independently,
    known,
    likeliest,
    tree_scheme,
)
from unmask.inference.query import Query
from unmask.inference.tree import tree_joint
from unmask.text.cloze import parse_blanks
from unmask.text.support import Support

TEXT = "the ___ dog ___ at ___ house"
SCHEMES = {
    "independent in 1": Scheme(by_confidence(1), independently),
    "independent in 2": Scheme(by_confidence(2), independently),
    "one by one": Scheme(by_confidence(3), independently),
    "tree in 1": tree_scheme(1),
    "tree in 2": tree_scheme(2),
    "pairs in 1": Scheme(by_confidence(1), as_pairs),
    "pairs in 2": Scheme(by_confidence(2), as_pairs),
    "entropy bound": Scheme(by_entropy_bound(1.2), independently),
    "tree bound": Scheme(by_tree_bound(1.2), as_tree),
}


@pytest.fixture(scope="module")
def mlm(mlm_of):
    return with_head(mlm_of("bert"))


@pytest.fixture(scope="module")
def cloze(mlm):
    return parse_blanks(TEXT, mlm.vocabulary, mlm.window)


@pytest.fixture(scope="module")
def few(mlm):
    """Four tokens for each of three blanks."""
    return (Support(Support.words(mlm.vocabulary).ids[-4:], mlm.vocabulary),) * 3


@pytest.fixture
def decode(mlm, cloze, few):
    return ParallelDecoder(mlm, cloze, few)


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
def test_the_probabilities_of_all_fillings_sum_to_one(scheme, decode, few):
    fillings = product(few[0].ids.tolist(), repeat=3)
    total = torch.tensor([decode(scheme, known(filling)).log_prob for filling in fillings])
    assert float(total.logsumexp(0)) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
def test_what_is_drawn_has_the_log_probability_that_it_is_said_to_have(scheme, decode):
    found = decode(scheme, drawn(torch.Generator().manual_seed(1)))
    again = decode(scheme, known(found.ids))
    assert again.log_prob == pytest.approx(found.log_prob, abs=1e-9)
    assert again.passes == found.passes


def test_fillings_come_as_often_as_their_probability_says(decode, few):
    generator = torch.Generator().manual_seed(0)
    draws = [decode(tree_scheme(2), drawn(generator)).ids for _ in range(300)]
    for filling in sorted(set(draws), key=draws.count)[-3:]:
        chance = torch.tensor(decode(tree_scheme(2), known(filling)).log_prob).exp()
        spread = (chance * (1 - chance) / len(draws)) ** 0.5
        assert draws.count(filling) / len(draws) == pytest.approx(float(chance), abs=4 * float(spread))


def test_one_by_one_is_the_models_own_chain_in_the_order_of_confidence(mlm, cloze, few, decode):
    truth = [int(few[0].ids[i]) for i in (2, 0, 3)]
    model, expected = ModelConditionals(mlm, cloze, few), 0.0
    state = model.all_masked
    while (state == -1).any():
        lines = {b: model.log_probs(state, b)[0] for b in range(3) if int(state[0, b]) == -1}
        blank = max(lines, key=lambda b: float(lines[b].max()))
        expected += float(lines[blank][few[0].index(truth[blank])])
        state[0, blank] = truth[blank]
    found = decode(SCHEMES["one by one"], known(truth))
    assert found.log_prob == pytest.approx(expected, abs=1e-5)
    assert found.passes == 3


def test_a_tree_in_one_pass_has_the_heads_conditionals_on_the_edges_of_the_tree_of_fill(
    mlm, cloze, few, decode
):
    joint, ids = tree_joint(mlm, cloze, few, 0), few[0].ids
    states = mlm.states_at(torch.tensor([cloze.ids]), cloze.blanks)[0]
    tables = {edge: guessed_table(mlm, cloze, states, ids, *edge) for edge in joint.edges}
    start = mlm.decoder(ids)(states[joint.root]).double().log_softmax(-1)
    expected = {
        filling: float(start[filling[joint.root]])
        + sum(float(table[filling[parent], filling[child]]) for (parent, child), table in tables.items())
        for filling in product(range(4), repeat=3)
    }
    for filling, log_prob in expected.items():
        found = decode(tree_scheme(1), known(ids[list(filling)].tolist()))
        assert found.log_prob == pytest.approx(log_prob, abs=1e-5)
    best = max(expected, key=expected.get)
    assert decode(tree_scheme(1), likeliest).ids == tuple(ids[list(best)].tolist())


def test_the_information_is_that_by_which_the_tree_of_fill_is_chosen(mlm, cloze, few):
    seen = Pass(mlm, cloze, few)
    joint = tree_joint(mlm, cloze, few, 0)
    found = guessed_information(mlm, cloze, seen.states, few, seen.log_probs)
    torch.testing.assert_close(found, joint.information, atol=1e-5, rtol=0)
    torch.testing.assert_close(seen.information([2, 0]), found[[2, 0]][:, [2, 0]], atol=1e-6, rtol=0)


def test_mutual_information_is_that_of_the_table():
    torch.manual_seed(0)
    joint = torch.rand(3, 4, dtype=torch.float64)
    joint /= joint.sum()
    a, b = joint.sum(1), joint.sum(0)
    expected = (joint * (joint / (a[:, None] * b)).log()).sum()
    assert float(mutual_information((joint / a[:, None]).log(), a)) == pytest.approx(float(expected))


def test_a_bound_of_zero_goes_one_by_one_and_a_large_one_takes_one_pass(decode, few):
    truth = known(few[0].ids[:3].tolist())
    for choose, join in ((by_entropy_bound, independently), (by_tree_bound, as_tree)):
        assert decode(Scheme(choose(-1e9), join), truth).passes == 3
        assert decode(Scheme(choose(1e9), join), truth).passes == 1


def test_the_entropy_bound_is_the_sum_of_entropies_less_the_largest(mlm, cloze, few):
    seen = Pass(mlm, cloze, few)
    first, second, third = seen.entropies.sort().values.tolist()
    for bound, count in ((first - 1e-6, 1), (first + 1e-6, 2), (first + second + 1e-6, 3)):
        chosen = by_entropy_bound(bound)(seen, 0)
        assert len(chosen) == count
        assert sum(seen.entropies[chosen].tolist()) - max(seen.entropies[chosen].tolist()) <= max(bound, 0)
    assert third >= second


def test_the_tree_bound_never_takes_fewer_blanks_than_the_entropy_bound(mlm, cloze, few):
    seen = Pass(mlm, cloze, few)
    for bound in (0.1, 0.5, 1.0, 1.5, 2.0):
        assert len(by_tree_bound(bound)(seen, 0)) >= len(by_entropy_bound(bound)(seen, 0))


def test_a_pass_that_was_asked_for_is_not_asked_again(decode, few):
    fill = drawn(torch.Generator().manual_seed(0))
    for _ in range(5):
        decode(tree_scheme(1), fill)
    assert decode.passes == 1


def test_samples_in_passes_have_texts_and_say_their_passes(mlm, cloze):
    query = Query(TEXT, seed=3)
    found = generation.sample_in_passes(mlm, cloze, query, passes=2, number=4)
    again = generation.sample_in_passes(mlm, cloze, query, passes=2, number=4)
    assert found.fillings == again.fillings
    assert found.settings["passes_per_sample"] == 2
    assert 2 <= found.passes <= 5  # the first pass is shared
    assert all(text.startswith("the") for text in found.texts)
    most = generation.sample_in_passes(mlm, cloze, query, passes=50, number=1)
    assert most.settings["passes_per_sample"] == 3


def test_no_passes_and_no_head_are_refused(mlm, mlm_of, cloze):
    with pytest.raises(UsageError, match="at least 1 pass, got passes 0"):
        generation.sample_in_passes(mlm, cloze, Query(TEXT), passes=0)
    with pytest.raises(UsageError, match=r"sampling in a few passes needs a pair head.*unmask distill"):
        generation.sample_in_passes(mlm_of("bert"), cloze, Query(TEXT), passes=2)


def test_more_blanks_than_a_tree_joins_are_refused_with_the_remedy(mlm):
    text = " ".join(["___"] * 66)
    cloze = parse_blanks(text, mlm.vocabulary, 4000)
    supports = (Support.words(mlm.vocabulary),) * 66

    class Wide(Pass):
        def __init__(self):
            self.supports = supports

    with pytest.raises(UsageError, match="at most 64 blanks, got 66: take more passes"):
        as_tree(Wide(), range(len(cloze.blanks)))
