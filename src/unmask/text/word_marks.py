"""Which tokens start a word, go on inside one, or end one, by the marks of the vocabulary."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

import torch
from torch import Tensor

from unmask.text.vocabulary import Vocabulary

HALF = "\N{REPLACEMENT CHARACTER}"


@lru_cache(maxsize=8)
def word_parts(vocabulary: Vocabulary) -> tuple[Tensor, Tensor]:
    """Return which tokens start a word and which go on inside one, [vocab] each.

    Where words are marked at their start, a mark of punctuation goes on after a word without being part of
    it.
    """
    inside = torch.zeros(vocabulary.size, dtype=torch.bool)
    start = torch.zeros(vocabulary.size, dtype=torch.bool)
    for token_id in range(vocabulary.size):
        if token_id in vocabulary.special_ids or token_id in vocabulary.unused_ids:
            continue
        surface = vocabulary.surface(token_id)
        if vocabulary.goes_on_inside_a_word(token_id):
            inside[token_id] = bool(surface) and surface[0].isalnum()
        else:
            start[token_id] = any(letter.isalnum() for letter in surface)
    return start, inside


@lru_cache(maxsize=8)
def ends_in_mark(vocabulary: Vocabulary) -> Tensor:
    """Return which tokens end in a mark of punctuation, after which a word starts anew, [vocab].

    Where words are marked at their start, what follows such a mark has none: `man` in `old-man`.
    """
    found = torch.zeros(vocabulary.size, dtype=torch.bool)
    for token_id in range(vocabulary.size):
        last = vocabulary.surface(token_id)[-1:]
        # half of a character is written as U+FFFD, which counts as a symbol
        found[token_id] = last not in ("", HALF) and unicodedata.category(last)[0] in "PS"
    return found
