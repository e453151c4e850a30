"""Rows of exactly the right length: how documents become the inputs of a masked language model.

A row of `max_length` tokens holds one or more segments, each `[CLS] text [SEP]`, so that short paragraphs
do not waste a row on padding. A segment's positions start at 0 and attention stays inside it (see
`forward.py`): what the model learns of a segment is what it would learn of it alone. A document that does
not fit goes on in another row; the rows are shuffled, too, so that a long document does not fill a batch by
itself. With `whole`, a text that fits into a row is never cut: it goes into the first of a few open rows
that has room for it. The plan of an epoch is a pure function of the seed and the epoch, so that any row can
be made at any time, which is what an exact resumption needs.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numba
import numpy as np
from numpy.typing import NDArray

from unmask.errors import UsageError
from unmask.training.settings import LEAST_LENGTH

OPEN_ROWS = 32
"""Rows that wait for a text that fits, where texts are kept whole: about 2% are then padding."""

Ids = NDArray[np.int64]


class TokenizedTexts(Protocol):
    """Tokenised texts: the documents of a token file, or their sentences."""

    def lengths(self) -> Ids:
        """The number of tokens of every text."""
        ...

    def part(self, index: int, start: int, end: int) -> Ids:
        """Some tokens of one text."""
        ...


@dataclass(frozen=True)
class Marks:
    """The ids of the special tokens that a row is built with."""

    cls: int
    sep: int
    pad: int


@dataclass(frozen=True)
class Row:
    """One padded input, [length] each: ids, positions, token types and segments (-1 is padding)."""

    ids: Ids
    positions: Ids
    types: Ids
    segments: Ids


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _plan(lengths: Ids, row_length: int, least: int, alone: bool) -> Ids:
    """Fill rows in order: [segments, 4] of row, document, first token, end."""
    plan = np.empty((np.sum(lengths // (row_length - 2)) + 2 * len(lengths) + 2, 4), dtype=np.int64)
    count, row, room = 0, 0, row_length
    for document in range(len(lengths)):
        start = 0
        while start < lengths[document]:
            if room < least or (alone and room < row_length):
                row, room = row + 1, row_length
            end = min(lengths[document], start + room - 2)
            if count == len(plan):
                plan = np.concatenate((plan, np.empty_like(plan)))
            plan[count, 0], plan[count, 1], plan[count, 2], plan[count, 3] = row, document, start, end
            count += 1
            room -= end - start + 2
            start = end
    return plan[:count]


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _plan_whole(lengths: Ids, row_length: int, open_rows: int) -> Ids:
    """As `_plan`, but first-fit: only a text that is longer than a row is cut, and its rest fits in again.

    Rows are open side by side, so the plan is not in their order.
    """
    plan = np.empty((np.sum(lengths // (row_length - 2)) + len(lengths) + 1, 4), dtype=np.int64)
    rows, rooms = np.full(open_rows, -1), np.zeros(open_rows, dtype=np.int64)
    count, row = 0, 0
    for document in range(len(lengths)):
        start = 0
        while start < lengths[document]:
            end = min(lengths[document], start + row_length - 2)
            size, place = end - start + 2, 0
            while place < open_rows and rooms[place] < size:
                place += 1
            if place == open_rows:  # a new row for the fullest of the open ones
                place = int(np.argmin(rooms))
                rows[place], rooms[place] = row, row_length
                row += 1
            plan[count, 0], plan[count, 1], plan[count, 2], plan[count, 3] = rows[place], document, start, end
            count += 1
            rooms[place] -= size
            start = end
    return plan[:count]


class Packing:
    """The rows of tokenised texts, epoch after epoch, each epoch in its own random order."""

    def __init__(
        self,
        tokens: TokenizedTexts,
        documents: Ids,
        max_length: int,
        marks: Marks,
        *,
        alone: bool = False,
        whole: bool = False,
    ) -> None:
        """`documents` are the ones to draw from.

        `alone` gives each segment a row of its own; `whole` cuts no text that fits into a row.
        """
        if max_length < LEAST_LENGTH:
            raise UsageError(f"expected a max_length of at least {LEAST_LENGTH} tokens, got {max_length}")
        self.tokens, self.documents, self.max_length = tokens, documents, max_length
        self.marks, self.alone, self.whole = marks, alone, whole
        self._epoch = lru_cache(maxsize=2)(self._make_epoch)
        self._ends: dict[int | None, list[int]] = {}  # by seed, where each epoch that was seen ends

    def row(self, number: int, seed: int | None) -> Row:
        """Row `number` of an endless stream through the epochs; without a seed, in the given order."""
        ends = self._ends.setdefault(seed, [])
        while not ends or number >= ends[-1]:
            ends.append((ends[-1] if ends else 0) + len(self._epoch(seed, len(ends))[2]) - 1)
        epoch = bisect_right(ends, number)
        plan, order, bounds, turns = self._epoch(seed, epoch)
        row = turns[number - (ends[epoch - 1] if epoch else 0)]
        return self._fill(plan[bounds[row] : bounds[row + 1]], order)

    def rows(self) -> int:
        """The number of rows of the epoch in the given order."""
        return len(self._epoch(None, 0)[2]) - 1

    def _make_epoch(self, seed: int | None, epoch: int) -> tuple[Ids, Ids, Ids, Ids]:
        """Return the segments, the order of the documents, where each row's segments start, and the rows'."""
        order = self.documents
        generator = None if seed is None else np.random.default_rng([seed, epoch])
        if generator is not None:
            order = generator.permutation(order)
        lengths = self.tokens.lengths()[order]
        if self.whole and not self.alone:
            plan = _plan_whole(lengths, self.max_length, OPEN_ROWS)
            plan = plan[np.argsort(plan[:, 0], kind="stable")]
        else:
            plan = _plan(lengths, self.max_length, LEAST_LENGTH, self.alone)
        rows = int(plan[-1, 0]) + 1
        bounds = np.searchsorted(plan[:, 0], np.arange(rows + 1))
        return plan, order, bounds, np.arange(rows) if generator is None else generator.permutation(rows)

    def _fill(self, plan: Ids, order: Ids) -> Row:
        row = empty_row(self.max_length, self.marks)
        at = 0
        for segment, (_, document, start, end) in enumerate(plan):
            part = self.tokens.part(order[document], start, end)
            size = len(part) + 2
            row.ids[at : at + size] = [self.marks.cls, *part, self.marks.sep]
            row.positions[at : at + size] = np.arange(size)
            row.segments[at : at + size] = segment
            at += size
        return row


def empty_row(length: int, marks: Marks) -> Row:
    """A row of padding, to be filled."""
    zeros = np.zeros(length, dtype=np.int64)
    return Row(np.full(length, marks.pad), zeros.copy(), zeros.copy(), np.full(length, -1))
