"""EdgeConditionals: what a child blank holds given its parent, for an edge of a tree (`joints.tree`).

A table q(child | parent) of V × V cells is large, and most of the parent's tokens are unlikely. So tokens of
the parent may share a row: `group_of` maps each of them to its row, and only the rows are asked for, in
blocks of a bounded number of cells. A likely token has a row of its own; the others condition as one, or as
a few. Sums over the parent's tokens become sums over rows, and stay exact.

- `EdgeTable` holds its rows. `EdgeTable.of_candidates` has one row for each candidate of the parent, and one
  for all its other tokens; `EdgeTable.of_both_orders` has those of the mixture of both orders.
- `PairEdge` reads them off a joint of the two blanks: of `l2r`, which gives p(b|a), or of any construction.

Tokens are indices into the supports; all answers are in float64 on the CPU.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import torch
from torch import Tensor

from unmask.errors import UsageError
from unmask.joints.pair import PairJoint
from unmask.tables.pair_conditionals import EVERYTHING, row_blocks


class EdgeConditionals(ABC):
    """The distributions of a child blank, one for each row of the parent's tokens.

    Args:
        group_of: the row of each token of the parent, [parent].
        shape: the number of rows, and of the child's tokens.
        evaluated: which rows are the model's own answers to one token, [rows]; None if all are.
    """

    def __init__(self, group_of: Tensor, shape: tuple[int, int], evaluated: Tensor | None = None) -> None:
        rows, child = shape
        if group_of.ndim != 1 or not len(group_of) or group_of.is_floating_point() or 0 in shape:
            raise UsageError(
                f"expected the row of each token of the parent, and at least one row and one token, got "
                f"{list(group_of.shape)} of {group_of.dtype} for {rows} × {child}"
            )
        if int(group_of.min()) < 0 or int(group_of.max()) >= rows:
            raise UsageError(
                f"expected rows from 0 to {rows - 1} for the tokens of the parent, got "
                f"{int(group_of.min())} to {int(group_of.max())}"
            )
        self.group_of, self.shape, self.evaluated = group_of.long().cpu(), (rows, child), evaluated

    @abstractmethod
    def log_rows(self, rows: Tensor) -> Tensor:
        """Return log q(child | parent) of some rows, each summing to 1, [rows, child]."""

    def blocks(self, rows: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Go through some rows in blocks of a bounded number of cells: which of them, and their answers."""
        for part in row_blocks(len(rows), self.shape[1]):
            yield part, self.log_rows(rows[part])

    def row_mass(self, log_parent: Tensor) -> Tensor:
        """Return the log of the sum over the tokens of each row of exp(log_parent): [parent] -> [rows]."""
        top = torch.full((self.shape[0],), -torch.inf, dtype=torch.float64)
        top = top.scatter_reduce(0, self.group_of, log_parent, "amax")
        finite = top.clamp_min(torch.finfo(torch.float64).min)  # a row of impossible tokens stays at -inf
        sums = torch.zeros_like(top).index_add_(0, self.group_of, (log_parent - finite[self.group_of]).exp())
        return sums.log() + finite

    def sum_over_parent(self, log_parent: Tensor) -> Tensor:
        """Return log sum_parent exp(log_parent) q(child | parent): [parent] -> [child]."""
        mass = self.row_mass(log_parent)
        rows = (mass > -torch.inf).nonzero()[:, 0]
        total = torch.full((self.shape[1],), -torch.inf, dtype=torch.float64)
        for part, block in self.blocks(rows):
            total = torch.logaddexp(total, (mass[rows[part], None] + block).logsumexp(0))
        return total

    def sum_over_child(self, log_child: Tensor) -> Tensor:
        """Return log sum_child q(child | row) exp(log_child): [child] -> [rows]."""
        kept = (log_child > -torch.inf).nonzero()[:, 0]  # of a child that is given, its token alone
        weights = log_child[kept]
        return torch.cat([(block[:, kept] + weights).logsumexp(1) for _, block in self._all_blocks()])

    def best_over_child(self, log_child: Tensor) -> Tensor:
        """Return max_child [log q(child | row) + log_child]: [child] -> [rows]."""
        return torch.cat([(block + log_child).amax(1) for _, block in self._all_blocks()])

    def entropy(self, log_parent: Tensor) -> Tensor:
        """Return the entropy of the child given its parent, the parent being distributed as [parent]."""
        mass = self.row_mass(log_parent)
        rows = (mass > -torch.inf).nonzero()[:, 0]
        total = torch.zeros((), dtype=torch.float64)
        for part, block in self.blocks(rows):
            probs = block.exp()
            total -= (mass[rows[part]].exp() * torch.special.xlogy(probs, probs).sum(1)).sum()
        return total

    def mutual_information(self, log_parent: Tensor) -> Tensor:
        """Return how many nats parent and child tell of each other, the parent distributed as [parent]."""
        probs = self.sum_over_parent(log_parent).exp()
        alone: Tensor = -torch.special.xlogy(probs, probs).sum()
        return (alone - self.entropy(log_parent)).clamp_min(0.0)

    def log_prob(self, parent: Tensor, child: Tensor) -> Tensor:
        """Return log q(child | parent) of pairs of tokens, [n]."""
        rows, which = torch.unique(self.group_of[parent], return_inverse=True)
        found = torch.empty(len(parent), dtype=torch.float64)
        for part, block in self.blocks(rows):
            here = (which >= part.start) & (which < part.stop)
            found[here] = block[which[here] - part.start, child[here]]
        return found

    def sample(self, parent: Tensor, generator: torch.Generator | None) -> Tensor:
        """Draw a token of the child for each token of the parent, [n]."""
        rows, which = torch.unique(self.group_of[parent], return_inverse=True)
        drawn = torch.empty_like(parent)
        for part, block in self.blocks(rows):
            for row, weights in enumerate(block.exp(), part.start):
                here = which == row
                drawn[here] = torch.multinomial(weights, int(here.sum()), True, generator=generator)
        return drawn

    def _all_blocks(self) -> Iterator[tuple[slice, Tensor]]:
        return self.blocks(torch.arange(self.shape[0]))


class EdgeTable(EdgeConditionals):
    """Conditionals that are held as a table.

    Args:
        logits: of the child's tokens, or their log-probabilities, [rows, child].
        group_of: the row of each token of the parent, [parent]; by default each has its own, in order.
        evaluated: which rows are the model's own answers to one token, [rows]; None if all are.
    """

    def __init__(
        self, logits: Tensor, group_of: Tensor | None = None, evaluated: Tensor | None = None
    ) -> None:
        if logits.ndim != 2 or not logits.is_floating_point():
            raise UsageError(
                f"expected a table of floating-point logits [rows, child], got {list(logits.shape)} of "
                f"{logits.dtype}"
            )
        rows, child = logits.shape
        super().__init__(torch.arange(rows) if group_of is None else group_of, (rows, child), evaluated)
        self._logits = logits.detach().cpu()
        self._log_z = torch.cat(
            [self._logits[part].double().logsumexp(1) for part in row_blocks(rows, child)]
        )
        if not torch.isfinite(self._log_z).all():
            raise UsageError(
                "a row of an edge's table holds undefined logits, or no finite one: give log-probabilities"
            )

    @classmethod
    def of_candidates(cls, candidates: Tensor, logits: Tensor, rest: Tensor, parent_tokens: int) -> EdgeTable:
        """Make a table with one row for each candidate of the parent, and one for its other tokens.

        Args:
            candidates: tokens of the parent, as indices, [candidates], each once.
            logits: of the child with each of them in the parent, [candidates, child].
            rest: of the child with any other token in the parent, [child]: those with the parent masked do.
            parent_tokens: how many tokens the parent may hold.
        """
        if len(torch.unique(candidates)) != len(candidates) or len(candidates) != len(logits):
            raise UsageError(
                f"expected one row of logits for each of some different candidates, got {len(logits)} rows "
                f"and {len(candidates)} candidates"
            )
        if len(candidates) == parent_tokens:
            return cls(logits[candidates.argsort()])
        group_of = torch.full((parent_tokens,), len(candidates))
        group_of[candidates] = torch.arange(len(candidates))
        evaluated = torch.arange(len(candidates) + 1) < len(candidates)
        return cls(torch.cat([logits, rest[None].to(logits)]), group_of, evaluated)

    @classmethod
    def of_both_orders(
        cls, ahead: EdgeConditionals, back: EdgeConditionals, log_parent: Tensor, log_child: Tensor
    ) -> EdgeTable:
        """Make those of the mixture of both orders, m(parent) p(child|parent) + m(child) p(parent|child).

        Args:
            ahead, back: those of the child given the parent, and of the parent given the child.
            log_parent, log_child: log-probabilities of each by itself, m, [tokens].
        """
        rows, child = ahead.shape
        counts = torch.bincount(ahead.group_of, minlength=rows).double()
        of_row = ahead.row_mass(log_parent) - counts.log()
        given_child = torch.empty(rows, back.shape[0], dtype=torch.float64)  # of one token of a parent's row
        for part, block in back.blocks(torch.arange(back.shape[0])):
            sums = torch.zeros(rows, len(block), dtype=torch.float64).index_add_(
                0, ahead.group_of, block.T.exp()
            )
            given_child[:, part] = (sums / counts[:, None]).log()
        mixed = torch.empty(rows, child)
        for part, block in ahead.blocks(torch.arange(rows)):
            other = given_child[part][:, back.group_of] + log_child
            mixed[part] = torch.logaddexp(block + of_row[part, None], other).float()
        return cls(mixed, ahead.group_of, ahead.evaluated)

    def log_rows(self, rows: Tensor) -> Tensor:
        """Return log q(child | parent) of some rows, [rows, child]."""
        return self._logits[rows].double() - self._log_z[rows, None]


class PairEdge(EdgeConditionals):
    """The conditionals of a joint of two blanks.

    Args:
        joint: of the two blanks: q(b|a) of `l2r` is p(b|a), q(a|b) of `r2l` is p(a|b).
        parent: which of its blanks is the parent, 0 or 1.
    """

    def __init__(self, joint: PairJoint, parent: int) -> None:
        groups, child_groups = joint.groups[parent], joint.groups[1 - parent]
        evaluated = None
        if joint.conditionals.evaluated is not None:
            evaluated = torch.zeros(len(groups), dtype=torch.bool)
            evaluated[groups.group_of[joint.conditionals.evaluated[parent].cpu()]] = True
        super().__init__(groups.group_of, (len(groups), len(child_groups.group_of)), evaluated)
        self.joint, self.parent = joint, parent
        self._child_groups = child_groups

    def log_rows(self, rows: Tensor) -> Tensor:
        """Return log q(child | parent) of some rows, [rows, child]."""
        rows = rows.to(self.joint.conditionals.device)
        if self.parent == 0:
            block = self.joint.log_block(rows, EVERYTHING)
        else:
            block = self.joint.log_block(EVERYTHING, rows).T
        groups, block = self._child_groups, block.double().cpu()
        block = block - (block + groups.counts.log()).logsumexp(1, keepdim=True)
        return block if groups.ungrouped else block[:, groups.group_of] + groups.log_within
