"""Evaluation: the loss on text that was never trained on, domain by domain.

Always by BERT's rule (15%, 80/10/10) and with the same masks, whatever the training uses, so that runs can
be compared. Sums run over predictions, not over batches, so that the loss is the exact mean over the masked
positions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from unmask.training.batches import Batch, Corruption, RowSource, collate
from unmask.training.forward import Gathering, predicted, token_logits
from unmask.training.masking import Masking, Unigram, Vocabulary

RULE = Masking()
SEED = 20_261_115
BATCH_SIZE = 32
EVERYTHING = slice(None)

EvalRows = list[dict[str, Any]]


@dataclass(frozen=True)
class Score:
    """Mean loss in nats, accuracy of the best guess, and that of next-sentence prediction if there is one."""

    loss: float
    accuracy: float
    predictions: int
    next_sentence: float | None = None

    @property
    def perplexity(self) -> float:
        """The exponential of the loss."""
        return math.exp(min(self.loss, 700.0))

    def record(self) -> dict[str, float]:
        """The numbers by name."""
        numbers = {"loss": self.loss, "perplexity": self.perplexity, "accuracy": self.accuracy}
        if self.next_sentence is not None:
            numbers["next_sentence_accuracy"] = self.next_sentence
        return numbers


def spread_rows(
    source: RowSource,
    total: int,
    wanted: int,
    vocabulary: Vocabulary,
    unigram: Unigram,
    rule: Masking = RULE,
) -> EvalRows:
    """At most `wanted` masked rows, evenly spread over the `total` rows of an evaluation source."""
    corruption = Corruption(rule, vocabulary, unigram)
    numbers = np.unique(np.linspace(0, total - 1, min(wanted, total)).round().astype(int))
    return [corruption(source.row(int(n), None), np.random.default_rng([SEED, int(n)])) for n in numbers]


@torch.no_grad()
def score(
    model: Any,
    gathering: Gathering,
    domains: Mapping[str, EvalRows],
    total: Callable[[Tensor], Tensor] = lambda sums: sums,
    part: slice = EVERYTHING,
) -> dict[str, Score]:
    """Evaluate every domain; a process takes its `part` of the batches, `total` adds up all sums."""
    was_training = model.training
    model.eval()
    try:
        return {
            name: _domain(model, gathering, _batches(items)[part], total) for name, items in domains.items()
        }
    finally:
        model.train(was_training)


def _batches(items: EvalRows) -> Sequence[Batch]:
    return [collate(items[at : at + BATCH_SIZE]) for at in range(0, len(items), BATCH_SIZE)]


def _domain(
    model: Any, gathering: Gathering, batches: Sequence[Batch], total: Callable[[Tensor], Tensor]
) -> Score:
    device = next(model.parameters()).device
    sums = torch.zeros(
        5, dtype=torch.float64, device=device
    )  # loss, hits, predictions, sentence hits, sentences
    for batch in batches:
        moved = {name: value.to(device) for name, value in batch.items()}
        rows, columns, true = predicted(moved["labels"])
        with gathering.at(rows, columns):
            output = model(**gathering.inputs(moved))
        logits = token_logits(output).float()
        sums[0] += functional.cross_entropy(logits, true, reduction="sum").double()
        sums[1] += (logits.argmax(-1) == true).sum()
        sums[2] += len(true)
        if "next_sentence_label" in moved:
            guess = output.seq_relationship_logits.argmax(-1)
            sums[3] += (guess == moved["next_sentence_label"]).sum()
            sums[4] += len(guess)
    loss, hits, count, sentence_hits, sentences = total(sums).tolist()
    count = max(count, 1)
    return Score(loss / count, hits / count, int(count), sentence_hits / sentences if sentences else None)
