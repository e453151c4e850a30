"""Three and more blanks by the pair head's guesses: the tree in one pass, and the pairs of a chain."""

from itertools import product

import pytest
import torch

import unmask
from head_toy import guessed_table, with_head
from unmask.errors import UsageError
from unmask.inference.tree import tree_joint
from unmask.text.cloze import parse_blanks
from unmask.text.support import Support

TEXT = "a ___ b ___ c ___ d"


@pytest.fixture(scope="module")
def mlm(mlm_of):
    return with_head(mlm_of("bert"))


@pytest.fixture(scope="module")
def few(mlm):
    """Six tokens for each of three blanks."""
    ids = Support.words(mlm.vocabulary).ids[:6]
    return (Support(ids, mlm.vocabulary),) * 3


@pytest.fixture(scope="module")
def tree(mlm, few):
    return tree_joint(mlm, parse_blanks(TEXT, mlm.vocabulary, mlm.window), few, 0)


def test_the_tree_has_the_mixture_of_the_heads_conditionals_in_both_orders_on_its_edges(mlm, few, tree):
    cloze, ids = tree.cloze, few[0].ids
    states = mlm.states_at(torch.tensor([cloze.ids]), cloze.blanks)[0]
    alone = mlm.decoder(ids)(states).double().log_softmax(-1)
    for filling in product(range(6), repeat=3):
        expected = alone[tree.root][filling[tree.root]]
        for parent, child in tree.edges:
            ahead, back = (
                alone[a][:, None] + guessed_table(mlm, cloze, states, ids, a, b)
                for a, b in ((parent, child), (child, parent))
            )
            mixture = torch.logaddexp(ahead, back.T).log_softmax(1)
            expected = expected + mixture[filling[parent], filling[child]]
        assert float(tree.log_prob(ids[list(filling)])) == pytest.approx(float(expected), abs=1e-4)


def test_the_tree_takes_one_pass_and_says_where_its_error_comes_from(tree):
    known = tree.diagnostics
    assert (known.passes, known.candidates, known.conditionals) == (1, 0, "tree")
    assert known.estimated_from == "pair head"
    assert known.estimated_error > 0


def test_it_is_what_no_candidates_give_unless_something_else_is_asked_for(mlm):
    joint, tree = (unmask.fill(TEXT, mlm=mlm, candidates=0, method=method) for method in ("ag", "tree"))
    assert joint.diagnostics.passes == 1
    assert joint.top(3) == tree.top(3)
    assert unmask.fill(TEXT, mlm=mlm, candidates=0, order="confidence").method == "chain"


def test_tokens_of_a_large_support_share_rows_and_it_still_sums_to_one(mlm, monkeypatch):
    monkeypatch.setattr("unmask.inference.guessed_edges.OWN_ROWS", 4)
    monkeypatch.setattr("unmask.inference.guessed_edges.SHARED_ROWS", 3)
    joint = unmask.fill("a ___ ___ d", mlm=mlm, method="tree", candidates=0)
    ids = joint.supports[0].ids
    pairs = torch.cartesian_prod(ids, ids)
    assert float(joint.log_prob(pairs).logsumexp(0)) == pytest.approx(0.0, abs=1e-6)
    assert joint.edge(1 - joint.root).shape[0] == 7


@pytest.mark.parametrize("method", ["tree", "ag", "gibbs", "chain"])
def test_every_method_of_many_blanks_takes_guesses(mlm, method):
    joint = unmask.fill(TEXT, mlm=mlm, method=method, candidates=0)
    best = joint.top(3)
    assert [f.log_prob for f in best] == sorted((f.log_prob for f in best), reverse=True)
    real = unmask.fill(TEXT, mlm=mlm, method=method)
    real.top(3)
    assert joint.diagnostics.passes < real.diagnostics.passes


def test_a_pair_in_a_chain_needs_no_pass_beyond_that_with_both_masked(mlm):
    joint = unmask.fill("a ___ b ___ c", mlm=mlm, method="chain", candidates=0)
    joint.top(2)
    assert joint.diagnostics.passes <= 2


@pytest.mark.parametrize("method", ["tree", "ag", "chain"])
def test_without_a_head_the_command_is_named(mlm_of, method):
    with pytest.raises(UsageError, match="unmask distill"):
        unmask.fill(TEXT, mlm=mlm_of("bert"), method=method, candidates=0).top(1)


def test_a_grid_needs_candidates(mlm):
    with pytest.raises(UsageError, match="at least 1 candidate"):
        unmask.fill(TEXT, mlm=mlm, method="grid", candidates=0)


def test_too_many_blanks_for_a_tree_are_refused(mlm_of):
    found = with_head(mlm_of("bert"))
    cloze = parse_blanks(" ".join(["___"] * 70), found.vocabulary, 4000)
    with pytest.raises(UsageError, match="blanks"):
        tree_joint(found, cloze, (Support.words(found.vocabulary),) * 70, 0)
