"""Which sentences are taken and which two tokens of each are blanked: a function of seed and text alone.

Every sentence, with the number of its occurrence (a premise of SNLI comes three times), has a key: the
SHA-256 of seed, text and occurrence. Sentences are taken in the order of their keys, and the two positions
come from the key, too. So neither the order of the file nor the number of workers, nor what else is in
the run, has a say; a larger sample holds the smaller one, and another seed is another sample.

A pair is two distinct positions, neither of which holds a special or unused token (an unknown word is
one), the first to the left of the second. `random` takes every such pair of the sentence alike, `contiguous`
the neighbouring ones, and `distance=1..N` first takes a distance alike, of those that occur in the
sentence, then a pair that far apart.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from unmask.errors import UsageError
from unmask.text.cloze import Cloze
from unmask.text.vocabulary import Vocabulary

DISTANCE = re.compile(r"distance=(\d+)(?:\.\.(\d+))?")


@dataclass(frozen=True)
class Example:
    """Two blanked tokens of a sentence: what a worker is given.

    Attributes:
        number: its place in the run, from 0.
        key: what identifies it whatever else is in the run.
        text: the sentence.
        ids: its token ids, special ones included.
        blanks: the two positions among them, the left one first.
    """

    number: int
    key: str
    text: str
    ids: tuple[int, ...]
    blanks: tuple[int, int]

    @property
    def truth(self) -> tuple[int, int]:
        """The ids that stood in the blanks."""
        return self.ids[self.blanks[0]], self.ids[self.blanks[1]]

    @property
    def distance(self) -> int:
        """How many tokens the second blank is to the right of the first."""
        return self.blanks[1] - self.blanks[0]

    def cloze(self, vocabulary: Vocabulary) -> Cloze:
        """Return the cloze."""
        return Cloze.of_ids(self.ids, self.blanks, vocabulary)


@dataclass(frozen=True)
class Pairs:
    """Which pairs of positions may be drawn: random (any), or from `nearest` to `furthest` tokens apart."""

    nearest: int | None = None
    furthest: int | None = None

    @staticmethod
    def parse(given: str) -> Pairs:
        """Read `random`, `contiguous`, `distance=3` or `distance=1..8`."""
        if given == "random":
            return Pairs()
        if given == "contiguous":
            return Pairs(1, 1)
        match = DISTANCE.fullmatch(given)
        if match:
            nearest, furthest = int(match[1]), int(match[2] or match[1])
            if 1 <= nearest <= furthest:
                return Pairs(nearest, furthest)
        raise UsageError(f"expected pairs as random, contiguous, distance=3 or distance=1..8, got '{given}'")

    def draw(self, positions: list[int], number: int) -> tuple[int, int] | None:
        """Return the pair of positions that a large number stands for, or None if there is no such pair."""
        if self.nearest is None or self.furthest is None:
            pairs = [(i, j) for n, i in enumerate(positions) for j in positions[n + 1 :]]
        else:
            by_distance: dict[int, list[tuple[int, int]]] = {}
            here = set(positions)
            apart = positions[-1] - positions[0] if positions else 0
            for d in range(self.nearest, min(self.furthest, apart) + 1):
                found = [(i, i + d) for i in positions if i + d in here]
                if found:
                    by_distance[d] = found
            if not by_distance:
                return None
            number, chosen = divmod(number, len(by_distance))
            pairs = list(by_distance.values())[chosen]
        return pairs[number % len(pairs)] if pairs else None


def draw_examples(
    texts: Iterable[str],
    vocabulary: Vocabulary,
    window: int,
    *,
    pairs: Pairs,
    examples: int | None,
    seed: int,
) -> tuple[list[Example], dict[str, int]]:
    """Draw examples, all that can be if `examples` is None; returns them and why others were passed over."""
    idle = vocabulary.special_ids | vocabulary.unused_ids
    drawn: list[Example] = []
    passed = {"too short": 0, "too long": 0}
    for key, text in sorted(_keyed(texts, seed)):
        if len(drawn) == examples:
            break
        ids = tuple(vocabulary.tokenizer(text, verbose=False)["input_ids"])
        if len(ids) > window:
            passed["too long"] += 1
            continue
        positions = [i for i, token in enumerate(ids) if token not in idle]
        blanks = pairs.draw(positions, int(key, 16))
        if blanks is None:
            passed["too short"] += 1
            continue
        drawn.append(Example(len(drawn), key[:24], text, ids, blanks))
    return drawn, passed


def _keyed(texts: Iterable[str], seed: int) -> Iterator[tuple[str, str]]:
    """Give each sentence its key."""
    seen: Counter[str] = Counter()
    for text in texts:
        yield hashlib.sha256(f"{seed}\0{seen[text]}\0{text}".encode()).hexdigest(), text
        seen[text] += 1
