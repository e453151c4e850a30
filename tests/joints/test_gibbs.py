"""Three ways to the stationary law, plain steps, steps on probabilities and elimination, agree."""

import numpy as np
import pytest
import torch

import reference
from unmask import PairConditionals, construct
from unmask.joints import gibbs


def whole(conditionals):
    return construct("gibbs", conditionals).log_block(slice(None), slice(None))


def test_steps_on_probabilities_agree_with_steps_in_logs(monkeypatch):
    plain = whole(reference.draw(60, 50, 2.0, seed=3))
    monkeypatch.setattr("unmask.tables.pair_conditionals.SMALL_TABLE", 1)
    fast = reference.draw(60, 50, 2.0, seed=3)
    assert fast.probabilities is not None
    torch.testing.assert_close(whole(fast), plain, atol=1e-5, rtol=0)


@pytest.mark.parametrize("spread", [0.5, 3.0, 8.0])
def test_elimination_agrees_with_the_definition(monkeypatch, spread):
    conditionals = reference.draw(9, 12, spread, seed=3)
    monkeypatch.setattr(gibbs, "TOLERANCE", 0.0)  # no number of steps is ever enough
    joint = construct("gibbs", conditionals)
    assert joint.diagnostics.solver.direct
    u, v = joint.log_u.exp(), joint.log_v.exp()
    np.testing.assert_allclose(conditionals.a_table.exp() @ v, u, rtol=1e-9)
    np.testing.assert_allclose(conditionals.b_table.exp().T @ u, v, rtol=1e-9)


def test_a_chain_that_hardly_moves_has_not_arrived():
    """Two tokens that leak into each other by 1e-11 and 3e-11 a step: the law is (3/4, 1/4)."""
    p = torch.tensor([[1 - 1e-11, 3e-11], [1e-11, 1 - 3e-11]], dtype=torch.float64)
    r = torch.eye(2, dtype=torch.float64).clamp_min(1e-30)
    conditionals = PairConditionals.from_logits(
        p.log(), r.log(), b_alone=torch.tensor([2.0, 0.0]), a_alone=torch.zeros(2)
    )
    v = construct("gibbs", conditionals).log_v.exp()
    np.testing.assert_allclose(v, [0.75, 0.25], atol=1e-6)


def test_elimination_keeps_what_is_below_its_floor():
    logits = torch.zeros(6, 6, dtype=torch.float64)
    logits[0, 1] = 80.0  # slow enough to be eliminated
    logits[:, 3] -= 1000.0
    conditionals = PairConditionals.from_logits(logits.T, logits, torch.zeros(6), torch.zeros(6))
    log_v = gibbs._steps(conditionals, gibbs._eliminate(conditionals))[1]
    assert float(log_v[3]) < -900


def test_a_chain_that_is_too_large_to_eliminate_and_too_slow_to_settle_says_so(monkeypatch):
    monkeypatch.setattr(gibbs, "LARGEST_DIRECT", 1)
    monkeypatch.setattr(gibbs, "MOST_STEPS", 3)
    joint = construct("gibbs", reference.draw(20, 20, 10.0, seed=0))
    assert joint.diagnostics.converged is False


@pytest.mark.parametrize("way", ["steps", "probabilities", "elimination"])
def test_a_lumped_table_gives_each_token_what_the_repeated_one_does(monkeypatch, way):
    if way == "probabilities":
        monkeypatch.setattr("unmask.tables.pair_conditionals.SMALL_TABLE", 1)
    if way == "elimination":
        monkeypatch.setattr(gibbs, "TOLERANCE", 0.0)
    rows, columns = [1, 4, 1, 2, 1, 30, 1], [3, 1, 1, 1, 7]
    repeated, lumped, (a_at, b_at) = reference.repeat(reference.draw(7, 5, 2.0, seed=3), rows, columns)
    small = construct("gibbs", lumped)
    assert small.diagnostics.solver.direct == (way == "elimination")
    torch.testing.assert_close(whole(lumped)[a_at][:, b_at], whole(repeated), atol=2e-5, rtol=0)
    assert float((small.log_v.exp() * torch.tensor(columns)).sum()) == pytest.approx(1)
    assert float((small.log_u.exp() * torch.tensor(rows)).sum()) == pytest.approx(1)
