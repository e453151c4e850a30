"""The quick rankings against torch's stable sort, ties and infinities included."""

import pytest
import torch

from unmask.tables.ranking import MANY_TIES, by_group, descending, put_first


def values(ties, dtype):
    generator = torch.Generator().manual_seed(ties)
    found = torch.randn(5000, generator=generator, dtype=torch.float64).to(dtype)
    others = torch.randperm(5000, generator=generator)[:ties]
    found[others] = found[others.roll(1)]
    return found


@pytest.mark.parametrize("ties", [0, 1, 3, MANY_TIES // 4, 3000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_values_keep_their_order(ties, dtype):
    given = values(ties, dtype)
    assert torch.equal(descending(given), given.argsort(descending=True, stable=True))


@pytest.mark.parametrize(
    "given",
    [
        torch.zeros(200),
        torch.tensor([1.0, -torch.inf, 1.0, torch.inf, -torch.inf, 0.0, -0.0]),
        torch.tensor([2.0]),
        torch.empty(0),
        values(0, torch.float32).clamp(-1, 1),
    ],
)
def test_runs_of_equal_values(given):
    assert torch.equal(descending(given), given.argsort(descending=True, stable=True))


@pytest.mark.parametrize("groups", [1, 7, 40_000])
def test_by_group_is_a_stable_sort(groups):
    group_of = torch.randint(groups, (50_000,), generator=torch.Generator().manual_seed(0))
    assert torch.equal(by_group(group_of, groups), group_of.argsort(stable=True))


def test_some_are_put_first():
    order = torch.tensor([3, 1, 4, 0, 2])
    assert put_first(order, torch.tensor([4, 3])).tolist() == [4, 3, 1, 0, 2]
    assert put_first(order, torch.tensor([], dtype=torch.long)).tolist() == order.tolist()
