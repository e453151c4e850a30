"""The tokens of a model.

`Vocabulary` knows each token's spelling: which ids are special or unused, how the tokenizer marks that a
token starts a word or goes on inside one, and how to find the token that a person means by a string.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

import torch
from torch import Tensor

from unmask.errors import UsageError

UNUSED = re.compile(
    r"^(\[unused\d+\]|<unused\d+>|<?madeupword\d+>?|<extra_id_\d+>"  # fillers
    r"|\[(PAD|UNK|CLS|SEP|MASK)\]|<(s|pad|/s|unk|mask)>|<\|[a-z_]+\|>)$"  # special by look
)
WORD_START_MARKS = ("Ġ", "▁")
WORD_INSIDE_MARK = "##"


def start_mark_of(tokens: Sequence[str | None]) -> str | None:
    """Return the mark at the start of words, or None if the vocabulary has none.

    A token or two that begin like a mark (▁ is a character, Ġ a letter of Maltese) make no system of marks:
    there are several, and more than go by ##.
    """
    inside = sum(t is not None and t.startswith(WORD_INSIDE_MARK) for t in tokens)
    for mark in WORD_START_MARKS:
        count = sum(t is not None and t.startswith(mark) for t in tokens)
        if count > max(1, inside):
            return mark
    return None


class Vocabulary:
    """The spelling of every token that a model can predict.

    `size` is the number of ids that both the tokenizer and the output layer know: output layers are often
    padded beyond the tokenizer, and those extra logits mean nothing.
    """

    def __init__(self, tokenizer: Any, output_size: int) -> None:
        self.tokenizer = tokenizer
        self.size = min(max(tokenizer.get_vocab().values()) + 1, output_size)
        names = tokenizer.convert_ids_to_tokens(list(range(self.size)))
        self.tokens: tuple[str | None, ...] = tuple(names)
        self.mask_id: int = tokenizer.mask_token_id

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """Ids of [CLS], <pad> and their like, also those added later to the tokenizer."""
        added = getattr(self.tokenizer, "added_tokens_decoder", {})
        return frozenset(self.tokenizer.all_special_ids) | {i for i, t in added.items() if t.special}

    @cached_property
    def unused_ids(self) -> frozenset[int]:
        """Ids that stand for nothing: [unused7], madeupword0001, holes in the numbering."""
        return frozenset(i for i, t in enumerate(self.tokens) if t is None or UNUSED.match(t))

    @cached_property
    def word_ids(self) -> Tensor:
        """Every id but the special and the unused ones, [tokens]."""
        left_out = self.special_ids | self.unused_ids
        return torch.tensor([i for i in range(self.size) if i not in left_out], dtype=torch.long)

    @cached_property
    def start_mark(self) -> str | None:
        """The mark at the start of a word (RoBERTa's Ġ, XLM-R's ▁), or None if the vocabulary has none."""
        return start_mark_of(self.tokens)

    @cached_property
    def has_inside_mark(self) -> bool:
        """Whether tokens that go on inside a word are marked with ## (WordPiece)."""
        return any(t is not None and t.startswith(WORD_INSIDE_MARK) for t in self.tokens)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {t: i for i, t in enumerate(self.tokens) if t is not None}

    def token(self, token_id: int) -> str:
        """Return the token as the tokenizer spells it, marks included."""
        name = self.tokens[token_id] if 0 <= token_id < self.size else None
        return f"<{token_id}>" if name is None else name

    def goes_on_inside_a_word(self, token_id: int) -> bool:
        """Whether the token continues the word to its left (no space between them)."""
        token = self.token(token_id)
        if token_id in self.special_ids:
            return False
        if self.start_mark is not None:
            return not token.startswith(self.start_mark)
        return token.startswith(WORD_INSIDE_MARK)

    @cached_property
    def spaced(self) -> bool:
        """Whether a text has spaces between words; letters of proteins and atoms of molecules stand together.

        Marks say so; where there are none, whether most tokens written together are read as something else.
        """
        if self.start_mark is not None or self.has_inside_mark:
            return True
        left_out = self.special_ids | self.unused_ids
        words = (self.tokens[i] for i in range(self.size) if i not in left_out)
        pairs = list(itertools.pairwise(itertools.islice(words, 17)))
        same = [bool(self.tokenizer.tokenize(f"{a}{b}") == [a, b]) for a, b in pairs]
        return 2 * sum(same) <= len(pairs)

    def surface(self, *token_ids: int) -> str:
        """Return what a token looks like in a text, without marks; or several that are one word."""
        if self.start_mark == "Ġ" and not self.special_ids.intersection(token_ids):
            # byte-level: marks stand for bytes, of which a character may have some in each of two tokens
            tokens = [self.token(token_id) for token_id in token_ids]
            return str(self.tokenizer.convert_tokens_to_string(tokens)).strip(" ")
        return "".join(self._surface(token_id) for token_id in token_ids)

    def _surface(self, token_id: int) -> str:
        token = self.token(token_id)
        if token_id in self.special_ids:
            return token
        return token.removeprefix(WORD_INSIDE_MARK if self.start_mark is None else self.start_mark)

    def find(self, text: str) -> int:
        """Return the id of the token that a person means by `text`.

        In a vocabulary with word-start marks a bare word means the token that starts a word ("man" is
        "Ġman"); a token written with its mark, or without if there is no such word, is taken as it is.
        """
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise UsageError(f"{text!r} is not valid Unicode: write the token in UTF-8")
        if self.start_mark is not None and self.start_mark + text in self._ids:
            return self._ids[self.start_mark + text]
        if text in self._ids:
            return self._ids[text]
        pieces: list[str] = []
        for written in (text,) if self.start_mark is None else (f" {text}", text):
            pieces = self.tokenizer.tokenize(written)
            if len(pieces) == 1 and pieces[0] in self._ids and pieces[0] != self.tokenizer.unk_token:
                return self._ids[pieces[0]]
        if not pieces or self.tokenizer.unk_token in pieces:
            raise UsageError(
                f"'{text}' is not in the model's vocabulary: give a token that it holds, or an id"
            )
        raise UsageError(
            f"'{text}' is {len(pieces)} tokens for this model ({' '.join(pieces)}), but a blank holds one: "
            f"use one blank for each token"
        )


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
