"""GridJoint: the Arnold-Gokhale joint of n blanks on a grid of candidates.

Each blank may hold its K candidates and nothing else, so the joint is a table of K^n cells, and asking the
model what it takes costs K^(n-1) forward passes a blank. `GridConditionals` are what the model says on the
grid, n tables of one shape; `unmask.sequence.solver` turns them into one joint.

The conditionals are normalised over the candidates. What is cut off by that is kept beside them: the mass
outside with all blank, and for each table the mass outside given each filling of the others, whose mean
under the joint the evidence tells (`mass_outside_given_others`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from unmask.errors import Misuse
from unmask.sequence.solver import solve
from unmask.sequence.table import TableJoint, check_table_fits
from unmask.vocabulary import Support


@dataclass(frozen=True, eq=False)
class GridConditionals:
    """What a model says of each of n blanks, given every filling of the others out of their candidates.

    Attributes:
        tables: log p_i(x_i|x_-i), n tensors of one shape, the i-th normalised over axis i.
        alone: log m_i(x_i) with all blank, n vectors.
        supports: the candidates of each blank.
        outside: the mass that the model put outside the candidates given each x_-i, n tensors (an axis of 1
            at the blank's own place); None for tables that are all there is.
        evidence: how the tables came about, for reports.
    """

    tables: tuple[Tensor, ...]
    alone: tuple[Tensor, ...]
    supports: tuple[Support, ...]
    outside: tuple[Tensor, ...] | None = None
    evidence: dict[str, Any] = field(default_factory=dict)

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
            raise Misuse(
                f"expected n tables of one shape with n axes, n at least 2, one table a blank, got {shapes}"
            )
        if not all(t.is_floating_point() and torch.isfinite(t).all() for t in tables):
            raise Misuse("expected tables of finite floating-point logits: every token needs one, as -1e4")
        normal = tuple(t.detach().double().log_softmax(i) for i, t in enumerate(tables))
        if alone is None:
            alone = [t.logsumexp([j for j in range(n) if j != i]) for i, t in enumerate(normal)]
        shape = tuple(tables[0].shape)
        if tuple(len(a) for a in alone) != shape:
            raise Misuse(f"expected all-blank logits of {shape} tokens to go with the tables")
        return cls(
            normal,
            tuple(a.detach().double().log_softmax(0) for a in alone),
            supports or tuple(Support.numbered(size) for size in shape),
            evidence={"conditionals": "tables"},
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """How many candidates each blank has."""
        return tuple(len(support) for support in self.supports)


class GridJoint(TableJoint):
    """The joint over a grid whose conditionals are closest to the given ones.

    Args:
        conditionals: what the model says on the grid.
        tolerance: the norm of the gradient at which the solver stops.
        sweeps: how many sweeps to make before Newton's method takes over.
    """

    def __init__(self, conditionals: GridConditionals, *, tolerance: float = 1e-9, sweeps: int = 60) -> None:
        check_table_fits(conditionals.supports, "a grid", "take fewer candidates a blank, or the chain")
        if not (isinstance(tolerance, int | float) and 0 < tolerance < 1):
            raise Misuse(f"the tolerance of the grid is a positive number such as 1e-9, got {tolerance}")
        if not isinstance(sweeps, int) or isinstance(sweeps, bool) or sweeps < 0:
            raise Misuse(f"the sweeps of the grid are a whole number from 0 on, got {sweeps}")
        solved = solve(
            list(conditionals.tables), list(conditionals.alone), tolerance=tolerance, sweeps=sweeps
        )
        super().__init__(
            solved.log_q, conditionals.supports, method="grid", evidence=dict(conditionals.evidence)
        )
        self.conditionals = conditionals
        self.evidence |= {
            "sweeps": solved.sweeps,
            "newton_steps": solved.newton_steps,
            "gradient_norm": solved.gradient_norm,
            "converged": solved.gradient_norm <= 10 * tolerance,
        }
        if conditionals.outside is not None:
            q = solved.log_q.exp()
            self.evidence["mass_outside_given_others"] = [
                float((q.sum(i, keepdim=True) * lost).sum()) for i, lost in enumerate(conditionals.outside)
            ]
