"""ag is solved to convergence: a vanishing gradient, and never a larger A-KL than the published rounds."""

import random

import numpy as np
import pytest
import torch

import reference
from unmask import PairConditionals, construct
from unmask.diagnostics import SolverResult
from unmask.joints.arnold_gokhale import starting_point
from unmask.joints.metrics import average_kl
from unmask.kernels.anderson import Anderson
from unmask.kernels.newman import sweep_in_logs


def gradient_norm(joint):
    """The gradient of F in (log x, log y), from the definition: x_a q'(a) - 1 with q' = S / (x + y)."""
    p, r, _, _ = reference.dense(joint.conditionals)
    x, y = joint.log_x.exp().numpy(), joint.log_y.exp().numpy()
    q = (p + r) / np.add.outer(x, y)
    return np.linalg.norm(np.concatenate([x * q.sum(1) - 1, y * q.sum(0) - 1]))


# drawn once: hypothesis draws numbers of the modules that happen to be imported, so other ones in other runs
DRAWN = random.Random(0)
SPREADS = [0.2, 1.0, 4.0, 10.0, 20.0, 40.0]
TABLES = [
    (4, 4, 40.0, 1),  # a graph in pieces, on which long Newton steps once stalled
    (20, 20, 20.0, 15),
    (4, 4, 40.0, 13),
    *(
        (DRAWN.randint(1, 8), DRAWN.randint(1, 8), DRAWN.choice(SPREADS), DRAWN.randint(0, 10_000))
        for _ in range(120)
    ),
]


@pytest.mark.parametrize(("rows", "columns", "spread", "seed"), TABLES)
def test_the_gradient_vanishes(rows, columns, spread, seed):
    joint = construct("ag", reference.draw(rows, columns, spread, seed))
    assert gradient_norm(joint) < 1e-6
    assert joint.diagnostics.converged


def test_a_solver_that_stalls_says_so():
    """A violently peaked table on which Newton's method stalls far from the optimum."""
    joint = construct("ag", reference.draw(6, 6, 40.0, seed=512))
    assert gradient_norm(joint) > 1e-3
    assert joint.diagnostics.solver.result is SolverResult.NOT_CONVERGED
    assert "tolerance" in joint.diagnostics.solver.result.remedy


@pytest.mark.slow
@pytest.mark.parametrize("size", [(300, 450), (500, 500)])
@pytest.mark.parametrize("spread", [1.0, 5.0, 40.0])
def test_the_gradient_vanishes_for_large_and_peaked_tables(size, spread):
    joint = construct("ag", reference.draw(*size, spread, seed=6))
    assert gradient_norm(joint) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.5, 2.0, 6.0, 30.0])
@pytest.mark.parametrize("rounds", [1, 2, 5, 10, 40, 200, 1000])
def test_no_number_of_published_rounds_is_closer_to_the_model(spread, rounds):
    conditionals = reference.draw(12, 9, spread, seed=8)
    solved = average_kl(construct("ag", conditionals))
    published = average_kl(construct("ag-published", conditionals, rounds=rounds))
    assert solved <= published + 1e-9


@pytest.mark.slow
def test_forty_published_rounds_have_not_converged_on_peaked_tables():
    conditionals = reference.draw(30, 30, 10.0, seed=8)
    everything = (slice(None), slice(None))
    solved = construct("ag", conditionals).log_block(*everything)
    published = construct("ag-published", conditionals, rounds=40).log_block(*everything)
    far = construct("ag-published", conditionals, rounds=20_000).log_block(*everything)
    assert float((published - solved).abs().max()) > 0.1
    assert float((far - solved).abs().max()) < 1e-3


def test_no_small_change_of_the_joint_brings_it_closer():
    """A direct check of optimality that knows nothing of x and y."""
    conditionals = reference.draw(5, 4, 2.0, seed=1)
    p, r, _, _ = reference.dense(conditionals)
    log_q = construct("ag", conditionals).log_block(slice(None), slice(None)).double().numpy()

    def distance(table):
        q = np.exp(table)
        given_b, given_a = q / q.sum(0, keepdims=True), q / q.sum(1, keepdims=True)
        return (p * np.log(p / given_b)).sum() + (r * np.log(r / given_a)).sum()

    best = distance(log_q)
    generator = np.random.default_rng(0)
    for _ in range(200):
        assert distance(log_q + 0.01 * generator.standard_normal(log_q.shape)) > best


@pytest.mark.parametrize("depth", [0.0, 30.0, 34.0, 60.0])
def test_probabilities_and_logarithms_give_the_same_joint(monkeypatch, depth):
    """Large tables are solved and read as probabilities; here beside the same tables as logarithms."""

    def made():
        generator = torch.Generator().manual_seed(0)
        logits = [torch.randn(400, 350, generator=generator) for _ in range(2)]
        logits[0][7] -= depth
        logits[0][7, 9] -= depth
        logits[1][7, 9] -= depth
        return PairConditionals.from_logits(*logits)

    fast = made()
    assert (fast.probabilities is not None) == (depth < 40)
    table = construct("ag", fast).log_block(slice(None), slice(None)).double()
    monkeypatch.setattr("unmask.tables.pair_conditionals.SMALL_TABLE", 10**9)
    plain = made()
    assert plain.probabilities is None
    expected = construct("ag", plain).log_block(slice(None), slice(None)).double()
    torch.testing.assert_close(table, expected, atol=2e-5, rtol=0)


def test_a_start_far_from_the_answer_does_not_matter():
    generator = torch.Generator().manual_seed(0)
    logits = [torch.randn(400, 350, generator=generator) for _ in range(2)]
    alone = torch.zeros(400)
    alone[3] = -1e4
    near = construct("ag", PairConditionals.from_logits(*logits))
    far = construct("ag", PairConditionals.from_logits(*logits, alone, torch.zeros(350)))
    everything = (slice(None), slice(None))
    torch.testing.assert_close(near.log_block(*everything), far.log_block(*everything), atol=2e-5, rtol=0)


def test_the_answer_does_not_depend_on_which_blank_comes_first():
    first = reference.draw(6, 4, 2.0, seed=2)
    swapped = PairConditionals.from_logits(first.b_table.T, first.a_table.T, first.b_alone, first.a_alone)
    table = construct("ag", first).log_block(slice(None), slice(None))
    torch.testing.assert_close(
        construct("ag", swapped).log_block(slice(None), slice(None)).T, table, atol=1e-6, rtol=0
    )


@pytest.mark.parametrize("spread", [1.0, 5.0, 20.0])  # by sweeps alone, and by Newton's method
@pytest.mark.parametrize("smallest", [1, 10**9])  # on probabilities, and on logarithms
def test_a_lumped_table_gives_each_token_what_the_repeated_one_does(monkeypatch, spread, smallest):
    monkeypatch.setattr("unmask.tables.pair_conditionals.SMALL_TABLE", smallest)
    rows, columns = [1, 4, 1, 2, 1, 30, 1, 1, 1], [3, 1, 1, 1, 7, 1, 1]
    repeated, lumped, (a_at, b_at) = reference.repeat(reference.draw(9, 7, spread, seed=3), rows, columns)
    whole, small = construct("ag", repeated), construct("ag", lumped)
    assert small.diagnostics.converged
    torch.testing.assert_close(small.log_x[a_at], whole.log_x, atol=1e-5, rtol=0)
    torch.testing.assert_close(small.log_y[b_at], whole.log_y, atol=1e-5, rtol=0)
    pairs = torch.cartesian_prod(torch.arange(len(a_at)), torch.arange(len(b_at))).T
    torch.testing.assert_close(small.log_prob(pairs.T), whole.log_prob(pairs.T), atol=1e-5, rtol=0)


def test_extrapolation_reaches_the_same_point_in_fewer_sweeps():
    conditionals = reference.draw(40, 50, 4.0, seed=3)
    log_x, log_y = starting_point(conditionals)
    plain = 0
    while True:
        swept = sweep_in_logs(conditionals, log_x, log_y)
        log_x, log_y, plain = swept.log_x, swept.log_y, plain + 1
        if swept.gradient < 1e-10:
            break
    joint = construct("ag", conditionals)
    assert joint.diagnostics.solver.newton_steps == 0
    assert joint.diagnostics.solver.sweeps < plain / 2
    torch.testing.assert_close(joint.log_y, log_y - log_y.mean(), atol=1e-7, rtol=0)


def test_an_extrapolation_that_misleads_is_taken_back(monkeypatch):
    """Steps in a wrong direction cost a sweep each, and nothing else."""

    def astray(self, theta, landing):
        return landing + np.linspace(-3, 3, len(landing))

    conditionals = reference.draw(40, 50, 1.0, seed=3)
    honest = construct("ag", conditionals)
    monkeypatch.setattr(Anderson, "next", astray)
    misled = construct("ag", conditionals)
    assert misled.diagnostics.converged
    torch.testing.assert_close(misled.log_y, honest.log_y, atol=1e-7, rtol=0)


def test_tables_in_single_precision_reach_a_gradient_that_single_precision_can_not_show():
    generator = torch.Generator().manual_seed(0)
    logits = [torch.randn(400, 350, generator=generator) for _ in range(2)]
    joint = construct("ag", PairConditionals.from_logits(*logits), tolerance=1e-11)
    assert joint.diagnostics.converged
    assert joint.diagnostics.solver.newton_steps == 0
