"""ag-weighted is the optimum of its own distance, solved to convergence; with power 0 it is ag."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from unmask import PairConditionals, construct

EVERYTHING = (slice(None), slice(None))


def table(joint):
    return joint.log_block(*EVERYTHING).double().numpy()


def weights(joint):
    return tuple(w.exp().numpy() for w in joint.log_w)


def relative_gradient(joint):
    """x_a q'(a) / w_a - 1 and its mirror, from the definition, with q' = W / (x + y)."""
    p, r, _, _ = reference.dense(joint.conditionals)
    w_a, w_b = weights(joint)
    x, y = joint.log_x.exp().numpy(), joint.log_y.exp().numpy()
    q = (p * w_b[None, :] + r * w_a[:, None]) / np.add.outer(x, y)
    return np.concatenate([x * q.sum(1) / w_a - 1, y * q.sum(0) / w_b - 1])


def test_no_small_change_of_the_joint_brings_it_closer_where_it_matters():
    """A direct check of optimality that knows nothing of x and y."""
    conditionals = reference.draw(5, 4, 2.0, seed=1)
    p, r, m_a, m_b = reference.dense(conditionals)
    joint = construct("ag-weighted", conditionals)

    def distance(log_q):
        q = np.exp(log_q)
        given_b, given_a = q / q.sum(0, keepdims=True), q / q.sum(1, keepdims=True)
        return (m_b * p * np.log(p / given_b)).sum() + (m_a[:, None] * r * np.log(r / given_a)).sum()

    best = distance(table(joint))
    assert best < distance(table(construct("ag", conditionals)))
    generator = np.random.default_rng(0)
    for _ in range(200):
        assert distance(table(joint) + 0.01 * generator.standard_normal((5, 4))) > best


@given(
    rows=st.integers(1, 8),
    columns=st.integers(1, 8),
    spread=st.sampled_from([0.2, 1.0, 2.0, 4.0]),
    power=st.sampled_from([0.0, 0.3, 1.0]),
    seed=st.integers(0, 10_000),
)
@settings(max_examples=40)
def test_the_gradient_vanishes_in_every_context(rows, columns, spread, power, seed):
    joint = construct("ag-weighted", reference.draw(rows, columns, spread, seed), power=power)
    assert np.abs(relative_gradient(joint)).max() < 1e-7
    assert joint.diagnostics.converged


@pytest.mark.slow
@pytest.mark.parametrize("spread", [1.0, 5.0])
def test_the_gradient_vanishes_for_large_tables(spread):
    joint = construct("ag-weighted", reference.draw(400, 450, spread, seed=6))
    assert np.abs(relative_gradient(joint)).max() < 1e-7


def test_without_a_power_it_is_ag():
    conditionals = reference.draw(7, 7, 2.0, seed=3)
    expected = table(construct("ag", conditionals))
    np.testing.assert_allclose(table(construct("ag-weighted", conditionals, power=0.0)), expected, atol=1e-7)
    assert np.abs(table(construct("ag-weighted", conditionals)) - expected).max() > 0.05


def test_the_answer_does_not_depend_on_which_blank_comes_first():
    first = reference.draw(6, 4, 2.0, seed=2)
    swapped = PairConditionals.from_logits(first.b_table.T, first.a_table.T, first.b_alone, first.a_alone)
    mirrored = table(construct("ag-weighted", swapped)).T
    np.testing.assert_allclose(mirrored, table(construct("ag-weighted", first)), atol=1e-6)


def test_probabilities_and_logarithms_give_the_same_joint(monkeypatch):
    """Large tables are solved by compiled code on probabilities; here beside the same in log space."""

    def made():
        return reference.draw(400, 350, 2.0, seed=4, dtype=torch.float32)

    fast = made()
    assert fast.probabilities is not None
    found = table(construct("ag-weighted", fast))
    monkeypatch.setattr("unmask.tables.pair_conditionals.SMALL_TABLE", 10**9)
    plain = made()
    assert plain.probabilities is None
    np.testing.assert_allclose(found, table(construct("ag-weighted", plain)), atol=1e-4)
