"""The compiled sweep and Newton's method against their plain twins."""

from itertools import pairwise

import numpy as np
import pytest
import torch

import reference
from unmask.kernels.laplacian import Laplacian, objective
from unmask.kernels.newman import sweep, sweep_in_logs, sweep_on_device


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
    # float32 tables are swept in float32, or in float64 if asked to
    close = 1e-10 if dtype == torch.float64 else 1e-6
    np.testing.assert_allclose(fast.log_x, np.log(x), rtol=0, atol=close)
    np.testing.assert_allclose(fast.log_y, np.log(y), rtol=0, atol=close)
    precise = sweep(p, r, log_x, log_y, precise=True)
    np.testing.assert_allclose(precise.log_x, np.log(x), rtol=0, atol=1e-10)
    np.testing.assert_allclose(precise.log_y, np.log(y), rtol=0, atol=1e-10)
    on_device = sweep_on_device(conditionals, log_x, log_y)
    np.testing.assert_allclose(on_device.log_x, np.log(x), rtol=0, atol=1e-6)
    np.testing.assert_allclose(on_device.log_y, np.log(y), rtol=0, atol=1e-6)
    assert on_device.gradient == pytest.approx(fast.gradient, rel=1e-5)
    np.testing.assert_allclose(twin.log_x, fast.log_x, atol=1e-6)
    np.testing.assert_allclose(twin.log_y, fast.log_y, atol=1e-6)
    assert twin.gradient == pytest.approx(fast.gradient, rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_contexts_that_weigh_differently_are_swept_as_the_equations_say(dtype):
    conditionals = reference.draw(31, 42, 2.0, seed=3, dtype=dtype)
    generator = torch.Generator().manual_seed(1)
    log_x, log_y, *log_w = (
        torch.randn(n, generator=generator, dtype=torch.float64) for n in (*conditionals.shape,) * 2
    )
    w_a, w_b = (log.exp().numpy() for log in log_w)
    x, y = log_x.exp().numpy(), log_y.exp().numpy()
    p, r = (t.double().exp().numpy() for t in (conditionals.a_table, conditionals.b_table))
    apart = x / w_a * (w_b * p / (x[:, None] + y)).sum(1) - (r * y / (x[:, None] + y)).sum(1)
    x = w_a * (r * y / (x[:, None] + y)).sum(1) / (w_b * p / (x[:, None] + y)).sum(1)
    s = x[:, None] + y
    above, below = (p * x[:, None] / s).sum(0), (w_a[:, None] * r / s).sum(0)
    gradient = np.sqrt((apart**2).sum() + ((y / w_b * below - above) ** 2).sum())
    tables = (t.exp().numpy() for t in (conditionals.a_table, conditionals.b_table))
    close = 1e-10 if dtype == torch.float64 else 2e-6
    for found in (
        sweep(*tables, log_x, log_y, log_w=tuple(log_w)),
        sweep_on_device(conditionals, log_x, log_y, tuple(log_w)),
        sweep_in_logs(conditionals, log_x, log_y, tuple(log_w)),
    ):
        np.testing.assert_allclose(found.log_x, np.log(x), rtol=0, atol=close)
        np.testing.assert_allclose(found.log_y, np.log(w_b * above / below), rtol=0, atol=close)
        assert found.gradient == pytest.approx(gradient, rel=1e-5)


def compiled(conditionals, log_x, log_y):
    p, r = conditionals.a_table.exp().numpy(), conditionals.b_table.exp().numpy()
    return sweep(p, r, log_x, log_y, *conditionals.counts)


ROWS, COLUMNS = [1, 4, 1, 2, 1, 30, 1], [3, 1, 1, 1, 7]


@pytest.mark.parametrize("do_sweep", [compiled, sweep_on_device, sweep_in_logs])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_lumped_table_is_swept_like_the_one_with_repeated_rows_and_columns(do_sweep, dtype):
    repeated, lumped, (a_at, b_at) = reference.repeat(
        reference.draw(7, 5, 2.0, seed=3, dtype=dtype), ROWS, COLUMNS
    )
    generator = torch.Generator().manual_seed(1)
    log_x, log_y = (torch.randn(n, generator=generator, dtype=torch.float64) for n in (7, 5))
    whole = do_sweep(repeated, log_x[a_at], log_y[b_at])
    small = do_sweep(lumped, log_x, log_y)
    close = 1e-10 if dtype == torch.float64 else 2e-6
    np.testing.assert_allclose(small.log_x[a_at], whole.log_x, rtol=0, atol=close)
    np.testing.assert_allclose(small.log_y[b_at], whole.log_y, rtol=0, atol=close)
    assert small.gradient == pytest.approx(whole.gradient, rel=1e-5)


@pytest.mark.parametrize("kept", [True, False])
def test_a_lumped_table_has_the_objective_and_newton_step_of_the_repeated_one(kept, monkeypatch):
    if not kept:
        monkeypatch.setattr("unmask.kernels.laplacian.KEPT_CELLS", 0)
    repeated, lumped, (a_at, b_at) = reference.repeat(reference.draw(7, 5, 2.0, seed=3), ROWS, COLUMNS)
    generator = torch.Generator().manual_seed(1)
    log_x, log_y = (torch.randn(n, generator=generator, dtype=torch.float64) for n in (7, 5))
    assert objective(lumped, log_x, log_y) == pytest.approx(
        objective(repeated, log_x[a_at], log_y[b_at]), rel=1e-12
    )
    whole, small = Laplacian(repeated, log_x[a_at], log_y[b_at]), Laplacian(lumped, log_x, log_y)
    both = torch.cat([a_at, 7 + b_at])
    tokens = torch.tensor([*ROWS, *COLUMNS])
    np.testing.assert_allclose((small.gradient / tokens)[both], whole.gradient, rtol=0, atol=1e-12)
    np.testing.assert_allclose(small.newton_step()[both], whole.newton_step(), rtol=0, atol=1e-8)


@pytest.mark.parametrize("far", [30.0, 50.0, 75.0])
def test_values_far_apart_are_swept_without_underflow(far):
    """Where sums or their products leave the range of float32, the compiled sweep turns to float64."""
    conditionals = reference.draw(40, 30, 1.0, seed=3, dtype=torch.float32)
    log_x, log_y = torch.zeros(40, dtype=torch.float64), torch.zeros(30, dtype=torch.float64)
    log_x[:10], log_x[10:20] = far, -far
    fast, twin = compiled(conditionals, log_x, log_y), sweep_in_logs(conditionals, log_x, log_y)
    np.testing.assert_allclose(fast.log_x, twin.log_x, rtol=0, atol=1e-6)
    np.testing.assert_allclose(fast.log_y, twin.log_y, rtol=0, atol=1e-6)


def test_sums_too_small_for_float32_are_made_in_float64():
    conditionals = reference.draw(40, 30, 1.0, seed=3, dtype=torch.float32)
    conditionals.a_table[5] -= 78.0  # a row that nobody likes: p(a|b) of about e^-80
    log_x, log_y = (torch.full((n,), 30.0, dtype=torch.float64) for n in (40, 30))
    log_x[0] = -30.0
    fast, twin = compiled(conditionals, log_x, log_y), sweep_in_logs(conditionals, log_x, log_y)
    np.testing.assert_allclose(fast.log_x, twin.log_x, rtol=0, atol=1e-5)
    np.testing.assert_allclose(fast.log_y, twin.log_y, rtol=0, atol=1e-5)


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
