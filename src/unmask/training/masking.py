"""Which tokens are hidden, and what stands in their place.

BERT's rule (Devlin et al. 2019): 15% of the tokens are chosen, special tokens never; of the chosen 80%
become the mask token, 10% a random token and 10% stay. The random token is drawn here from the unigram
distribution of the corpus, so that rare tokens are not taught to be common. The rates are free: 100/0/0 is
the mask-only rule of domain adaptation, and a rate of 30 to 40% learns more from each forward pass (Wettig
et al. 2023). From a range of rates every row draws its own, uniformly: a model then meets texts with one
blank and texts with many. Whole-word masking chooses words instead of tokens, at the same rate of tokens;
each token of a chosen word then meets its own 80/10/10.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmask.errors import UsageError

IGNORED = -100
"""The label of a token that is not predicted, as torch's cross-entropy has it."""

Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Unigram:
    """The distribution of the corpus's ordinary tokens: for replacements and the head's first bias."""

    counts: NDArray[np.float64]  # [vocab], zero for special tokens

    @classmethod
    def of(cls, counts: NDArray[Any], special: list[int]) -> Unigram:
        """Take the counts of a corpus, or a weighted sum of several."""
        kept = np.asarray(counts, dtype=np.float64).copy()
        kept[special] = 0
        if kept.sum() <= 0:
            raise UsageError(
                "expected a corpus with tokens other than special ones, got none: check the tokenizer"
            )
        return cls(kept)

    def draw(self, size: int, generator: np.random.Generator) -> Ids:
        """Independent tokens: [size]."""
        edges = np.cumsum(self.counts)
        drawn = np.searchsorted(edges, generator.random(size) * edges[-1], side="right")
        return np.asarray(drawn, dtype=np.int64)

    def log_prob(self) -> NDArray[np.float64]:
        """Log-probabilities, one added to each count so that an unseen token is unlikely, not impossible."""
        return np.asarray(np.log((self.counts + 1) / (self.counts + 1).sum()))


@dataclass(frozen=True)
class Masking:
    """The share of the tokens that is chosen, and of these the shares that are masked or made random.

    A pair of shares is a range, from which each row draws its own.
    """

    mlm_probability: float | tuple[float, float] = 0.15
    mask_replace_prob: float = 0.8
    random_replace_prob: float = 0.1
    whole_word_mask: bool = False

    def __post_init__(self) -> None:
        low, high = self.mlm_range
        if not 0 < low <= high < 1:
            raise UsageError(
                f"expected an mlm_probability between 0 and 1, or a range between them, got "
                f"{self.mlm_probability}: 0.15 is BERT's"
            )
        if not (
            min(self.mask_replace_prob, self.random_replace_prob) >= 0
            and self.mask_replace_prob + self.random_replace_prob <= 1 + 1e-9
        ):
            raise UsageError(
                f"expected mask_replace_prob and random_replace_prob that sum to at most 1, got "
                f"{self.mask_replace_prob} and {self.random_replace_prob}: BERT's are 0.8 and 0.1"
            )

    @property
    def mlm_range(self) -> tuple[float, float]:
        """The lowest and the highest share of the tokens that is chosen in a row."""
        given = self.mlm_probability
        return given if isinstance(given, tuple) else (given, given)

    def draw_mlm_probability(self, generator: np.random.Generator) -> float:
        """The share of one row; a single number takes no draw."""
        low, high = self.mlm_range
        return low if low == high else float(generator.uniform(low, high))


@dataclass(frozen=True)
class Vocabulary:
    """What masking has to know of a tokenizer."""

    mask: int
    special: Flags  # [vocab]
    continues: Flags  # [vocab], True for a token that goes on with the word before it

    @classmethod
    def of(cls, tokenizer: Any) -> Vocabulary:
        """Read the special ids and the word marks (## of WordPiece, ▁ of Unigram, Ġ of byte-level BPE)."""
        if tokenizer.mask_token_id is None:
            raise UsageError(
                "expected a tokenizer with a mask token, got one of a causal model: choose an MLM's"
            )
        tokens = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
        special = np.zeros(len(tokens), dtype=bool)
        special[tokenizer.all_special_ids] = True
        from unmask.text.vocabulary import start_mark_of  # imports torch

        mark = start_mark_of(tokens)
        if mark is not None:
            marked = np.array([token.startswith(mark) for token in tokens])
            return cls(tokenizer.mask_token_id, special, ~marked & ~special)
        pieces = np.array([token.startswith("##") and len(token) > 2 for token in tokens])
        return cls(tokenizer.mask_token_id, special, pieces)


def mask(
    ids: Ids, masking: Masking, vocabulary: Vocabulary, unigram: Unigram, generator: np.random.Generator
) -> tuple[Ids, Ids]:
    """Corrupt one row of ids [length]: the new ids, and the labels (`IGNORED` where nothing is predicted)."""
    allowed = ~vocabulary.special[ids]
    rate = masking.draw_mlm_probability(generator)
    if masking.whole_word_mask:
        chosen = _words(ids, rate, vocabulary, generator) & allowed
    else:
        chosen = (generator.random(len(ids)) < rate) & allowed
    fate = generator.random(len(ids))
    hidden = chosen & (fate < masking.mask_replace_prob)
    replaced = chosen & ~hidden & (fate < masking.mask_replace_prob + masking.random_replace_prob)
    corrupted = np.where(hidden, vocabulary.mask, ids)
    corrupted[replaced] = unigram.draw(int(replaced.sum()), generator)
    return corrupted, np.where(chosen, ids, IGNORED)


def _words(ids: Ids, rate: float, vocabulary: Vocabulary, generator: np.random.Generator) -> Flags:
    """Choose whole words, each with the same chance: a token is then chosen with that chance too."""
    begins = ~vocabulary.continues[ids]
    # a special token never has a continuation: a piece after one starts a word of its own
    begins[1:] |= vocabulary.special[ids[:-1]]
    if len(begins):
        begins[0] = True
    word = np.cumsum(begins) - 1
    chosen: Flags = generator.random(int(word[-1]) + 1 if len(word) else 0) < rate
    return np.asarray(chosen[word])
