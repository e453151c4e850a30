"""Toy joints of two, three and four blanks, one of each kind, for the tests that every joint must pass."""

from functools import partial

import torch
from torch import Tensor

from unmask.inference.grid_conditionals import grid_conditionals
from unmask.inference.model_conditionals import ModelConditionals, independent_joint
from unmask.inference.tree import tree_joint
from unmask.joints.backoff import BackoffGrid, BackoffPair
from unmask.joints.blank_conditionals import BlankConditionals
from unmask.joints.chain import Chain
from unmask.joints.grid import GridJoint
from unmask.joints.table import TableJoint
from unmask.tables.grid_conditionals import GridConditionals
from unmask.text.cloze import parse_blanks
from unmask.text.support import Support

TEXTS = {
    2: "The old [MASK] is playing [MASK] the casino.",
    3: "The [MASK] [MASK] is playing [MASK] the casino.",
    4: "The [MASK] [MASK] is [MASK] at the [MASK].",
}
WORDS = ["man", "dog", "old", "is", "at", "house"]


def cloze_of(mlm, blanks):
    return parse_blanks(TEXTS[blanks], mlm.vocabulary, mlm.window)


def few(mlm, *sizes):
    """A support of a few words for each blank."""
    return tuple(
        Support(torch.tensor([mlm.vocabulary.find(w) for w in WORDS[:n]]), mlm.vocabulary) for n in sizes
    )


def draw_tables(*shape, spread=1.5, seed=0):
    """n tables of random logits: incompatible conditionals."""
    generator = torch.Generator().manual_seed(seed)
    return [spread * torch.randn(*shape, generator=generator, dtype=torch.float64) for _ in shape]


def _grid(mlm, blanks):
    return GridJoint(GridConditionals.from_logits(draw_tables(*range(3, 3 + blanks))))


def _asked_grid(mlm, blanks):
    return GridJoint(grid_conditionals(mlm, cloze_of(mlm, blanks), few(mlm, *[5] * blanks), 3))


def _chain(mlm, blanks, **options):
    conditionals = ModelConditionals(mlm, cloze_of(mlm, blanks), few(mlm, *range(3, 3 + blanks)))
    return Chain(conditionals, **options)


def _backoff_grid(mlm, blanks):
    cloze, supports = cloze_of(mlm, blanks), few(mlm, *[5] * blanks)
    inner = GridJoint(grid_conditionals(mlm, cloze, supports, 3))
    return BackoffGrid(inner, Chain(ModelConditionals(mlm, cloze, supports)))


class _BackingOff(ModelConditionals):
    """Pairs are joined on two candidates, however few tokens there are."""

    def pair(self, state, blanks):
        joint = super().pair(state, blanks)
        supports = tuple(self.supports[b] for b in blanks)
        return BackoffPair(ModelConditionals(self.mlm, joint.cloze, supports), candidates=2)


def _chain_of_backoff_pairs(mlm, blanks):
    conditionals = _BackingOff(mlm, cloze_of(mlm, blanks), few(mlm, *[4] * blanks))
    return Chain(conditionals, block=2, order="confidence")


def _table(mlm, blanks):
    (logits, *_) = draw_tables(*range(2, 2 + blanks), seed=3)
    log_q = logits.flatten().log_softmax(0).reshape(logits.shape)
    return TableJoint(log_q, tuple(Support.numbered(n) for n in logits.shape), method="table")


def _independent(mlm, blanks):
    return independent_joint(mlm, cloze_of(mlm, blanks), few(mlm, *range(3, 3 + blanks)))


def _tree(mlm, blanks, candidates):
    return tree_joint(mlm, cloze_of(mlm, blanks), few(mlm, *range(3, 3 + blanks)), candidates)


JOINTS = {
    "table": _table,
    "grid": _grid,
    "asked grid": _asked_grid,
    "chain": _chain,
    "chain by confidence": partial(_chain, order="confidence"),
    "chain of pairs": partial(_chain, block=2),
    "chain of pairs by confidence": partial(_chain, block=2, order="confidence"),
    "backoff grid": _backoff_grid,
    "chain of backoff pairs": _chain_of_backoff_pairs,
    "independent": _independent,
    "tree": partial(_tree, candidates=10),
    "tree of two candidates": partial(_tree, candidates=2),
}


class TableConditionals(BlankConditionals):
    """The conditionals of an exact joint, which are compatible."""

    def __init__(self, joint: TableJoint) -> None:
        super().__init__(joint.supports)
        self.log_q = joint.log_q

    def logits(self, states: Tensor, blank: int) -> Tensor:
        """Return the line of the table through each state."""
        where = self._where(states)
        table = self.log_q.movedim(blank, -1)
        return table[tuple(where[:, i] for i in range(self.blanks) if i != blank)]

    def start(self, chains: int, generator: torch.Generator) -> Tensor:
        """Draw each blank from its marginal."""
        columns = []
        for blank, support in enumerate(self.supports):
            p = self.log_q.exp().sum([i for i in range(self.blanks) if i != blank])
            columns.append(support.ids[torch.multinomial(p, chains, replacement=True, generator=generator)])
        return torch.stack(columns, dim=1)

    def pair(self, state: Tensor, blanks: tuple[int, int]) -> TableJoint:
        """Return the plane of the table through a state."""
        where = self._where(state[None])[0]
        table = self.log_q.movedim(blanks, (-2, -1))
        rest = tuple(where[i] for i in range(self.blanks) if i not in blanks)
        plane = table[rest] if rest else table
        plane = plane.flatten().log_softmax(0).reshape(plane.shape)
        return TableJoint(plane, tuple(self.supports[b] for b in blanks), method="table")

    def draw_pair(self, states: Tensor, pair: tuple[int, int], generator: torch.Generator) -> Tensor:
        """Draw from the plane of the table through each state."""
        where = self._where(states)
        table = self.log_q.movedim(pair, (-2, -1))
        rest = tuple(where[:, i] for i in range(self.blanks) if i not in pair)
        planes = (table[rest] if rest else table.expand(len(states), *table.shape)).flatten(1)
        flat = torch.multinomial(planes.softmax(-1), 1, generator=generator)[:, 0]
        columns = table.shape[-1]
        a, b = self.supports[pair[0]].ids[flat // columns], self.supports[pair[1]].ids[flat % columns]
        return torch.stack([a, b], dim=1)

    def _where(self, states: Tensor) -> Tensor:
        return torch.stack([s.indices(states[:, i]) for i, s in enumerate(self.supports)], dim=1)
