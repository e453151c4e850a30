"""mrf-logit and mrf-prob: Markov random fields over the two blanks.

- `mrf-logit`: q(a, b) proportional to exp(logit(a|b) + logit(b|a)), with the raw logits as potentials;
- `mrf-prob`: q(a, b) proportional to p(a|b) p(b|a).

The MRF family of Wang & Cho (2019) and Goyal et al. (2022), as compared in Torroba Hennigen & Kim (2023),
whose code calls the first `mrf` and the second `mrf-local`. The two differ by the contexts' normalisers
only.
"""

from __future__ import annotations

from torch import Tensor

from unmask.conditionals import Index, PairConditionals
from unmask.pair import PairJoint, log_total


class ProbabilityField(PairJoint):
    """The normalised product of the two conditionals."""

    def __init__(self, conditionals: PairConditionals, *, method: str = "mrf-prob") -> None:
        super().__init__(conditionals, method=method)
        self._log_total = 0.0
        self._log_total = log_total(self)

    def log_block(self, rows: Index, columns: Index) -> Tensor:
        """Return log p(a|b) + log p(b|a) - log Z."""
        both = self.conditionals.a_given_b(rows, columns) + self.conditionals.b_given_a(rows, columns)
        return both - self._log_total


class LogitField(ProbabilityField):
    """The field whose potentials are the model's raw logits."""

    def __init__(self, conditionals: PairConditionals) -> None:
        super().__init__(conditionals, method="mrf-logit")

    def log_block(self, rows: Index, columns: Index) -> Tensor:
        """Return logit(a|b) + logit(b|a) - log Z."""
        normalisers = self.conditionals.a_log_z[None, columns] + self.conditionals.b_log_z[rows, None]
        return super().log_block(rows, columns) + normalisers
