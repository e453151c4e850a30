"""Trees of blanks against brute force: drawn trees, every answer from the table of all fillings."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch.distributions import kl_divergence

import reference
from unmask import Support, UsageError, construct
from unmask.inference.cross import cross_conditionals
from unmask.joints import (
    EdgeTable,
    Independent,
    PairEdge,
    TableJoint,
    TreeJoint,
)
from unmask.text.cloze import parse_blanks

some = settings(max_examples=40, deadline=None, derandomize=True)
random_trees = st.builds(
    lambda sizes, seed, spread, impossible: draw(sizes, seed, spread, impossible=impossible),
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    seed=st.integers(0, 100_000),
    spread=st.sampled_from([0.1, 1.0, 4.0]),
    impossible=st.booleans(),
)


def draw(sizes, seed, spread=1.0, *, edges=None, impossible=False):
    """A random tree over blanks of some sizes, with random groups of the parents' tokens."""
    generator = torch.Generator().manual_seed(seed)

    def whole(high):
        return int(torch.randint(high, (1,), generator=generator))

    def logits(*shape):
        found = spread * torch.randn(*shape, generator=generator, dtype=torch.float64)
        if impossible and shape[-1] > 1:
            found[..., whole(shape[-1])] = -torch.inf
        return found

    order = torch.randperm(len(sizes), generator=generator).tolist()
    if edges is None:
        edges = [(order[whole(i)], order[i]) for i in range(1, len(sizes))]
    made = {}
    for parent, child in edges:
        rows = 1 + whole(sizes[parent])
        group_of = torch.randint(rows, (sizes[parent],), generator=generator)
        made[parent, child] = EdgeTable(logits(rows, sizes[child]), group_of)
    (root,) = set(range(len(sizes))) - {child for _, child in edges}
    return TreeJoint(logits(sizes[root]), made, tuple(Support.numbered(n) for n in sizes))


def table_of(tree):
    """The probability of every filling, multiplied up one by one."""
    root = tree.marginal(tree.root).log_probs.exp().numpy()
    q = np.empty([len(s) for s in tree.supports])
    for x in np.ndindex(q.shape):
        q[x] = root[x[tree.root]]
        for parent, child in tree.edges:
            edge = tree.edge(child)
            q[x] *= float(edge.log_rows(edge.group_of[x[parent]][None])[0, x[child]].exp())
    return q


def entropy(q):
    q = q[q > 0]
    return -(q * np.log(q)).sum()


@given(tree=random_trees)
@some
def test_log_prob_is_the_product_of_the_factors_and_sums_to_one(tree):
    q = table_of(tree)
    found = tree.log_prob(tree.enumerate_support()).exp().numpy().reshape(q.shape)
    np.testing.assert_allclose(found, q, atol=1e-12)
    assert found.sum() == pytest.approx(1, abs=1e-9)
    x = [int(n) for n in np.unravel_index(q.argmax(), q.shape)]
    factors = tree.factors(x)
    assert sorted(block for block, _ in factors) == [(i,) for i in range(tree.blanks)]
    assert sum(part for _, part in factors) == pytest.approx(float(tree.log_prob(x)), abs=1e-12)


@given(tree=random_trees)
@some
def test_marginals_entropy_and_mutual_information_equal_brute_force(tree):
    q = table_of(tree)
    margins = [q.sum(tuple(j for j in range(q.ndim) if j != i)) for i in range(q.ndim)]
    for i, margin in enumerate(margins):
        np.testing.assert_allclose(tree.marginal(i).log_probs.exp(), margin, atol=1e-9)
    assert float(tree.entropy()) == pytest.approx(entropy(q), abs=1e-9)
    information = sum(map(entropy, margins)) - entropy(q)
    assert float(tree.mutual_information()) == pytest.approx(information, abs=1e-9)


@given(tree=random_trees, data=st.data())
@some
def test_conditionals_on_any_of_the_other_blanks_equal_brute_force(tree, data):
    q = table_of(tree)
    blank = data.draw(st.integers(0, q.ndim - 1))
    others = [i for i in range(q.ndim) if i != blank]
    for number in range(1, len(others) + 1):
        for chosen in itertools.combinations(others, number):
            known = {i: data.draw(st.integers(0, q.shape[i] - 1)) for i in chosen}
            slab = q[
                tuple(slice(known[i], known[i] + 1) if i in known else slice(None) for i in range(q.ndim))
            ]
            line = slab.sum(tuple(others))
            if line.sum() > 0:
                found = tree.conditional(blank, known)
                np.testing.assert_allclose(found.log_probs.exp(), line / line.sum(), atol=1e-9)
                assert found.supports == (tree.supports[blank],)


@given(tree=random_trees, k=st.sampled_from([1, 2, 3, 7, 20, 10_000]))
@some
def test_top_is_the_sorted_table(tree, k):
    q = table_of(tree)
    best = tree.top(k)
    assert len({f.ids for f in best}) == len(best) == min(k, q.size)
    wanted = np.sort(q, axis=None)[::-1][: len(best)]
    np.testing.assert_allclose(np.exp([f.log_prob for f in best]), wanted, atol=1e-12)
    np.testing.assert_allclose([q[f.ids] for f in best], wanted, atol=1e-12)


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    seed=st.integers(0, 100_000),
    other=st.integers(0, 100_000),
)
@some
def test_divergences_between_trees_and_products_equal_brute_force(sizes, seed, other):
    tree = draw(sizes, seed)
    same_edges, any_edges = draw(sizes, other, edges=tree.edges), draw(sizes, other)
    product = Independent(tuple(same_edges.marginal(i).log_probs for i in range(tree.blanks)), tree.supports)
    table = TableJoint(torch.tensor(table_of(any_edges)).log(), tree.supports, method="table")
    p = table_of(tree)
    for q in (same_edges, any_edges, product, table):
        of_q = q.log_prob(q.enumerate_support()).exp().numpy().reshape(p.shape)
        forward, backward = (p * np.log(p / of_q)).sum(), (of_q * np.log(of_q / p)).sum()
        assert float(kl_divergence(tree, q)) == pytest.approx(forward, abs=1e-9)
        assert float(kl_divergence(q, tree)) == pytest.approx(backward, abs=1e-9)


@pytest.mark.parametrize("shape", ["chain", "star", "both"])
def test_samples_follow_the_tree(shape):
    """Chi-square over all fillings; false-alarm rate 1e-4 for each shape, with a fixed seed."""
    edges = {
        "chain": [(2, 1), (1, 0), (0, 3)],
        "star": [(1, 0), (1, 2), (1, 3)],
        "both": [(0, 2), (2, 1), (2, 3)],
    }
    tree = draw([3, 4, 2, 3], 5, edges=edges[shape])
    q, draws = table_of(tree), 20_000
    samples = tree.sample((draws,), torch.Generator().manual_seed(0))
    counts = np.bincount(np.ravel_multi_index(samples.numpy().T, q.shape), minlength=q.size)
    expected = q.flatten() * draws
    rare = expected < 5
    seen, wanted = (
        np.append(counts[~rare], counts[rare].sum()),
        np.append(expected[~rare], expected[rare].sum()),
    )
    keep = wanted > 1e-3
    statistic = ((seen - wanted)[keep] ** 2 / wanted[keep]).sum()
    assert stats.chi2.sf(statistic, keep.sum() - 1) > 1e-4


def test_blocks_of_few_cells_change_nothing(monkeypatch):
    whole, again = draw([9, 8, 7], 3), draw([9, 8, 7], 3)
    given_one = {whole.edges[-1][1]: 2}
    blank = whole.root

    def answers(tree):
        return (
            *tree.conditional(blank, given_one).log_probs.tolist(),
            *tree.marginal(whole.edges[-1][1]).log_probs.tolist(),
            *(f.log_prob for f in tree.top(30)),
            *tree.log_prob(tree.enumerate_support()).tolist(),
            float(tree.entropy()),
            float(kl_divergence(tree, draw([9, 8, 7], 4, edges=tree.edges))),
        )

    expected, drawn = answers(whole), whole.sample(200, torch.Generator().manual_seed(1))
    monkeypatch.setattr("unmask.tables.pair_conditionals.BLOCK_CELLS", 16)
    np.testing.assert_allclose(answers(again), expected, atol=1e-9)
    assert torch.equal(again.sample(200, torch.Generator().manual_seed(1)), drawn)


def test_no_table_of_all_pairs_is_needed():
    """Thirty blanks of a large vocabulary, 16 candidates each: the rows are all that is ever read."""
    size, blanks, kept = 30_000, 30, 16
    generator = torch.Generator().manual_seed(0)
    alone = [3 * torch.randn(size, generator=generator) for _ in range(blanks)]
    edges = {}
    for child in range(1, blanks):
        best = alone[child - 1].topk(kept).indices
        rows = alone[child] + 2 * torch.randn(kept, size, generator=generator)
        edges[child - 1, child] = EdgeTable.of_candidates(best, rows, alone[child], size)
    tree = TreeJoint(alone[0], edges, (Support.numbered(size),) * blanks)
    assert all(tree.edge(child).shape == (kept + 1, size) for _, child in tree.edges)
    best = tree.top(20)
    assert [f.log_prob for f in best] == sorted((f.log_prob for f in best), reverse=True)
    assert float(tree.marginal(blanks - 1).probs.sum()) == pytest.approx(1, abs=1e-9)
    drawn = tree.sample(400, generator)
    log_q = tree.log_prob(drawn)
    assert abs(float(-log_q.mean() - tree.entropy())) < 5 * float(log_q.std()) / 20  # 5 standard errors
    assert float(log_q.max()) <= best[0].log_prob
    assert 0 < tree.mass_outside_candidates() < 1


def test_the_mass_outside_candidates_is_that_of_fillings_with_another_token_in_a_parent():
    logits = torch.randn(3, 5, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    kept = torch.tensor([4, 0, 2])
    edges = {
        (1, 0): EdgeTable.of_candidates(kept, logits, logits[0], 5),
        (1, 2): EdgeTable.of_candidates(kept[:2], logits[:2], logits[1], 5),
        (2, 3): EdgeTable.of_candidates(kept, logits, logits[1], 5),
    }
    tree = TreeJoint(logits[2], edges, (Support.numbered(5),) * 4)
    q = table_of(tree)
    inside = q[:, [0, 4]][:, :, [0, 2, 4]].sum()  # blank 1 has two candidates with a row in both of its edges
    assert tree.mass_outside_candidates() == pytest.approx(1 - inside, abs=1e-9)
    assert draw([3, 2, 2], 0).mass_outside_candidates() is None


def test_a_table_of_all_candidates_is_in_the_order_of_the_tokens():
    logits = torch.randn(3, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    edge = EdgeTable.of_candidates(torch.tensor([2, 0, 1]), logits, logits[0], 3)
    np.testing.assert_allclose(edge.log_rows(torch.arange(3)), logits[[1, 2, 0]].log_softmax(1), atol=1e-12)
    assert edge.evaluated is None


@pytest.mark.parametrize(("name", "parent"), [("l2r", 0), ("r2l", 1), ("ag", 0), ("ag", 1), ("mrf-logit", 0)])
def test_a_tree_of_two_blanks_with_a_pairs_own_parts_is_that_pair(name, parent):
    pair = construct(name, reference.draw(5, 7, 2.0, seed=3))
    edges = {(parent, 1 - parent): PairEdge(pair, parent)}
    tree = TreeJoint(pair.marginal(parent).log_probs, edges, pair.supports)
    every = pair.enumerate_support()
    np.testing.assert_allclose(tree.log_prob(every), pair.log_prob(every), atol=1e-9)
    assert float(tree.mutual_information()) == pytest.approx(float(pair.mutual_information()), abs=1e-9)


@pytest.mark.parametrize("parent", [0, 1])
def test_a_pair_whose_tokens_are_grouped_makes_an_edge_over_all_tokens(parent, mlm_of):
    mlm = mlm_of("bert")
    cloze = parse_blanks("The old [MASK] is playing [MASK] the casino.", mlm.vocabulary, mlm.window)
    tokens = Support.words(mlm.vocabulary)
    pair = construct(("l2r", "r2l")[parent], cross_conditionals(mlm, cloze, (tokens, tokens), 4))
    edge = PairEdge(pair, parent)
    tree = TreeJoint(pair.marginal(parent).log_probs, {(parent, 1 - parent): edge}, pair.supports)
    drawn = pair.sample(50, torch.Generator().manual_seed(0))
    np.testing.assert_allclose(tree.log_prob(drawn), pair.log_prob(drawn), atol=1e-6)
    assert float(tree.marginal(1 - parent).probs.sum()) == pytest.approx(1, abs=1e-9)
    assert edge.evaluated.sum() >= 4


@given(sizes=st.tuples(st.integers(1, 5), st.integers(1, 5)), seed=st.integers(0, 100_000))
@some
def test_the_mutual_information_of_an_edge_is_that_of_its_two_blanks(sizes, seed):
    tree = draw(sizes, seed, edges=[(0, 1)])
    found = tree.edge(1).mutual_information(tree.marginal(0).log_probs)
    assert float(found) == pytest.approx(float(tree.mutual_information()), abs=1e-9)


def test_extreme_logits_leave_every_number_finite():
    """Conditionals down to e^-1000, and a group of parents' tokens as unlikely as that."""
    tree = draw([6, 6, 6, 6], 1, spread=300.0)
    assert torch.isfinite(tree.log_prob(tree.enumerate_support())).all()
    for blank in range(4):
        assert torch.isfinite(tree.marginal(blank).log_probs).all()
        others = {i: 5 for i in range(4) if i != blank}
        assert torch.isfinite(tree.conditional(blank, others).log_probs).all()
    assert np.isfinite([float(tree.entropy()), float(tree.mutual_information())]).all()


def test_tokens_of_probability_zero_together_have_no_conditional():
    impossible = torch.tensor([[0.0, -torch.inf], [-torch.inf, 0.0]], dtype=torch.float64)
    two, even = Support.numbered(2), torch.zeros(2, dtype=torch.float64)
    tree = TreeJoint(even, {(0, 1): EdgeTable(impossible), (0, 2): EdgeTable(impossible)}, (two,) * 3)
    assert tree.conditional(0, {1: 1}).probs.tolist() == [0, 1]
    with pytest.raises(UsageError, match="probability 0"):
        tree.conditional(0, {1: 1, 2: 0})


def test_a_tree_as_deep_as_it_has_blanks_is_no_trouble():
    blanks = 1100  # more than Python may recurse
    table = EdgeTable(torch.randn(2, 2, generator=torch.Generator().manual_seed(0)))
    edges = {(i, i + 1): table for i in range(blanks - 1)}
    tree = TreeJoint(torch.zeros(2), edges, (Support.numbered(2),) * blanks)
    best = tree.top(3)
    assert len({f.ids for f in best}) == 3
    assert float(tree.conditional(0, {blanks - 1: 1}).probs.sum()) == pytest.approx(1)
    assert float(tree.entropy()) > 0


@pytest.mark.parametrize(
    "edges",
    [
        [(0, 1)],  # blank 2 is not joined
        [(0, 1), (2, 1)],  # two parents
        [(0, 1), (1, 0)],
        [(1, 2), (2, 1)],  # a circle apart from the root
        [(0, 1), (2, 2)],
        [(0, 1), (1, 3)],
        [(0, 1), (1, 2), (2, 0)],
    ],
)
def test_edges_that_make_no_tree_are_refused(edges):
    table = EdgeTable(torch.zeros(2, 2))
    with pytest.raises(UsageError, match="tree of 3 blanks"):
        TreeJoint(torch.zeros(2), dict.fromkeys(edges, table), (Support.numbered(2),) * 3)


def test_tables_that_do_not_fit_the_supports_are_refused():
    two, three = Support.numbered(2), Support.numbered(3)
    with pytest.raises(UsageError, match="2 tokens of blank 0 and 3 of blank 1"):
        TreeJoint(torch.zeros(2), {(0, 1): EdgeTable(torch.zeros(2, 2))}, (two, three))
    with pytest.raises(UsageError, match="3 tokens of the root"):
        TreeJoint(torch.zeros(2), {(1, 0): EdgeTable(torch.zeros(3, 2))}, (two, three))


@pytest.mark.parametrize(
    ("logits", "group_of"),
    [
        (torch.zeros(2), None),
        (torch.zeros(2, 2, dtype=torch.long), None),
        (torch.zeros(0, 2), None),
        (torch.zeros(2, 0), None),
        (torch.full((2, 2), torch.nan), None),
        (torch.full((2, 2), -torch.inf), None),
        (torch.zeros(2, 2), torch.tensor([0, 2])),
        (torch.zeros(2, 2), torch.tensor([-1, 0])),
        (torch.zeros(2, 2), torch.tensor([0.0, 1.0])),
    ],
)
def test_what_is_no_table_of_an_edge_is_refused(logits, group_of):
    with pytest.raises(UsageError):
        EdgeTable(logits, group_of)


def test_candidates_that_are_not_one_per_row_are_refused():
    with pytest.raises(UsageError, match="different candidates"):
        EdgeTable.of_candidates(torch.tensor([1, 1]), torch.zeros(2, 2), torch.zeros(2), 4)
    with pytest.raises(UsageError, match="different candidates"):
        EdgeTable.of_candidates(torch.tensor([1]), torch.zeros(2, 2), torch.zeros(2), 4)


def test_an_edge_of_both_orders_is_the_conditional_of_their_mixture():
    """Rows that tokens share stand for their mean."""
    torch.manual_seed(2)
    parent, child = (torch.rand(n, dtype=torch.float64).log().log_softmax(0) for n in (5, 4))
    ahead = EdgeTable(torch.randn(3, 4), torch.tensor([0, 1, 1, 2, 1]))
    back = EdgeTable(torch.randn(2, 5), torch.tensor([0, 1, 0, 0]))
    orders = (
        parent[:, None] + ahead.log_rows(ahead.group_of),
        (child[:, None] + back.log_rows(back.group_of)).T,
    )
    joint = sum(order.exp() for order in orders)
    of_rows = torch.zeros(3, 4, dtype=torch.float64).index_add_(0, ahead.group_of, joint)
    mixed = EdgeTable.of_both_orders(ahead, back, parent, child)
    torch.testing.assert_close(
        mixed.log_rows(torch.arange(3)).exp(), of_rows / of_rows.sum(1, keepdim=True), atol=1e-6, rtol=0
    )
    assert torch.equal(mixed.group_of, ahead.group_of)
