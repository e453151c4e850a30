"""The compiled sweep and Newton's method against their plain twins."""

from itertools import pairwise

import numpy as np
import pytest
import torch

import reference
from unmask.kernels.laplacian import Laplacian, objective
from unmask.kernels.newman import sweep, sweep_in_logs


def plain_sweep(p, r, x, y):
    """The two lines of the docstring, in numpy."""
    s = x[:, None] + y
    x = (r * y / s).sum(1) / (p / s).sum(1)
    s = x[:, None] + y
    return x, (p * x[:, None] / s).sum(0) / (r / s).sum(0)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("shape", [(7, 5), (1, 4), (300, 411)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_compiled_sweep_and_its_twin_do_what_the_equations_say(shape, dtype, threads):
    conditionals = reference.draw(*shape, 2.0, seed=3, dtype=dtype)
    generator = torch.Generator().manual_seed(1)
    log_x, log_y = (torch.randn(n, generator=generator, dtype=torch.float64) for n in shape)
    p, r = conditionals.a_table.exp().numpy(), conditionals.b_table.exp().numpy()
    x, y = plain_sweep(p.astype(np.float64), r.astype(np.float64), log_x.exp().numpy(), log_y.exp().numpy())
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        fast = sweep(p, r, log_x, log_y)
    finally:
        torch.set_num_threads(before)
    twin = sweep_in_logs(conditionals, log_x, log_y)
    np.testing.assert_allclose(fast.log_x, np.log(x), atol=1e-10)
    np.testing.assert_allclose(fast.log_y, np.log(y), atol=1e-10)
    np.testing.assert_allclose(twin.log_x, fast.log_x, atol=1e-6)
    np.testing.assert_allclose(twin.log_y, fast.log_y, atol=1e-6)
    assert twin.gradient == pytest.approx(fast.gradient, rel=1e-5)


def test_a_sweep_never_raises_the_objective():
    conditionals = reference.draw(9, 12, 5.0, seed=0)
    log_x, log_y = torch.zeros(9, dtype=torch.float64), torch.zeros(12, dtype=torch.float64)
    values = [objective(conditionals, log_x, log_y)]
    for _ in range(20):
        swept = sweep_in_logs(conditionals, log_x, log_y)
        log_x, log_y = swept.log_x, swept.log_y
        values.append(objective(conditionals, log_x, log_y))
    assert all(later <= earlier + 1e-12 for earlier, later in pairwise(values))


@pytest.mark.parametrize("kept", [True, False])
def test_gradient_and_hessian_are_the_derivatives_of_the_objective(kept, monkeypatch):
    if not kept:
        monkeypatch.setattr("unmask.kernels.laplacian.KEPT_CELLS", 0)
    conditionals = reference.draw(4, 3, 1.5, seed=5)
    generator = torch.Generator().manual_seed(2)
    theta = torch.randn(7, generator=generator, dtype=torch.float64)
    at = Laplacian(conditionals, theta[:4], theta[4:])
    for i in range(7):
        nudge = torch.zeros(7, dtype=torch.float64)
        nudge[i] = 1e-5
        up, down = theta + nudge, theta - nudge
        slope = (objective(conditionals, up[:4], up[4:]) - objective(conditionals, down[:4], down[4:])) / 2e-5
        assert float(at.gradient[i]) == pytest.approx(slope, abs=1e-8)
        bend = (
            Laplacian(conditionals, up[:4], up[4:]).gradient
            - Laplacian(conditionals, down[:4], down[4:]).gradient
        ) / 2e-5
        np.testing.assert_allclose(at.times(nudge / 1e-5), bend, atol=1e-8)


def test_the_newton_step_solves_the_linear_system():
    conditionals = reference.draw(20, 30, 1.0, seed=5)
    at = Laplacian(conditionals, torch.zeros(20, dtype=torch.float64), torch.zeros(30, dtype=torch.float64))
    left = at.times(at.newton_step()) + at.gradient
    assert float(left.norm()) < 0.05 * float(at.gradient.norm())
