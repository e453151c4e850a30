"""Toy joints of two, three and four blanks, one of each kind, for the tests that every joint must pass."""

from functools import partial

import torch
from torch import Tensor

from unmask.inference.backoff_grid import TailedGrid
from unmask.inference.backoff_pair import TailedPair, pair_joint
from unmask.inference.chain import Chain
from unmask.inference.conditional_sampler import Field
from unmask.inference.grid_conditionals import grid_conditionals
from unmask.inference.independent import independent_joint
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


def _chain(mlm, blanks, *, pairs=False, **options):
    pair = (lambda cloze, supports: pair_joint(mlm, cloze, supports)) if pairs else None
    return Chain(mlm, cloze_of(mlm, blanks), few(mlm, *range(3, 3 + blanks)), pair=pair, **options)


def _tailed(mlm, blanks):
    cloze, supports = cloze_of(mlm, blanks), few(mlm, *[5] * blanks)
    inner = GridJoint(grid_conditionals(mlm, cloze, supports, 3))
    return TailedGrid(inner, Chain(mlm, cloze, supports))


def _chain_of_tailed_pairs(mlm, blanks):
    def pair(cloze, supports):
        return TailedPair(mlm, cloze, supports, candidates=2)

    return Chain(mlm, cloze_of(mlm, blanks), few(mlm, *[4] * blanks), pair=pair, order="confidence")


def _table(mlm, blanks):
    (logits, *_) = draw_tables(*range(2, 2 + blanks), seed=3)
    log_q = logits.flatten().log_softmax(0).reshape(logits.shape)
    return TableJoint(log_q, tuple(Support.numbered(n) for n in logits.shape), method="table")


def _independent(mlm, blanks):
    return independent_joint(mlm, cloze_of(mlm, blanks), few(mlm, *range(3, 3 + blanks)))


JOINTS = {
    "table": _table,
    "grid": _grid,
    "asked grid": _asked_grid,
    "chain": _chain,
    "chain by confidence": partial(_chain, order="confidence"),
    "chain of pairs": partial(_chain, pairs=True),
    "chain of pairs by confidence": partial(_chain, pairs=True, order="confidence"),
    "tailed grid": _tailed,
    "chain of tailed pairs": _chain_of_tailed_pairs,
    "independent": _independent,
}


class TableField(Field):
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
