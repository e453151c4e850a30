"""The stream of training rows, every one of them a pure function of the seed and its number.

Row i comes from a corpus drawn by the shares, is the next unused row of that corpus, and is masked by its
own generator. Nothing depends on what was drawn before, so a run that is killed at row i goes on at row i
with the very same rows, and several processes share a stream without talking to each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch.utils.data import Dataset

from unmask.training.masking import Masking, Unigram, Vocabulary, mask
from unmask.training.packing import Row

Batch = dict[str, torch.Tensor]


class RowSource(Protocol):
    """A stream of rows: packed documents, or sentence pairs."""

    def row(self, number: int, seed: int | None) -> Row:
        """Row `number` of the stream that belongs to the seed."""
        ...


class Corruption:
    """Turns a row into model inputs and labels."""

    def __init__(self, masking: Masking, vocabulary: Vocabulary, unigram: Unigram) -> None:
        self.masking, self.vocabulary, self.unigram = masking, vocabulary, unigram

    def __call__(self, row: Row, generator: np.random.Generator) -> dict[str, Any]:
        """Mask the row: arrays by input name, [length] each."""
        ids, labels = mask(row.ids, self.masking, self.vocabulary, self.unigram, generator)
        item = {
            "input_ids": ids,
            "labels": labels,
            "position_ids": row.positions,
            "token_type_ids": row.types,
            "segments": row.segments,
        }
        if hasattr(row, "label"):
            item["next_sentence_label"] = np.asarray(row.label)
        return item


class MixedRows(Dataset[dict[str, Any]]):
    """`length` rows drawn from several sources by their shares."""

    def __init__(
        self,
        sources: Mapping[str, RowSource],
        shares: Mapping[str, float],
        corruption: Corruption,
        *,
        length: int,
        seed: int,
    ) -> None:
        self.sources = list(sources.values())
        self.corruption, self.length, self.seed = corruption, length, seed
        edges = np.cumsum([shares[name] for name in sources])
        # prefix-stable: a longer run begins with the rows of a shorter one
        draws = np.random.default_rng([seed, 0]).random(length)
        self.source = np.minimum(np.searchsorted(edges, draws, side="right"), len(edges) - 1).astype(np.int16)
        self.number = np.zeros(length, dtype=np.int64)
        for index in range(len(self.sources)):
            of_source = self.source == index
            self.number[of_source] = np.arange(of_source.sum())

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> dict[str, Any]:
        which = int(self.source[index])
        row = self.sources[which].row(int(self.number[index]), self.seed + 1 + which)
        return self.corruption(row, np.random.default_rng([self.seed, 1, index]))


def collate(items: Sequence[Mapping[str, Any]]) -> Batch:
    """Stack rows, and drop the columns that are padding in all of them."""
    batch = {name: torch.from_numpy(np.stack([item[name] for item in items])) for name in items[0]}
    width = int((batch["segments"] >= 0).any(0).nonzero().max()) + 1
    return {name: value[:, :width] if value.dim() == 2 else value for name, value in batch.items()}
