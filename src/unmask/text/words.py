"""Words in a text, and the tokens that each of them is made of.

A word is a stretch of characters `[start, end)` of the text. A token belongs to a word if it stands for at
least one of the word's characters, by the offsets that the tokenizer gives. So a token that spans two words
(a piece `'s.` of a sentence-piece vocabulary, say) belongs to both, a character that became several
byte-level tokens gives its word all of them, and the space that a token took in belongs to nobody.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence

Span = tuple[int, int]

APOSTROPHES = "'’"


def find_words(text: str) -> list[Span]:
    """Return the words of plain text: runs of letters, digits and marks; any other character by itself.

    An apostrophe between two letters is part of the word (`don't`), and so are the marks and joiners
    that follow a character (accents written apart, the parts of an emoji).
    """
    spans: list[Span] = []
    inside = False  # the last span is a run of letters that may go on
    for i, character in enumerate(text):
        if character.isspace():
            inside = False
        elif spans and spans[-1][1] == i and unicodedata.category(character) in ("Mn", "Mc", "Me", "Cf"):
            spans[-1] = (spans[-1][0], i + 1)
        elif character.isalnum() or character == "_":
            if inside:
                spans[-1] = (spans[-1][0], i + 1)
            else:
                spans.append((i, i + 1))
            inside = True
        elif inside and character in APOSTROPHES and i + 1 < len(text) and text[i + 1].isalpha():
            spans[-1] = (spans[-1][0], i + 1)
        else:
            spans.append((i, i + 1))
            inside = False
    return spans


def find_stretches(text: str) -> list[Span]:
    """Return what stands between white space, for text whose words are already apart."""
    return [match.span() for match in re.finditer(r"\S+", text)]


def join_words(words: Sequence[str]) -> tuple[str, list[Span]]:
    """Return the text of words that are given one by one, and where each of them stands in it."""
    spans, at = [], 0
    for word in words:
        spans.append((at, at + len(word)))
        at += len(word) + 1
    return " ".join(words), spans


def tokens_of(spans: Sequence[Span], offsets: Sequence[Span]) -> list[list[int]]:
    """Return for each word the indices of its tokens, from the characters that each token stands for.

    The spans are in order and apart from each other, as words are; the tokens may come in any order.
    """
    starts = [start for start, _ in spans]
    found: list[list[int]] = [[] for _ in spans]
    for token, (first, last) in enumerate(offsets):
        if first >= last:
            continue  # special tokens, and tokens that are nothing but a space
        word = max(bisect_right(starts, first) - 1, 0)
        while word < len(spans) and spans[word][0] < last:
            if spans[word][1] > first:
                found[word].append(token)
            word += 1
    return found
