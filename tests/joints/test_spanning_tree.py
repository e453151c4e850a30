"""The tree of the blanks that tell each other most, against all trees."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask import Support, UsageError
from unmask.joints import EdgeTable, TreeJoint, maximum_spanning_tree
from unmask.joints.tree import choose_edges

some = settings(max_examples=40, deadline=None, derandomize=True)


@given(blanks=st.integers(1, 6), seed=st.integers(0, 100_000), ties=st.booleans())
@some
def test_the_maximum_spanning_tree_is_the_best_of_all_trees(blanks, seed, ties):
    values = torch.rand(blanks, blanks, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    values = (values * 3).floor() if ties else values  # zeros among them, which mean no edge to scipy
    root = seed % blanks
    edges = maximum_spanning_tree(values, root)
    assert len(edges) == blanks - 1
    reached = {root}
    for parent, child in edges:
        assert parent in reached
        assert child not in reached
        reached.add(child)
    both = (values + values.T) / 2
    pairs = list(itertools.combinations(range(blanks), 2))
    sums = [
        sum(float(both[p]) for p in s) for s in itertools.combinations(pairs, blanks - 1) if _joins(s, blanks)
    ]
    assert sum(float(both[e]) for e in edges) == pytest.approx(max(sums, default=0.0))


def _joins(edges, blanks):
    """Whether edges lead from the first blank to all others."""
    reached = {0}
    for _ in range(blanks):
        reached |= {b for e in edges for b in e if reached & set(e)}
    return len(reached) == blanks


def test_blanks_that_tell_each_other_nothing_are_joined_to_their_neighbours():
    assert maximum_spanning_tree(torch.zeros(5, 5), 2) == ((2, 1), (2, 3), (1, 0), (3, 4))
    assert maximum_spanning_tree(torch.zeros(1, 1)) == ()
    assert maximum_spanning_tree(torch.zeros(2, 2), 1) == ((1, 0),)
    far = torch.zeros(4, 4)
    far[0, 3] = far[3, 0] = 1e-30
    assert (0, 3) in maximum_spanning_tree(far)


@pytest.mark.parametrize(
    "values", [torch.zeros(2, 3), torch.zeros(4), torch.zeros(0, 0), torch.full((3, 3), torch.nan)]
)
def test_what_is_no_table_of_mutual_informations_is_refused(values):
    with pytest.raises(UsageError, match="mutual informations"):
        maximum_spanning_tree(values)


def test_too_many_blanks_and_no_such_root_are_refused():
    with pytest.raises(UsageError, match="3,000"):
        maximum_spanning_tree(torch.zeros(1, 1).expand(3000, 3000))
    with pytest.raises(UsageError, match="no blank 3"):
        maximum_spanning_tree(torch.zeros(3, 3), 3)


def test_the_tree_of_a_joint_that_is_a_tree_is_found_again():
    """From the pairwise conditionals of a chain 2 - 0 - 3 - 1: Chow & Liu's tree has the same edges."""
    generator = torch.Generator().manual_seed(0)
    tables = [2 * torch.randn(4, 4, generator=generator, dtype=torch.float64) for _ in range(3)]
    edges = dict(zip([(2, 0), (0, 3), (3, 1)], map(EdgeTable, tables), strict=True))
    truth = TreeJoint(torch.zeros(4), edges, (Support.numbered(4),) * 4)

    def conditionals(parent, child):
        rows = [truth.conditional(child, {parent: token}).log_probs for token in range(4)]
        return EdgeTable(torch.stack(rows))

    alone = [truth.marginal(i).log_probs for i in range(4)]
    found, information = choose_edges(alone, conditionals)
    assert {frozenset(edge) for edge in found} == {frozenset(edge) for edge in edges}
    assert torch.equal(information, information.T)
    for parent, child in edges:  # of a joint's own conditionals: its mutual information
        table = truth.edge(child).mutual_information(alone[parent])
        torch.testing.assert_close(information[parent, child], table, atol=1e-9, rtol=0)
    entropies = [float(truth.marginal(i).entropy()) for i in range(4)]
    root = entropies.index(min(entropies))
    again = TreeJoint(alone[root], found, truth.supports)
    assert again.root == root
    every = truth.enumerate_support()
    torch.testing.assert_close(again.log_prob(every), truth.log_prob(every), atol=1e-9, rtol=0)
