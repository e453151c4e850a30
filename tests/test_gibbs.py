"""Three ways to the stationary law, plain steps, steps on probabilities and elimination, agree."""

import numpy as np
import pytest
import torch

import reference
from unmask import construct
from unmask.constructions import gibbs


def whole(conditionals):
    return construct("gibbs", conditionals).log_block(slice(None), slice(None))


def test_steps_on_probabilities_agree_with_steps_in_logs(monkeypatch):
    plain = whole(reference.draw(60, 50, 2.0, seed=3))
    monkeypatch.setattr("unmask.conditionals.SMALL_TABLE", 1)
    fast = reference.draw(60, 50, 2.0, seed=3)
    assert fast.probabilities is not None
    torch.testing.assert_close(whole(fast), plain, atol=1e-5, rtol=0)


@pytest.mark.parametrize("spread", [0.5, 3.0, 8.0])
def test_elimination_agrees_with_the_definition(monkeypatch, spread):
    conditionals = reference.draw(9, 12, spread, seed=3)
    monkeypatch.setattr(gibbs, "TOLERANCE", 0.0)  # no number of steps is ever enough
    joint = construct("gibbs", conditionals)
    assert joint.evidence["direct"]
    u, v = joint.log_u.exp(), joint.log_v.exp()
    np.testing.assert_allclose(conditionals.a_table.exp() @ v, u, rtol=1e-9)
    np.testing.assert_allclose(conditionals.b_table.exp().T @ u, v, rtol=1e-9)


def test_a_chain_that_is_too_large_to_eliminate_and_too_slow_to_settle_says_so(monkeypatch):
    monkeypatch.setattr(gibbs, "LARGEST_DIRECT", 1)
    monkeypatch.setattr(gibbs, "MOST_STEPS", 3)
    joint = construct("gibbs", reference.draw(20, 20, 10.0, seed=0))
    assert joint.evidence["converged"] is False
