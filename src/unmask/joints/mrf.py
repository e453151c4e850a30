"""mrf-logit and mrf-prob: Markov random fields over the two blanks.

- `mrf-logit`: q(a, b) proportional to exp(logit(a|b) + logit(b|a)), with the raw logits as potentials;
- `mrf-prob`: q(a, b) proportional to p(a|b) p(b|a).

The MRF family of Wang & Cho (2019) and Goyal et al. (2022), as compared in Torroba Hennigen & Kim (2023),
whose code calls the first `mrf` and the second `mrf-local`. The two differ by the contexts' normalisers
only.
"""

from __future__ import annotations

from functools import cached_property

from torch import Tensor

from unmask.joints.blend import SMALLEST_FLOAT
from unmask.joints.pair import NormalisedJoint
from unmask.tables.pair_conditionals import Index, block_of


class ProbabilityField(NormalisedJoint):
    """The normalised product of the two conditionals."""

    method = "mrf-prob"

    def log_weight(self, rows: Index, columns: Index) -> Tensor:
        """Return log p(a|b) + log p(b|a)."""
        table = self.conditionals
        if self._fits_floats:
            assert table.probabilities is not None
            p, r = (block_of(one, rows, columns) for one in table.probabilities)
            return (p * r).log_()
        return table.a_given_b(rows, columns) + table.b_given_a(rows, columns)

    @cached_property
    def _fits_floats(self) -> bool:
        """Whether no product underflows, so that a cell costs one logarithm instead of two."""
        table = self.conditionals
        return table.probabilities is not None and 2 * table.smallest > SMALLEST_FLOAT


class LogitField(ProbabilityField):
    """The field whose potentials are the model's raw logits."""

    method = "mrf-logit"

    def log_weight(self, rows: Index, columns: Index) -> Tensor:
        """Return logit(a|b) + logit(b|a)."""
        table = self.conditionals
        a_log_z, b_log_z = table.a_log_z[None, columns], table.b_log_z[rows, None]
        return super().log_weight(rows, columns).add_(a_log_z.to(table.dtype)).add_(b_log_z.to(table.dtype))
