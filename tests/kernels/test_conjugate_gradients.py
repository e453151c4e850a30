"""Conjugate gradients against a direct solver, on matrices that are easy, singular and badly scaled."""

import pytest
import torch

from unmask.kernels.conjugate_gradients import conjugate_gradients


def solve(matrix, target, *, ridge=0.0, max_iterations=200, tolerance=1e-13):
    return conjugate_gradients(
        lambda v: matrix @ v,
        target,
        matrix.diagonal(),
        converged=lambda residual, _: float(residual.norm()) < tolerance * float(target.norm()),
        max_iterations=max_iterations,
        ridge=ridge,
    )


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("spread", [0.0, 6.0])
def test_it_solves_what_a_direct_solver_solves(spread):
    factor = random(40, 40)
    scale = torch.logspace(0, spread, 40, dtype=torch.float64)
    matrix = scale[:, None] ** 0.5 * (factor @ factor.T / 40 + torch.eye(40)) * scale**0.5
    target = random(40, seed=1)
    torch.testing.assert_close(
        solve(matrix, target), torch.linalg.solve(matrix, target), rtol=1e-8, atol=1e-10
    )


def test_the_ridge_is_a_share_of_the_diagonal():
    factor = random(20, 20)
    matrix, target = factor @ factor.T + torch.eye(20), random(20, seed=1)
    expected = torch.linalg.solve(matrix + 0.5 * matrix.diagonal().diag(), target)
    torch.testing.assert_close(solve(matrix, target, ridge=0.5), expected, rtol=1e-9, atol=1e-12)


def test_a_laplacian_is_solved_on_its_range():
    """Its null space, the constant, is in no residual: the answer is right but for a constant."""
    weights = random(12, 12).abs()
    weights = weights + weights.T
    laplacian = weights.sum(1).diag() - weights
    target = random(12, seed=1)
    target -= target.mean()
    x = solve(laplacian, target, ridge=1e-12)
    torch.testing.assert_close(laplacian @ x, target, rtol=1e-8, atol=1e-9)


def test_a_direction_of_no_curvature_ends_it():
    assert torch.equal(solve(torch.zeros(3, 3).double(), torch.zeros(3).double()), torch.zeros(3).double())


def test_it_stops_at_the_first_small_enough_residual_or_after_its_iterations():
    factor = random(30, 30)
    matrix, target = factor @ factor.T + torch.eye(30), random(30, seed=1)
    products = []

    def times(v):
        products.append(1)
        return matrix @ v

    keywords = {"max_iterations": 7, "ridge": 0.0}
    conjugate_gradients(times, target, matrix.diagonal(), converged=lambda *_: False, **keywords)
    assert len(products) == 7
    products.clear()
    conjugate_gradients(times, target, matrix.diagonal(), converged=lambda *_: True, **keywords)
    assert len(products) == 1
