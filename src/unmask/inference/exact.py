"""Exact conditionals: the model asked about every token at each side, V_a + V_b + 1 forward passes.

Also what exact and cross conditionals share: the answers with both blank, and states decoded into tables.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import torch
from torch import Tensor

from unmask.diagnostics import Diagnostics
from unmask.errors import RunError, UsageError
from unmask.memory import show_bytes
from unmask.models.masked_lm import MaskedLM
from unmask.progress import Progress, silent
from unmask.tables.pair_conditionals import LazyTable, PairConditionals
from unmask.tables.token_groups import TokenGroups
from unmask.text.cloze import Cloze
from unmask.text.support import Support

STATES_AT_ONCE = 256
WORKING = 2**28
"""Bytes of a memory budget that are left to batches and blocks (a quarter of a budget below a gigabyte)."""

Supports: TypeAlias = tuple[Support, Support]
"""The tokens that A and B may hold."""


@torch.inference_mode()
def exact_conditionals(
    mlm: MaskedLM, cloze: Cloze, supports: Supports, progress: Progress = silent
) -> PairConditionals:
    """Ask the model for every token at each side: V_a + V_b + 1 forward passes."""
    check_pair(cloze)
    fits = tables_fit(mlm, len(supports[0]), len(supports[1]))
    alone = both_blank(mlm, cloze, supports)
    # the columns of p(a|b) come from fillings of B seen at A; the rows of p(b|a) from fillings of A seen at B
    a_states = mlm.filled_states(cloze, 1, supports[1].ids, cloze.blanks[0], progress)
    b_states = mlm.filled_states(cloze, 0, supports[0].ids, cloze.blanks[1], progress)
    a_table: Tensor | LazyTable
    b_table: Tensor | LazyTable
    if fits:
        a_table, a_log_z = decoded(mlm, a_states, supports[0], as_columns=True)
        b_table, b_log_z = decoded(mlm, b_states, supports[1])
    else:
        a_table, a_log_z = lazy_table(mlm, a_states, supports[0], by_asked=True)
        b_table, b_log_z = lazy_table(mlm, b_states, supports[1], by_asked=False)
    diagnostics = Diagnostics(
        conditionals="exact",
        passes=len(supports[0]) + len(supports[1]) + 1,
        candidates=len(supports[0]),
    )
    made = PairConditionals(a_table, b_table, *alone, a_log_z, b_log_z, *supports, diagnostics, cloze=cloze)
    return made.made_linear()


def check_pair(cloze: Cloze) -> None:
    """Insist on two blanks."""
    if len(cloze.blanks) != 2:
        raise UsageError(f"a pair joint needs two blanks, got {len(cloze.blanks)}")


def table_bytes(rows: int, columns: int) -> int:
    """Return what the two tables of a pair take, in float32."""
    return 2 * 4 * rows * columns


def tables_fit(mlm: MaskedLM, rows: int, columns: int) -> bool:
    """Tell whether a pair's tables fit the memory budget; refuse those that can't be recomputed either."""
    needed = table_bytes(rows, columns)
    if needed <= mlm.memory - min(WORKING, mlm.memory // 4):
        return True
    if mlm.output_weights(torch.zeros(1, dtype=torch.long)) is None:
        fitting = math.isqrt(mlm.memory // table_bytes(1, 1) * 3 // 4)
        raise RunError(
            f"the tables of {rows} by {columns} tokens need {show_bytes(needed)}, but the memory budget is "
            f"{show_bytes(mlm.memory)}: raise memory, or take a support of {fitting}, the likeliest tokens"
        )
    return False


def both_blank(mlm: MaskedLM, cloze: Cloze, supports: Supports) -> tuple[Tensor, Tensor]:
    """Return log m(a) and log m(b): the model's answers with both blank, over the supports."""
    return answers(mlm, mlm.states_at(torch.tensor([cloze.ids]), cloze.blanks)[0], supports)


def answers(mlm: MaskedLM, states: Tensor, supports: Supports) -> tuple[Tensor, Tensor]:
    """Return the log-probabilities that the states at A and at B [2, features] come to, over the supports."""
    a, b = (mlm.log_probs(state, s.ids) for state, s in zip(states, supports, strict=True))
    return a, b


def decoded(
    mlm: MaskedLM,
    states: Tensor,
    support: Support,
    groups: TokenGroups | None = None,
    *,
    members: int | None = None,
    as_columns: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return log-probabilities over the support [states, support] and the logits' normalisers [states].

    `groups` gathers the tokens: [states, groups], what a single token of each has on the average. `members`
    computes no more logits than so many of each group, which stand for the others.
    `as_columns` lays the table out [support, states].
    """
    gather = None if groups is None or groups.ungrouped else _Gatherer(groups, members, mlm.tables_on)
    decode = mlm.decoder(support.ids if gather is None else support.ids[gather.tokens])
    width = len(support) if groups is None else len(groups)
    shape = (width, len(states)) if as_columns else (len(states), width)
    table = torch.empty(shape, device=mlm.tables_on)
    by_state = table.T if as_columns else table
    log_z = torch.empty(len(states), device=mlm.tables_on, dtype=torch.float64)
    for start in range(0, len(states), STATES_AT_ONCE):
        part = slice(start, start + STATES_AT_ONCE)
        block = decode(states[part].to(mlm.device)).to(mlm.tables_on)
        if gather is None:
            log_z[part] = _normalise(block, by_state[part])
        else:
            by_state[part], log_z[part] = gather(block)
    return table, log_z


def gathered(log_probs: Tensor, groups: TokenGroups) -> Tensor:
    """Return what `decoded` gives for groups from log-probabilities of all tokens, [states, groups]."""
    if groups.ungrouped:
        return log_probs
    return _Gatherer(groups, None, log_probs.device)(log_probs.clone())[0]


def _normalise(logits: Tensor, log_probs: Tensor) -> Tensor:
    """Write the log-probabilities of logits [states, tokens] to a place; return the normalisers [states]."""
    top, likeliest = logits.max(1, keepdim=True)
    if logits.dtype == log_probs.dtype and log_probs.is_contiguous():
        torch.log_softmax(logits, 1, out=log_probs)
    else:
        log_probs[:] = logits.log_softmax(1)
    return (top - log_probs.gather(1, likeliest))[:, 0]


def lazy_table(
    mlm: MaskedLM, states: Tensor, support: Support, *, by_asked: bool
) -> tuple[LazyTable, Tensor]:
    """Return the same table in a form that is computed wherever it is read, and the normalisers [states]."""
    found = mlm.output_weights(support.ids)
    assert found is not None
    weights, offset = (part.to(mlm.tables_on) for part in found)
    states = states.to(mlm.tables_on)
    log_z = torch.empty(len(states), device=mlm.tables_on, dtype=torch.float64)
    for start in range(0, len(states), STATES_AT_ONCE):
        part = slice(start, start + STATES_AT_ONCE)
        log_z[part] = torch.addmm(offset, states[part], weights.T).logsumexp(1)
    return LazyTable(weights, offset, states, log_z, by_asked), log_z


class _Gatherer:
    """Turns the logits of tokens into the log-probabilities of groups, and the logits' normalisers.

    Attributes:
        tokens: the tokens whose logits it wants, as indices into the support.
    """

    def __init__(self, groups: TokenGroups, members: int | None, device: torch.device) -> None:
        lead = int((groups.counts == 1).long().cumprod(0).sum())  # groups of one token come first
        if members is None:
            self.tokens = torch.arange(len(groups.order))
            self._single = groups.order[:lead].to(device)
        else:
            shared = groups.representatives(members)
            shared = shared[groups.group_of[shared] >= lead]
            self.tokens = torch.cat([groups.order[:lead], shared])
            self._single = torch.arange(lead, device=device)
        # a column for the mean over each group, and one for the sum over all tokens
        group = groups.group_of[self.tokens]
        known = torch.bincount(group, minlength=len(groups))
        self._sums = torch.zeros(len(self.tokens), len(groups) - lead + 1)
        row = (group >= lead).nonzero()[:, 0]
        self._sums[row, group[row] - lead] = (1 / known[group[row]]).float()
        self._sums[:, -1] = (groups.counts / known)[group]
        self._sums = self._sums.to(device)

    def __call__(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """[states, tokens] -> [states, groups], [states]; the logits are overwritten."""
        top = logits.amax(1, keepdim=True)
        single = logits[:, self._single]
        sums = logits.sub_(top).exp_() @ self._sums
        total = sums[:, -1:].log() + top
        means = sums[:, :-1].clamp_min(torch.finfo(sums.dtype).tiny).log() + top
        return torch.cat([single, means], 1) - total, total[:, 0]
