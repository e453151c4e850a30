"""A table of conditionals that is computed anew wherever it is read, from the states that it comes from.

An exact table of V by V log-probabilities is the product of V states with the V rows of the output layer,
less the normaliser of each state: log p(a|b) = w_a · h_b + c_a - z_b. The states take V × features numbers,
a hundredth of the table. Where two tables don't fit the memory budget, they are kept in this form; a pass
over them costs a matrix product more.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

Index = slice | Tensor


@dataclass(frozen=True, eq=False)
class LazyTable:
    """log-probabilities of asked tokens given filled ones, laid out [asked, filled] or [filled, asked].

    Attributes:
        weights: the output layer's rows of the asked tokens, [asked, features].
        offset: what it adds to their logits, [asked].
        states: what goes into it for each filled token, [filled, features].
        log_z: the normaliser of each filled token's logits, [filled].
        by_asked: whether the rows are the asked tokens, or else the filled ones.
    """

    weights: Tensor
    offset: Tensor
    states: Tensor
    log_z: Tensor
    by_asked: bool

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        asked, filled = len(self.weights), len(self.states)
        return (asked, filled) if self.by_asked else (filled, asked)

    @property
    def dtype(self) -> torch.dtype:
        """The precision of a block."""
        return self.states.dtype

    @property
    def device(self) -> torch.device:
        """Where a block is computed."""
        return self.states.device

    def block(self, rows: Index, columns: Index) -> Tensor:
        """Return a block of the table, [rows, columns]."""
        log_z = self.log_z.to(self.dtype)
        if self.by_asked:
            part = torch.addmm(self.offset[rows, None], self.weights[rows], self.states[columns].T)
            return part.sub_(log_z[None, columns])
        part = torch.addmm(self.offset[None, columns], self.states[rows], self.weights[columns].T)
        return part.sub_(log_z[rows, None])
