"""What a model says on a grid: the choice of the candidates, and the passes over their combinations.

The candidates of a blank are the tokens of the fillings that a beam search of the one-token chain finds, and
then those with the largest mean probability over these texts: all blanks masked, and one of the other blanks
holding one of its likeliest tokens, the rest masked. So a token that is unlikely until another is known can
get in. A grid of K candidates at n blanks costs n K^(n-1) forward passes, and no more than MOST_PASSES are
made.
"""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor

from unmask.diagnostics import Diagnostics
from unmask.errors import UsageError
from unmask.inference.model_conditionals import ModelConditionals
from unmask.joints.chain import Chain
from unmask.joints.joint import LARGEST_TABLE
from unmask.models.masked_lm import MaskedLM
from unmask.progress import Progress, silent
from unmask.tables.grid_conditionals import GridConditionals
from unmask.text.cloze import Cloze
from unmask.text.support import Support

MOST_PASSES = 20_000
"""No grid of more forward passes than this is asked for."""
AFFORDABLE_PASSES = 2048
"""The largest grid that is chosen by itself."""
LEADERS = 6
"""How many of the likeliest tokens of each blank are tried to see what becomes likely beside them."""
BEAM = 8
STATES_AT_ONCE = 64


def passes_of_grid(blanks: int, candidates: int) -> int:
    """Return the forward passes of a grid: K^(n-1) for each of its n blanks."""
    return int(blanks * candidates ** (blanks - 1))


def affordable_candidates(blanks: int, passes: int = AFFORDABLE_PASSES) -> int:
    """Return the most candidates per blank that a number of passes affords."""
    candidates = 1
    while passes_of_grid(blanks, candidates + 1) <= passes and (candidates + 1) ** blanks <= LARGEST_TABLE:
        candidates += 1
    return candidates


def check_grid(blanks: int, candidates: int) -> None:
    """Refuse a grid that would cost too much, naming the cost and what to do instead."""
    needed = passes_of_grid(blanks, candidates)
    if needed > MOST_PASSES or candidates**blanks > LARGEST_TABLE:
        fewer = affordable_candidates(blanks, MOST_PASSES)
        raise UsageError(
            f"a grid of {candidates} candidates at {blanks} blanks needs {_told(needed)} forward passes and "
            f"{_told(candidates**blanks)} cells, and the limits are {MOST_PASSES:,} and {LARGEST_TABLE:,}: "
            "take " + (f"{fewer} candidates or fewer, or " if fewer > 1 else "") + "the method chain"
        )


def _told(number: int) -> str:
    """Write a number, one that nobody reads by its digits with a power of ten."""
    return f"{number:,}" if number < 10**12 else f"{number:.1e}".replace("e+", "e")


@torch.inference_mode()
def grid_conditionals(
    mlm: MaskedLM,
    cloze: Cloze,
    supports: tuple[Support, ...],
    candidates: int,
    *,
    include: tuple[tuple[int, ...], ...] | None = None,
    progress: Progress = silent,
) -> GridConditionals:
    """Ask the model about every combination of `candidates` tokens per blank.

    Args:
        mlm: the model.
        cloze: a text with two or more blanks.
        supports: the tokens that each blank may hold.
        candidates: how many of them are in the grid.
        include: token ids that must be among them, for each blank.
        progress: told of the forward passes.
    """
    n = len(cloze.blanks)
    if n < 2:
        raise UsageError("a grid is for two blanks or more: one blank needs no construction")
    if candidates < 1:
        raise UsageError(f"expected at least 1 candidate per blank, got {candidates}")
    kept, alone, passes = choose_candidates(mlm, cloze, supports, candidates, include)
    check_grid(n, max(len(s) for s in kept))
    tables, outside = [], []
    total = sum(math.prod(len(s) for j, s in enumerate(kept) if j != i) for i in range(n))
    progress.started("forward passes of the grid", total)
    try:
        for blank in range(n):
            table, lost = _table(mlm, cloze, supports[blank], kept, blank, progress)
            tables.append(table)
            outside.append(lost)
    finally:
        progress.finished()
    inside = [full.indices(part.ids) for full, part in zip(supports, kept, strict=True)]
    diagnostics = Diagnostics(
        conditionals="grid",
        candidates=candidates,
        passes=passes + total,
        mass_outside_support=tuple(
            max(0.0, 1 - float(a[i].exp().sum())) for a, i in zip(alone, inside, strict=True)
        ),
    )
    vectors = tuple(a[i].log_softmax(0) for a, i in zip(alone, inside, strict=True))
    return GridConditionals(tuple(tables), vectors, kept, tuple(outside), diagnostics, cloze)


def choose_candidates(
    mlm: MaskedLM,
    cloze: Cloze,
    supports: tuple[Support, ...],
    candidates: int,
    include: tuple[tuple[int, ...], ...] | None = None,
) -> tuple[tuple[Support, ...], list[Tensor], int]:
    """Return the candidates of each blank, log m of each blank over its support, and the passes made."""
    n = len(cloze.blanks)
    decoders = [mlm.decoder(support.ids) for support in supports]

    def seen(ids: Tensor) -> list[Tensor]:
        states = mlm.states_at(ids, cloze.blanks)
        return [
            d(states[:, i]).to(mlm.tables_on).double().log_softmax(-1).cpu() for i, d in enumerate(decoders)
        ]

    alone = [table[0] for table in seen(torch.tensor([cloze.ids]))]
    weights = [a.exp() for a in alone]
    passes = 1
    for other in range(n):
        leaders = supports[other].ids[alone[other].topk(min(LEADERS, len(supports[other]))).indices]
        tables = seen(mlm.fillings(cloze, other, leaders))
        passes += len(leaders)
        for i in range(n):
            if i != other:
                weights[i] = weights[i] + tables[i].exp().sum(0)
    chain = Chain(ModelConditionals(mlm, cloze, supports), beam=BEAM)
    found, _ = chain._top(BEAM)
    passes += chain.diagnostics.passes
    kept = []
    for i, support in enumerate(supports):
        wanted = [support.index(t) for t in (include[i] if include else ())]
        beam = [support.index(t) for t in found[:, i].tolist()]
        order = weights[i].argsort(descending=True, stable=True).tolist()
        chosen = list(dict.fromkeys([*wanted, *beam, *order]))[: max(candidates, len(set(wanted)))]
        kept.append(Support(support.ids[sorted(chosen)], support.vocabulary, f"{len(chosen)} candidates"))
    return tuple(kept), alone, passes


def _table(
    mlm: MaskedLM,
    cloze: Cloze,
    full: Support,
    kept: tuple[Support, ...],
    blank: int,
    progress: Progress,
) -> tuple[Tensor, Tensor]:
    """Return log p(x_i|x_-i) on the grid [K, ..., K] and the mass outside it [K, ..., 1, ..., K]."""
    others = [i for i in range(len(kept)) if i != blank]
    combinations = torch.tensor(list(itertools.product(*(kept[i].ids.tolist() for i in others))))
    decode, columns = mlm.decoder(full.ids), full.indices(kept[blank].ids)
    lines, lost = [], []
    for part in combinations.split(STATES_AT_ONCE):
        ids = torch.tensor(cloze.ids).repeat(len(part), 1)
        ids[:, [cloze.blanks[i] for i in others]] = part
        states = mlm.states(ids, cloze.blanks[blank])
        log_p = decode(states).to(mlm.tables_on).double().log_softmax(-1)[:, columns].cpu()
        inside = log_p.logsumexp(1)
        lines.append(log_p - inside[:, None])
        lost.append((1 - inside.exp()).clamp_min(0.0))
        progress.advanced(len(part))
    shape = [len(kept[i]) for i in others]
    table = torch.cat(lines).reshape(*shape, len(kept[blank])).movedim(-1, blank)
    return table, torch.cat(lost).reshape(shape).unsqueeze(blank)
