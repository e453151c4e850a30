"""What a pair head learns from: states of blanks with all of them masked, and with one of them filled.

A context is a sentence (or a part of one) with two to ten of its tokens masked: one pass with all masked
gives the states h of every blank; a pass with one of them filled gives the states of all the others, so that
k blanks filled once each give k (k - 1) targets for k + 1 passes. What is filled in is the true token half of
the time, and else drawn from the model's own answer, as it is, flattened, or uniform over the words: a head
is asked about unlikely tokens, too.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import torch
from torch import Tensor

from unmask.inference.sentences import SentenceReader
from unmask.models.masked_lm import MaskedLM
from unmask.text.support import Support

BLANKS = {2: 30, 3: 25, 4: 20, 5: 10, 6: 6, 8: 5, 10: 4}
"""How often so many tokens of a context are masked, in percent."""
DISTANCES = {1: 50, 2: 14, 3: 8, 4: 6, 5: 4, 6: 4, 8: 4, 12: 3, 16: 3, 24: 2, 32: 2}
"""How often two blanks are so far apart, in percent; others lie side by side, close together or anywhere."""
FILLED = 4
"""Passes with one blank filled, for each context."""
ASKED = 4
"""Blanks whose states are kept of a pass with one of them filled: the two nearest, and others at random."""
POWERS = {1.0: 50, 0.6: 30, 0.0: 20}
"""How often a filling is drawn from the model's answer to this power, in percent; 0 draws uniformly."""
TEXTS_AT_ONCE = 64
LEAST_TOKENS = 4
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True)
class PairData:
    """States of blanks, and targets: what one says once another is filled.

    Attributes:
        states: of every blank, all of its context masked, [blanks, features].
        positions: of every blank in its text, [blanks].
        there, here: the blanks that are filled and asked, as indices, [targets].
        tokens: what is filled in, [targets].
        targets: the states at the asked blanks, [targets, features].
        true: what stands there in the text, [targets].
    """

    states: Tensor
    positions: Tensor
    there: Tensor
    here: Tensor
    tokens: Tensor
    targets: Tensor
    true: Tensor

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def distances(self) -> Tensor:
        """How many tokens the asked blank lies behind the filled one, [targets]."""
        return self.positions[self.here] - self.positions[self.there]

    def to_dict(self) -> dict[str, Tensor]:
        """Return the tensors by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def joined(cls, parts: Sequence[PairData]) -> PairData:
        """Put several together."""
        starts = torch.tensor([0, *(len(part.states) for part in parts)]).cumsum(0).tolist()
        found = {name: torch.cat([getattr(part, name) for part in parts]) for name in cls.__annotations__}
        for name in ("there", "here"):
            moved = [getattr(part, name) + start for part, start in zip(parts, starts, strict=False)]
            found[name] = torch.cat(moved)
        return cls(**found)


class Filling(NamedTuple):
    """One blank of a context filled: which context, which blank, and which blanks are asked."""

    context: int
    blank: int
    true: bool
    asked: list[int]


def contexts_of(
    reader: SentenceReader, texts: Sequence[str], max_length: int, rng: random.Random
) -> list[list[int]]:
    """Cut one context of at most `max_length` tokens of its own out of each text that has enough."""
    found = []
    for text in texts:
        sentences = SENTENCE_END.split(text)
        start = rng.randrange(len(sentences))
        chosen = " ".join(sentences[start : start + (2 if rng.random() < 0.25 else 1)])
        tokens = list(reader(chosen).tokens)
        most = max(LEAST_TOKENS, rng.choice((max_length // 2, max_length)))
        if len(tokens) > most:
            first = rng.randrange(len(tokens) - most + 1) if rng.random() < 0.5 else 0
            tokens = tokens[first : first + most]
        if len(tokens) >= LEAST_TOKENS:
            found.append(tokens)
    return found


def choose_blanks(length: int, rng: random.Random) -> list[int]:
    """Choose which of so many tokens are masked."""
    count = min(rng.choices(list(BLANKS), list(BLANKS.values()))[0], max(2, length // 2))
    if count == 2:
        apart = min(rng.choices(list(DISTANCES), list(DISTANCES.values()))[0], length - 1)
        first = rng.randrange(length - apart)
        return [first, first + apart]
    kind = rng.random()
    width = count if kind < 0.45 else min(length, count + rng.randrange(1, 6)) if kind < 0.8 else length
    first = rng.randrange(length - width + 1)
    return sorted(rng.sample(range(first, first + width), count))


@torch.inference_mode()
def collect(mlm: MaskedLM, texts: Sequence[str], *, max_length: int, seed: str) -> PairData | None:
    """Ask the model about one context of each text; None if no text is long enough."""
    rng, reader = random.Random(seed), SentenceReader(mlm)
    generator = torch.Generator().manual_seed(rng.getrandbits(60))
    contexts = contexts_of(reader, texts, max_length, rng)
    by_length: dict[int, list[list[int]]] = {}
    for context in contexts:
        by_length.setdefault(len(context), []).append(context)
    words = Support.words(mlm.vocabulary).ids
    parts = [
        _of_one_length(mlm, reader, same[start : start + TEXTS_AT_ONCE], words, rng, generator)
        for _, same in sorted(by_length.items())
        for start in range(0, len(same), TEXTS_AT_ONCE)
    ]
    return PairData.joined(parts) if parts else None


def _of_one_length(
    mlm: MaskedLM,
    reader: SentenceReader,
    contexts: list[list[int]],
    words: Tensor,
    rng: random.Random,
    generator: torch.Generator,
) -> PairData:
    sentences = [reader.of_ids(tokens) for tokens in contexts]
    ids = torch.tensor([s.ids for s in sentences])
    blanks = [[s.positions[place] for place in choose_blanks(len(s), rng)] for s in sentences]
    masked = ids.clone()
    for row, places in enumerate(blanks):
        masked[row, places] = mlm.vocabulary.mask_id
    states = _states(mlm, masked, blanks)
    starts = torch.tensor([0, *map(len, blanks)]).cumsum(0).tolist()
    logits = torch.cat([mlm.decoder(words)(part) for part in states.split(TEXTS_AT_ONCE)])
    alone = logits.float().log_softmax(-1).cpu()
    fillings = [filling for row, places in enumerate(blanks) for filling in _fillings(row, places, rng)]
    filled = torch.stack([masked[f.context] for f in fillings])
    tokens = []
    for row, f in enumerate(fillings):
        place = blanks[f.context][f.blank]
        token = ids[f.context, place]
        if not f.true:
            power = rng.choices(list(POWERS), list(POWERS.values()))[0]
            weights = (power * alone[starts[f.context] + f.blank]).exp()
            token = words[torch.multinomial(weights, 1, generator=generator)[0]]
        filled[row, place] = token
        tokens.append(token)
    asked = [[blanks[f.context][b] for b in f.asked] for f in fillings]
    counts = torch.tensor([len(f.asked) for f in fillings])
    here = torch.tensor([starts[f.context] + b for f in fillings for b in f.asked])
    there = torch.tensor([starts[f.context] + f.blank for f in fillings]).repeat_interleave(counts)
    positions = torch.tensor([place for places in blanks for place in places])
    texts_of = torch.tensor([row for row, places in enumerate(blanks) for _ in places])
    return PairData(
        states.cpu().half(),
        positions,
        there,
        here,
        torch.stack(tokens).repeat_interleave(counts),
        _states(mlm, filled, asked).cpu().half(),
        ids[texts_of, positions][here],
    )


def _fillings(row: int, places: list[int], rng: random.Random) -> list[Filling]:
    """Choose which blanks of a context are filled: each of two by its true token and by a drawn one."""
    count = len(places)
    if count == 2:
        return [Filling(row, blank, true, [1 - blank]) for true in (True, False) for blank in (0, 1)]
    found = []
    chosen = rng.sample(range(count), min(FILLED, count))
    for blank in chosen + chosen[: FILLED - count]:
        others = sorted((b for b in range(count) if b != blank), key=lambda b: abs(places[b] - places[blank]))
        far = others[2:]
        asked = others[:2] + rng.sample(far, min(ASKED - 2, len(far)))
        found.append(Filling(row, blank, rng.random() < 0.5, asked))
    return found


def _states(mlm: MaskedLM, ids: Tensor, places: list[list[int]]) -> Tensor:
    """Return the states of each text at its own places, one after the other, [places of all, features]."""
    most = max(map(len, places))
    padded = torch.tensor([row + row[:1] * (most - len(row)) for row in places])
    wanted = torch.tensor([[n < len(row) for n in range(most)] for row in places])
    return mlm.states_each(ids, padded)[wanted.to(mlm.device)]
