"""GridConditionals: what a model says of each of n blanks on a grid of candidates, n tables of one shape.

The conditionals are normalised over the candidates. What is cut off by that is kept beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from unmask.diagnostics import Diagnostics
from unmask.errors import UsageError
from unmask.text.cloze import Cloze
from unmask.text.support import Support


@dataclass(frozen=True, eq=False)
class GridConditionals:
    """What a model says of each of n blanks, given every filling of the others out of their candidates.

    Attributes:
        tables: log p_i(x_i|x_-i), n tensors of one shape, the i-th normalised over axis i.
        alone: log m_i(x_i) with all blank, n vectors.
        supports: the candidates of each blank.
        outside: the mass that the model put outside the candidates given each x_-i, n tensors (an axis of 1
            at the blank's own place); None for tables that are all there is.
        diagnostics: how the tables came about.
        cloze: the text with the blanks, if there is one.
    """

    tables: tuple[Tensor, ...]
    alone: tuple[Tensor, ...]
    supports: tuple[Support, ...]
    outside: tuple[Tensor, ...] | None = None
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    cloze: Cloze | None = None

    @classmethod
    def from_logits(
        cls,
        tables: Sequence[Tensor],
        alone: Sequence[Tensor] | None = None,
        *,
        supports: tuple[Support, ...] | None = None,
    ) -> GridConditionals:
        """Make conditionals from n tables of logits (or log-probabilities), laid out [blank 0, blank 1, ...].

        Without the all-blank vectors the average conditionals stand in for them.
        """
        n = len(tables)
        if n < 2 or any(t.ndim != n or t.shape != tables[0].shape or 0 in t.shape for t in tables):
            shapes = ", ".join(str(list(t.shape)) for t in tables)
            raise UsageError(
                f"expected n tables of one shape with n axes, n at least 2, one table per blank, got {shapes}"
            )
        if not all(t.is_floating_point() and torch.isfinite(t).all() for t in tables):
            raise UsageError(
                "expected tables of finite floating-point logits: every token needs one, as -1e4"
            )
        normal = tuple(t.detach().double().log_softmax(i) for i, t in enumerate(tables))
        if alone is None:
            alone = [t.logsumexp([j for j in range(n) if j != i]) for i, t in enumerate(normal)]
        shape = tuple(tables[0].shape)
        if tuple(len(a) for a in alone) != shape:
            raise UsageError(f"expected all-blank logits of {shape} tokens to go with the tables")
        return cls(
            normal,
            tuple(a.detach().double().log_softmax(0) for a in alone),
            supports or tuple(Support.numbered(size) for size in shape),
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """How many candidates each blank has."""
        return tuple(len(support) for support in self.supports)
