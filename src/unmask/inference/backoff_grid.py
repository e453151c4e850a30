"""TailedGrid: a joint on a grid of candidates, with a tail over all other fillings.

A grid of K candidates a blank gives no probability to anything else, so it cannot score a text. Its tail is
the one-token chain C, left to right, which is a distribution over all V^n fillings:

    q(x) = C(G) g(x)   for x in the grid G,       q(x) = C(x)   elsewhere,

g being the joint on the grid and C(G) the mass that the chain gives to the grid. q sums to 1, differs from
the chain in how the grid's mass is shared out and in nothing else, and costs the passes of the grid and of
the chain on it: 1 + K + ... + K^(n-2) (the last blank's are the grid's own). For two blanks
`unmask.inference.backoff_pair` does the same with fewer.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.inference.chain import STATES_AT_ONCE, STILL_BLANK, Chain, Filled
from unmask.joints.grid import GridJoint
from unmask.joints.joint import Tokens
from unmask.joints.sequential import SequentialJoint
from unmask.text.support import Support


class TailedGrid(SequentialJoint):
    """A joint on a grid, and the one-token chain on all fillings outside it.

    Args:
        inner: the joint over the grid's candidates.
        tail: the one-token chain, left to right, over the same blanks and all tokens.
    """

    def __init__(self, inner: GridJoint, tail: Chain) -> None:
        super().__init__(tail.supports, method=inner.method, evidence=dict(inner.evidence), cloze=tail.cloze)
        self.inner, self.tail = inner, tail
        outside = inner.conditionals.outside
        self.log_inside, passes = mass_of_grid(
            tail, inner.supports, None if outside is None else 1 - outside[-1]
        )
        self._inside = [frozenset(s.ids.tolist()) for s in inner.supports]
        self.evidence |= {
            "passes": self.evidence.get("passes", 0) + passes,
            "mass_of_grid": float(torch.tensor(self.log_inside).exp()),
        }

    def log_prob(self, *filling: Tokens) -> Tensor:
        """Return log q of one filling, or of many."""
        indices = self._indices(filling)
        ids = torch.stack([s.ids[i.reshape(-1)] for s, i in zip(self.supports, indices, strict=True)], dim=1)
        inside = self._within(ids)
        found = torch.empty(len(ids), dtype=torch.float64)
        if inside.any():
            found[inside] = self.log_inside + self.inner.log_prob(*ids[inside].unbind(1)).double().cpu()
        if not inside.all():
            found[~inside] = self.tail.log_prob(*ids[~inside].unbind(1))
        return found.reshape(indices[0].shape)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw n fillings, [n, blanks]: by the chain, and anew by the grid where that falls into it."""
        drawn = self.tail.sample(n, generator)
        inside = self._within(drawn)
        if inside.any():
            drawn[inside] = self.inner.sample(int(inside.sum()), generator)
        return drawn

    def _top(self, k: int) -> tuple[Tensor, Tensor]:
        """The best of the grid, exactly, and the best outside it that the chain's beam finds."""
        ids, log_probs = self.inner._top(k)
        outside_ids, outside = self.tail._top(2 * k)
        kept = ~self._within(outside_ids)
        ids = torch.cat([ids.cpu(), outside_ids[kept]])
        log_probs = torch.cat([log_probs.double().cpu() + self.log_inside, outside[kept]])
        best = log_probs.topk(min(k, len(log_probs)))
        return ids[best.indices], best.values

    def _within(self, ids: Tensor) -> Tensor:
        rows = ids.tolist()
        return torch.tensor(
            [all(t in s for t, s in zip(row, self._inside, strict=True)) for row in rows], dtype=torch.bool
        )


def mass_of_grid(
    chain: Chain, supports: tuple[Support, ...], last: Tensor | None = None
) -> tuple[float, int]:
    """Return the log of a left-to-right chain's mass on a grid, and the passes that it took to sum it.

    `last` is the mass inside the grid at the last blank given each filling of the others, [K, ..., K], if
    that is known: the grid's own table was made from these very texts.
    """
    columns = [full.indices(part.ids) for full, part in zip(chain.supports, supports, strict=True)]
    before = chain.evidence["passes"]
    prefixes: list[Filled] = [(STILL_BLANK,) * chain.blanks]
    log_mass = torch.zeros(1, dtype=torch.float64)
    for blank, part in enumerate(supports):
        if last is not None and blank + 1 == chain.blanks:
            log_mass = log_mass + last.double().flatten().log()
            break
        lines = torch.cat(
            [
                chain.distributions(prefixes[i : i + STATES_AT_ONCE], blank).cpu()
                for i in range(0, len(prefixes), STATES_AT_ONCE)
            ]
        )
        log_mass = (log_mass[:, None] + lines[:, columns[blank]]).flatten()
        if blank + 1 < chain.blanks:
            prefixes = [
                (*prefix[:blank], token, *prefix[blank + 1 :])
                for prefix in prefixes
                for token in part.ids.tolist()
            ]
    return float(log_mass.logsumexp(0)), chain.evidence["passes"] - before
