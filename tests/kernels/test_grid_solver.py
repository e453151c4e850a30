"""The Arnold-Gokhale problem of n blanks: truth recovered, gradient at zero, n = 2 the same as the pair."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sequence_toy import draw_tables
from unmask import PairConditionals, UsageError, construct
from unmask.joints.grid import GridJoint
from unmask.kernels.grid_solver import solve
from unmask.tables.grid_conditionals import GridConditionals

some = settings(max_examples=15, deadline=None, derandomize=True)
shapes = st.lists(st.integers(2, 5), min_size=2, max_size=4)


def plain_gradient(log_p, faces):
    """dF/dtheta from its definition, sum_x_i S u_i / U - 1, in plain numpy."""
    p = [t.exp().numpy() for t in log_p]
    u = [np.exp(f.numpy()) for f in faces]
    s, total = sum(p), sum(u)
    return [(s * u_i / total).sum(i) - 1 for i, u_i in enumerate(u)]


@given(shape=shapes, spread=st.sampled_from([0.5, 2.0, 4.0]), seed=st.integers(0, 999))
@some
def test_compatible_conditionals_are_recovered(shape, spread, seed):
    log_q = draw_tables(*shape, spread=spread, seed=seed)[0].flatten().log_softmax(0).reshape(shape)
    unrelated = [3 * torch.randn(n, generator=torch.Generator().manual_seed(1)) for n in shape]
    joint = GridJoint(GridConditionals.from_logits([log_q] * len(shape), unrelated))
    np.testing.assert_allclose(joint.log_q.exp(), log_q.exp(), atol=1e-6)


@given(shape=shapes, spread=st.sampled_from([0.5, 2.0, 6.0]), seed=st.integers(0, 999))
@some
def test_incompatible_conditionals_are_solved_to_a_vanishing_gradient(shape, spread, seed):
    tables = [t.log_softmax(i) for i, t in enumerate(draw_tables(*shape, spread=spread, seed=seed))]
    alone = [t.logsumexp([j for j in range(len(shape)) if j != i]) for i, t in enumerate(tables)]
    solved = solve(tables, alone)
    gradient = np.sqrt(sum(np.square(g).sum() for g in plain_gradient(tables, solved.faces)))
    assert gradient < 1e-6
    assert solved.gradient_norm == pytest.approx(gradient, abs=1e-7)
    # and q's own marginals are 1 / u, up to the free scale
    q = solved.log_q.exp()
    for i, face in enumerate(solved.faces):
        ratio = q.sum(i, keepdim=True).log() + face
        assert float(ratio.max() - ratio.min()) < 1e-3


@given(rows=st.integers(2, 7), columns=st.integers(2, 7), seed=st.integers(0, 999))
@some
def test_two_blanks_give_the_pairs_own_construction(rows, columns, seed):
    tables = draw_tables(rows, columns, spread=2.0, seed=seed)
    grid = GridJoint(GridConditionals.from_logits(tables))
    pair = construct("ag", PairConditionals.from_logits(*tables))
    np.testing.assert_allclose(grid.log_q, pair.log_block(slice(None), slice(None)), atol=1e-6)


def test_no_other_joint_has_conditionals_closer_to_the_given_ones():
    tables = [t.log_softmax(i) for i, t in enumerate(draw_tables(3, 4, 3, spread=2.0, seed=5))]
    joint = GridJoint(GridConditionals.from_logits(tables))

    def distance(log_q):
        return sum(float((p.exp() * (p - log_q.log_softmax(i))).sum()) for i, p in enumerate(tables))

    least = distance(joint.log_q)
    generator = torch.Generator().manual_seed(0)
    for size in (1e-3, 1e-2, 0.3):
        for _ in range(20):
            noise = torch.randn(joint.log_q.shape, generator=generator, dtype=torch.float64)
            assert distance(joint.log_q + size * noise) > least


def test_violently_peaked_tables_are_solved_and_stay_finite():
    joint = GridJoint(GridConditionals.from_logits(draw_tables(8, 8, 8, spread=25.0, seed=2)))
    assert torch.isfinite(joint.log_q).all()
    assert joint.log_q.exp().sum() == pytest.approx(1)
    assert joint.diagnostics.solver.gradient_norm < 1e-6


@pytest.mark.parametrize(
    ("tables", "complaint"),
    [
        ([torch.zeros(3)], "n tables of one shape"),
        ([torch.zeros(3, 3), torch.zeros(3, 4)], "n tables of one shape"),
        ([torch.zeros(3, 3)] * 3, "n tables of one shape"),
        ([torch.full((2, 2), -torch.inf)] * 2, "finite"),
        ([torch.zeros(2, 2, dtype=torch.long)] * 2, "floating-point"),
    ],
)
def test_tables_that_cannot_be_are_refused(tables, complaint):
    with pytest.raises(UsageError, match=complaint):
        GridConditionals.from_logits(tables)


def test_options_that_cannot_be_are_refused():
    tables = GridConditionals.from_logits(draw_tables(2, 2, 2))
    for bad in ({"tolerance": 0}, {"tolerance": "fine"}, {"sweeps": -1}, {"sweeps": True}):
        with pytest.raises(UsageError):
            GridJoint(tables, **bad)
    with pytest.raises(UsageError, match="all-blank logits"):
        GridConditionals.from_logits(draw_tables(2, 2, 2), [torch.zeros(2)] * 2)
