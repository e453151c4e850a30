"""Next-sentence prediction: rows of two segments, the second the true continuation or a random one.

`[CLS] A [SEP] B [SEP]` with token types 0 and 1, as in BERT. A and B are runs of whole paragraphs; half of
the time B follows A in its document (label 0), else it comes from another document (label 1). The longer of
the two is cut from its end until both fit. RoBERTa showed that a model can do without this objective; it is
an option.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unmask.errors import UsageError
from unmask.training.packing import Ids, Marks, Row, empty_row
from unmask.training.tokenfile import TokenFile

FOLLOWS, RANDOM = 0, 1


@dataclass(frozen=True)
class PairRow(Row):
    """A row of two segments, and whether the second is the continuation of the first."""

    label: int


class SentencePairs:
    """An endless stream of pairs; pair `number` is a pure function of the number and the seed."""

    def __init__(self, tokens: TokenFile, documents: Ids, max_length: int, marks: Marks) -> None:
        paragraphs = [int((tokens.document(d) == marks.sep).sum()) + 1 for d in documents]
        self.several = documents[np.asarray(paragraphs) > 1]
        if not len(self.several) or len(documents) < 2:
            raise UsageError(
                f"corpus {tokens.name!r}: next-sentence prediction needs at least 2 documents and one with 2 "
                f"paragraphs, both to train and to evaluate on, got {len(documents)} and {len(self.several)} "
                "in one of the two: put one paragraph per line, blank lines between documents, lower "
                "--eval-one-in (0: "
                "none), or go without"
            )
        # a document is drawn as often as it has neighbouring paragraphs
        weights = np.asarray(paragraphs, dtype=float)[np.asarray(paragraphs) > 1] - 1
        self.edges = np.cumsum(weights) / weights.sum()
        self.tokens, self.documents, self.max_length, self.marks = tokens, documents, max_length, marks

    def row(self, number: int, seed: int | None) -> PairRow:
        """Make one pair."""
        generator = np.random.default_rng([seed or 0, number])
        first = int(self.several[np.searchsorted(self.edges, generator.random(), side="right")])
        parts = self._paragraphs(first)
        cut = int(generator.integers(1, len(parts)))
        room = self.max_length - 3
        a = self._run(parts[:cut][::-1], room // 2)[::-1]
        if generator.random() < 0.5:
            label, b = FOLLOWS, self._run(parts[cut:], room)
        else:
            label, other = RANDOM, first
            while other == first:
                other = int(generator.choice(self.documents))
            parts = self._paragraphs(other)
            b = self._run(parts[int(generator.integers(len(parts))) :], room)
        return self._join(np.concatenate(a), np.concatenate(b), label)

    def _paragraphs(self, document: int) -> list[Ids]:
        ids = self.tokens.document(document)
        return [part[part != self.marks.sep] for part in np.split(ids, np.flatnonzero(ids == self.marks.sep))]

    def _run(self, paragraphs: list[Ids], room: int) -> list[Ids]:
        """At least one paragraph, and more as long as they fit."""
        taken = paragraphs[:1]
        for paragraph in paragraphs[1:]:
            if sum(map(len, taken)) + len(paragraph) > room:
                break
            taken.append(paragraph)
        return taken

    def _join(self, a: Ids, b: Ids, label: int) -> PairRow:
        spare = self.max_length - 3
        while len(a) + len(b) > spare:
            over = len(a) + len(b) - spare
            # take from the longer one, at most down to the other's length
            if len(a) >= len(b):
                a = a[-max(len(a) - over, len(b) - 1, 1) :]  # what is next to b stays
            else:
                b = b[: max(len(b) - over, len(a) - 1, 1)]
        row = empty_row(self.max_length, self.marks)
        size, middle = len(a) + len(b) + 3, len(a) + 2
        row.ids[:size] = [self.marks.cls, *a, self.marks.sep, *b, self.marks.sep]
        row.positions[:size] = np.arange(size)
        row.types[middle:size] = 1
        row.segments[:size] = 0
        return PairRow(row.ids, row.positions, row.types, row.segments, label)
