"""Toy joints of two, three and four blanks, one of each kind, for the tests that every joint must pass."""

from functools import partial

import torch

from unmask.cloze import parse_blanks
from unmask.sequence.asking import grid_conditionals
from unmask.sequence.chain import Chain
from unmask.sequence.grid import GridConditionals, GridJoint
from unmask.sequence.pairs import TailedPair, pair_joint
from unmask.sequence.table import TableJoint
from unmask.sequence.tailed import TailedGrid
from unmask.vocabulary import Support

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
}
