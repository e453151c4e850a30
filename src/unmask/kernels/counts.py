"""How many tokens each row and each column of a pair of tables stands for.

A row may stand for several tokens that the tables do not tell apart (the tail of a large vocabulary, say).
Tables and vectors then hold values *per token*, and every sum over tokens of A carries `a_counts`, every sum
over tokens of B `b_counts`. So a lumped table gives each token what the full one would, with its rows and
columns repeated.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.tables.pair_conditionals import PairConditionals


def counts_of(conditionals: PairConditionals) -> tuple[Tensor, Tensor]:
    """Return the tokens of each row [a] and of each column [b], in float64: ones where nothing is lumped."""
    return tuple(  # type: ignore[return-value]
        torch.ones(size, dtype=torch.float64, device=conditionals.device)
        if counts is None
        else counts.to(conditionals.device, torch.float64)
        for counts, size in zip(
            (conditionals.a_counts, conditionals.b_counts), conditionals.shape, strict=True
        )
    )
