"""The tree of a text's blanks by forward passes: each blank given one other, the rest masked.

    q(x) = m(root) prod over edges p(child | parent)

For each of K candidates of a blank one pass, with the candidate in its place and all other blanks masked,
gives the conditionals of all others at once: 1 + n K passes for n blanks. A token that is not among the
candidates of a parent conditions as a mask does, by m(child). So q is over all V^n fillings, and
`mass_outside_candidates` is what rests on that.

Which blanks are joined depends on mutual informations of all pairs, from the same passes.

With no candidates at all the conditionals are a pair head's guesses, from one pass, and

    q(child | parent) ∝ m(parent) p(child | parent) + m(child) p(parent | child)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from unmask.diagnostics import Diagnostics
from unmask.errors import UsageError
from unmask.inference.guessed_edges import COMPARED_ROWS, GuessedEdge
from unmask.inference.pair_guess import PairGuess, check_has_head
from unmask.joints.edge_conditionals import EdgeTable
from unmask.joints.tree import TreeJoint, choose_edges
from unmask.models.masked_lm import MaskedLM
from unmask.progress import Progress, silent
from unmask.text.cloze import Cloze
from unmask.text.support import Support

TREE_CANDIDATES = 16
"""Candidates per blank, unless all tokens are affordable."""
AFFORDABLE_PASSES = 2048
"""`auto` takes every token as a candidate up to this many passes."""
MOST_PASSES = 8192
MOST_BLANKS = 64
"""The most blanks: the conditionals of all pairs are compared."""


def passes_of_tree(blanks: int, candidates: int) -> int:
    """Return the forward passes of a tree: one with all masked, and K for each blank."""
    return 1 + (blanks * candidates if blanks > 1 else 0)


def affordable_candidates(supports: Sequence[Support]) -> int:
    """Return how many candidates per blank are taken unless their number is given."""
    most = max(len(support) for support in supports)
    return most if passes_of_tree(len(supports), most) <= AFFORDABLE_PASSES else min(most, TREE_CANDIDATES)


def check_tree(blanks: int, candidates: int) -> None:
    """Refuse a tree that would cost too much, naming the limit and what to do instead."""
    if blanks > MOST_BLANKS:
        raise UsageError(
            f"a tree compares all pairs of its blanks, of which there are at most {MOST_BLANKS}, got "
            f"{blanks:,}: use the method chain, or a shorter text"
        )
    needed = passes_of_tree(blanks, candidates)
    if needed > MOST_PASSES:
        raise UsageError(
            f"a tree of {candidates} candidates at {blanks} blanks needs {needed:,} forward passes, and the "
            f"limit is {MOST_PASSES:,}: use {(MOST_PASSES - 1) // blanks} candidates or fewer"
        )


@torch.inference_mode()
def tree_joint(
    mlm: MaskedLM,
    cloze: Cloze,
    supports: tuple[Support, ...],
    candidates: int,
    *,
    include: Sequence[Sequence[int]] | None = None,
    diagnostics: Diagnostics | None = None,
    progress: Progress = silent,
) -> TreeJoint:
    """Ask the model about some candidates of each blank, and return the tree joint.

    Args:
        mlm: the model.
        cloze: a text with one or more blanks.
        supports: the tokens that each may hold.
        candidates: how many tokens of each blank are asked about; 0 takes the pair head's guesses.
        include: token ids that must be among them, for each blank.
        diagnostics: what is known beforehand; the passes and the candidates are added.
        progress: told of the forward passes.
    """
    blanks = len(supports)
    if candidates < 0:
        raise UsageError(f"expected at least 1 candidate per blank, or 0 with a pair head, got {candidates}")
    candidates = min(candidates, max(len(support) for support in supports))
    check_tree(blanks, candidates)
    decoders = [mlm.decoder(support.ids) for support in supports]

    def logits(states: Tensor, blank: int) -> Tensor:
        return decoders[blank](states).to(mlm.tables_on).float().cpu()

    if candidates == 0:
        check_has_head(mlm)
    masked = mlm.states_at(torch.tensor([cloze.ids]), cloze.blanks)[0]
    alone = [logits(masked[i], i).double().log_softmax(-1) for i in range(blanks)]
    known = diagnostics or Diagnostics()
    if candidates == 0:
        return _guessed_tree(mlm, cloze, supports, masked, alone, include, known)
    kept = [
        s.indices(s.likeliest(log_m, candidates, include[i] if include else ()).ids)
        for i, (s, log_m) in enumerate(zip(supports, alone, strict=True))
    ]
    filled: list[Tensor] = []
    if blanks > 1:
        texts = torch.cat([mlm.fillings(cloze, i, supports[i].ids[k]) for i, k in enumerate(kept)])
        states = mlm.states_at(texts, cloze.blanks, progress)
        filled = list(states.split([len(k) for k in kept]))

    def conditionals(parent: int, child: int) -> EdgeTable:
        rows = logits(filled[parent][:, child], child)
        return EdgeTable.of_candidates(kept[parent], rows, alone[child], len(supports[parent]))

    edges, information = choose_edges(alone, conditionals)
    root = next(iter(edges), (0, 0))[0]
    known = replace(
        known,
        conditionals="tree",
        passes=known.passes + 1 + sum(len(states) for states in filled),
        candidates=candidates,
    )
    return TreeJoint(alone[root], edges, supports, information=information, diagnostics=known, cloze=cloze)


def _guessed_tree(
    mlm: MaskedLM,
    cloze: Cloze,
    supports: tuple[Support, ...],
    states: Tensor,
    alone: Sequence[Tensor],
    include: Sequence[Sequence[int]] | None,
    diagnostics: Diagnostics,
) -> TreeJoint:
    """Return the tree of the pair head's guesses: no pass but the one with all blanks masked.

    The head guesses both conditionals of an edge, and errs in each. The tree takes the conditional of the
    mixture of both orders, which gives true tokens a higher probability (`benchmarks/pair_head.py`).
    """
    kept = include or ((),) * len(supports)
    decoders = [mlm.decoder(support.ids) for support in supports]

    def guess(parent: int, child: int, named: Sequence[int] = (), **rows: int) -> GuessedEdge:
        edge, of_edge = (parent, child), (supports[parent], supports[child])
        return GuessedEdge(
            mlm, cloze, states, edge, of_edge, alone[parent], named, decode=decoders[child], **rows
        )

    def of_both_orders(parent: int, child: int) -> EdgeTable:
        ahead, back = guess(parent, child, kept[parent]), guess(child, parent, kept[child])
        return EdgeTable.of_both_orders(ahead, back, alone[parent], alone[child])

    def compared(parent: int, child: int) -> EdgeTable:
        return guess(parent, child, own=COMPARED_ROWS, shared=1).table()

    edges, information = choose_edges(alone, of_both_orders, compared)
    root = next(iter(edges), (0, 0))[0]
    errors = [PairGuess(mlm, cloze, states, parent, child).error.shift for parent, child in edges]
    known = replace(
        diagnostics,
        conditionals="tree",
        passes=diagnostics.passes + 1,
        candidates=0,
        estimated_error=sum(errors),
        estimated_from="pair head",
    )
    return TreeJoint(alone[root], edges, supports, information=information, diagnostics=known, cloze=cloze)
