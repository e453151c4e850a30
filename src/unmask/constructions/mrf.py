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
from unmask.pair import NormalisedJoint


class ProbabilityField(NormalisedJoint):
    """The normalised product of the two conditionals."""

    def __init__(self, conditionals: PairConditionals, *, method: str = "mrf-prob") -> None:
        super().__init__(conditionals, method=method)

    def log_weight(self, rows: Index, columns: Index) -> Tensor:
        """Return log p(a|b) + log p(b|a)."""
        p, r = self.conditionals.a_given_b(rows, columns), self.conditionals.b_given_a(rows, columns)
        return p.double() + r


class LogitField(ProbabilityField):
    """The field whose potentials are the model's raw logits."""

    def __init__(self, conditionals: PairConditionals) -> None:
        super().__init__(conditionals, method="mrf-logit")

    def log_weight(self, rows: Index, columns: Index) -> Tensor:
        """Return logit(a|b) + logit(b|a)."""
        normalisers = self.conditionals.a_log_z[None, columns] + self.conditionals.b_log_z[rows, None]
        return super().log_weight(rows, columns) + normalisers
