"""The benchmark of the solver stops where it says that it stops."""

import sys
from pathlib import Path

import pytest
import torch

import reference

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import solver


@pytest.fixture
def conditionals():
    generator = torch.Generator().manual_seed(2)
    shapes = [(9, 7), (9, 7), (9,), (7,)]
    return reference.PairConditionals.from_logits(
        *(2 * torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes)
    )


def test_a_finer_end_takes_more_sweeps(conditionals):
    sweeps = [solver.sweep_until(conditionals, close) for close in (1.0, 1e-2, 1e-6)]
    assert sweeps == sorted(sweeps)
    assert 1 <= sweeps[0] < sweeps[-1]
