"""hcb: Hammersley-Clifford-Besag, q(a, b) proportional to p(a|b) / p(a*|b) p(b|a*).

Besag's (1974) factorisation from a fixed pivot a*: exact when the conditionals are compatible, whatever
the pivot. For incompatible ones the answer depends on the pivot and on which blank it is taken from, so
both are options: `pivot` (a token; by default argmax m) and `order`, `ab` as above or
`ba`, its mirror q(a, b) proportional to p(b|a) / p(b*|a) p(a|b*). Compared in Torroba Hennigen & Kim
(2023).
"""

from __future__ import annotations

from typing import Annotated, Literal

from torch import Tensor

from unmask.joints.fillings import Token
from unmask.joints.pair import NormalisedJoint
from unmask.tables.pair_conditionals import EVERYTHING, Index, PairConditionals
from unmask.values import Spec, Word, token_kind

PivotOrder = Annotated[
    Literal["ab", "ba"],
    Spec(Word(("ab", "ba")), "Which blank the pivot is taken from: ab, the first, or ba, the second."),
]
Pivot = Annotated[Token | None, Spec(token_kind(), "The pivot, a token or its id; by default the likeliest.")]


class HammersleyCliffordBesag(NormalisedJoint):
    """Besag's joint from a pivot token."""

    method = "hcb"

    def __init__(
        self, conditionals: PairConditionals, *, order: PivotOrder = "ab", pivot: Pivot = None
    ) -> None:
        super().__init__(conditionals)
        self.order = order
        alone = conditionals.a_alone if order == "ab" else conditionals.b_alone
        support = self.supports[0 if order == "ab" else 1]
        groups = self.groups[0 if order == "ab" else 1]
        self.pivot = token = int(groups.spread(alone).argmax()) if pivot is None else support.index(pivot)
        at = groups.group_of[token : token + 1].to(conditionals.device)
        # the terms that depend on one blank only: log p(b|a*) - log p(a*|b), or its mirror
        where = (at, EVERYTHING) if order == "ab" else (EVERYTHING, at)
        line = conditionals.b_given_a(*where).double() - conditionals.a_given_b(*where)
        self._line = (line[0] if order == "ab" else -line[:, 0]).to(conditionals.dtype)
        self._record(order=order, pivot=int(support.ids[token]))

    def log_weight(self, rows: Index, columns: Index) -> Tensor:
        """Return log p(a|b) - log p(a*|b) + log p(b|a*), or its mirror."""
        if self.order == "ab":
            return self.conditionals.a_given_b(rows, columns) + self._line[None, columns]
        return self.conditionals.b_given_a(rows, columns) + self._line[rows, None]
