"""Kernel ridge regression, and its leave-one-out error against refitting without each point."""

import pytest
import torch

from unmask.inference.kernel_ridge import PENALTIES, WIDTH, KernelRidge, index_of_minimum


def problem(points=12, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(points, 5, generator=generator, dtype=torch.float64)
    y = x @ torch.randn(5, 3, generator=generator, dtype=torch.float64)
    return x, y + 0.3 * torch.randn(points, 3, generator=generator, dtype=torch.float64)


def kernel(x, z):
    return (-torch.cdist(x, z).square() / (WIDTH * problem()[0].var(0, unbiased=False).sum())).exp()


def fitted(x, y, query, penalty):
    """Solve for the weights and a free constant at once."""
    n = len(x)
    system = torch.zeros(n + 1, n + 1, dtype=torch.float64)
    system[:n, :n] = kernel(x, x) + penalty * torch.eye(n, dtype=torch.float64)
    system[n, :n] = system[:n, n] = 1
    solved = torch.linalg.solve(system, torch.cat([y, torch.zeros(1, y.shape[1], dtype=torch.float64)]))
    return kernel(query, x) @ solved[:n] + solved[n]


def test_left_out_predictions_are_what_refitting_without_each_point_gives():
    x, y = problem()
    centred = kernel(x, x)
    centred = centred - centred.mean(0) - centred.mean(0)[:, None] + centred.mean()
    typical = centred.trace() / len(x)

    def refitted(penalty):
        return torch.cat(
            [
                fitted(x[torch.arange(12) != i], y[torch.arange(12) != i], x[i : i + 1], penalty)
                for i in range(12)
            ]
        )

    best = min(
        (refitted(float(penalty * typical)) for penalty in PENALTIES),
        key=lambda guess: float((guess - y).square().mean()),
    )
    torch.testing.assert_close(KernelRidge(x, y).left_out, best, atol=1e-6, rtol=0)


def test_queries_at_the_points_of_a_noiseless_map_are_answered_well():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(200, 4, generator=generator, dtype=torch.float64)
    weights = torch.randn(4, 2, generator=generator, dtype=torch.float64)
    queries = 0.5 * torch.randn(9, 4, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(
        KernelRidge(x, x @ weights + 2)(queries), queries @ weights + 2, atol=0.05, rtol=0
    )


def test_points_that_are_all_the_same_give_the_mean():
    targets = torch.tensor([[1.0], [3.0]])
    fit = KernelRidge(torch.ones(2, 3), targets)
    torch.testing.assert_close(fit(torch.zeros(1, 3)), torch.tensor([[2.0]], dtype=torch.float64))


@pytest.mark.parametrize("bottom", range(19))
def test_the_lowest_step_is_found_without_trying_all(bottom):
    asked = []

    def value(step):
        asked.append(step)
        return abs(step - bottom) ** 1.5

    assert index_of_minimum(value, 19) == bottom
    assert len(asked) == len(set(asked)) <= 11


def test_of_two_valleys_the_deeper_is_taken():
    assert index_of_minimum(lambda step: min((step - 3) ** 2 + 1, (step - 15) ** 2), 19) == 15
