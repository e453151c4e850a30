"""Sentences as token ids, read line by line.

A sentence is what the tokenizer makes of a line, special tokens at its ends included; `positions` are the
tokens of the text itself, which are scored, and `words` says which of them belong to one word. A prefix and a
suffix stand around the text without being scored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from unmask.models.causal_lm import CausalLM
from unmask.models.masked_lm import MaskedLM
from unmask.text.vocabulary import ends_in_mark, word_parts


@dataclass(frozen=True)
class Sentence:
    """A line's token ids [length], the positions of its own tokens, and the number of the word of each."""

    ids: tuple[int, ...]
    positions: tuple[int, ...]
    words: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def tokens(self) -> tuple[int, ...]:
        """The ids of the sentence's own tokens."""
        return tuple(self.ids[p] for p in self.positions)


Hidden = Callable[[Sentence, int], Iterable[int]]
"""Which tokens (numbered within the sentence) are masked when one of them is asked for."""


class SentenceReader:
    """Turns lines into sentences of a model."""

    def __init__(self, mlm: MaskedLM | CausalLM) -> None:
        self.mlm = mlm
        self._inside, self._ends = word_parts(mlm.vocabulary)[1], ends_in_mark(mlm.vocabulary)
        self._before, self._after = _count_special_tokens(mlm.tokenizer)
        empty = mlm.tokenizer("", verbose=False)["input_ids"]
        self._start, self._stop = tuple(empty[: self._before]), tuple(empty[len(empty) - self._after :])
        if isinstance(mlm, CausalLM):  # its first token is predicted, too; no end is
            self._start, self._stop = (mlm.start_id,), ()

    def __call__(self, text: str, *, prefix: str = "", suffix: str = "") -> Sentence:
        """Tokenize a line; one of nothing, or of spaces, which are tokens to some, is of length 0.

        Prefix and suffix are joined to the text as they are. The whole is tokenized, and the prefix has as
        many of its tokens as it has by itself; a space between them belongs to the token after it.
        """
        whole = self._tokens(prefix + text + suffix)
        first = len(self._tokens(prefix.rstrip())) if prefix else 0
        last = len(self._tokens((prefix + text).rstrip())) if suffix else len(whole)
        return self.of_ids(whole, range(first, max(first, last)))

    def _tokens(self, text: str) -> list[int]:
        ids = list(self.mlm.tokenizer(text if text.strip() else "", verbose=False)["input_ids"])
        return ids[self._before : len(ids) - self._after]

    def of_ids(self, tokens: Sequence[int], scored: range | None = None) -> Sentence:
        """Make the sentence of a text's own token ids, with the model's special tokens around them.

        `scored` are the places of the tokens that are scored; all by default.
        """
        words, word = [], -1
        for n, token in enumerate(tokens):
            known = 0 <= token < len(self._inside) and n > 0 and tokens[n - 1] < len(self._ends)
            if not (known and self._inside[token]) or self._ends[tokens[n - 1]]:
                word += 1
            words.append(word)
        places = range(len(tokens)) if scored is None else scored
        return Sentence(
            (*self._start, *tokens, *self._stop),
            tuple(len(self._start) + place for place in places),
            tuple(words[place] for place in places),
        )


def _count_special_tokens(tokenizer: Any) -> tuple[int, int]:
    """Return how many special tokens stand before and after a text."""
    empty = list(tokenizer("", verbose=False)["input_ids"])
    probe = list(tokenizer("a b", verbose=False)["input_ids"])
    before = 0
    while before < len(empty) and empty[before] == probe[before]:
        before += 1
    return before, len(empty) - before


def masked_copy(sentence: Sentence, places: Iterable[int], mask_id: int) -> tuple[int, ...]:
    """Return the ids of a sentence with some of its tokens, numbered within it, masked."""
    ids = list(sentence.ids)
    for place in places:
        ids[sentence.positions[place]] = mask_id
    return tuple(ids)
