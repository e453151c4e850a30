"""Ranking thousands of tokens: what torch's stable sort gives, several times as fast.

numpy sorts with the processor's vector instructions where it need not be stable. So equal values are put into
order afterwards: there are few among the log-probabilities of a vocabulary.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

MANY_TIES = 64
"""Equal neighbours from which on a stable sort is quicker."""


def descending(values: Tensor) -> Tensor:
    """Return the indices of values [n] from the largest to the smallest, equal ones in their order.

    The same as `values.argsort(descending=True, stable=True)` of numbers, on the CPU.
    """
    keys = -values.detach().cpu().numpy()
    order = keys.argsort()
    ranked = keys[order]
    tied = np.flatnonzero(ranked[1:] == ranked[:-1])
    if len(tied) > MANY_TIES:
        order = keys.argsort(kind="stable")
    elif len(tied):
        for run in np.split(tied, np.flatnonzero(np.diff(tied) > 1) + 1):
            order[run[0] : run[-1] + 2].sort()
    return torch.from_numpy(order)


def by_group(group_of: Tensor, groups: int) -> Tensor:
    """Return the indices of group numbers [n] from the lowest group on, those of a group in their order."""
    numbers = group_of.numpy()
    if groups <= np.iinfo(np.int16).max:  # sorted by their digits
        numbers = numbers.astype(np.int16)
    return torch.from_numpy(numbers.argsort(kind="stable"))


def put_first(order: Tensor, first: Tensor) -> Tensor:
    """Return an order of all indices [n] with some moved to its front, the others as they are."""
    moved = torch.zeros(len(order), dtype=torch.bool)
    moved[first] = True
    return torch.cat([first, order[~moved[order]]])
