"""From texts to token ids with their units: the tokens, words or sentences that are to get a vector.

A text longer than the model's window is refused, cut at the window's end, or split into pieces, each of
which is framed and read by itself; pieces end where words end. What was cut or split is counted.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from unmask.errors import UsageError

UnitKind = Literal["token", "word", "type", "sentence"]
Pooling = Literal["mean", "first", "cls"]
Splitting = Literal["words", "spaces"]
LongTexts = Literal["split", "truncate", "refuse"]

Span = tuple[int, int]
APOSTROPHES = "'’"
FIRST_TOKEN = -1
"""The index of the token in front of the text, such as [CLS]."""


@dataclass(frozen=True)
class Unit:
    """What gets one vector: its text, its characters and the indices of its tokens."""

    name: str
    start: int
    end: int
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Reading:
    """A text in id space, without the special tokens around it; `pieces` are what one pass reads of it."""

    ids: list[int]
    units: list[Unit]
    pieces: list[Span]
    vanished: int = 0  # words that the tokenizer leaves nothing of
    overlong: bool = False  # longer than the window: split or cut


class Reader:
    """Reads texts with a model's tokenizer into what is to be embedded.

    Args:
        tokenizer: a Hugging Face tokenizer, or the light one.
        window: tokens that the model reads at once, special ones included.
        unit: `token`, `word`, `type` (as word) or `sentence`.
        pooling: `mean` of the tokens or the `first` of them; for sentences `mean` or `cls`.
        split: how plain text falls into `words`, or at `spaces` only.
        long: `split`, `truncate` or `refuse` texts beyond the window.
    """

    def __init__(
        self,
        tokenizer: Any,
        window: int,
        *,
        unit: UnitKind = "word",
        pooling: Pooling = "mean",
        split: Splitting = "words",
        long: LongTexts = "split",
    ) -> None:
        for name, value, kind in (
            ("unit", unit, UnitKind),
            ("pooling", pooling, Pooling),
            ("split", split, Splitting),
            ("long", long, LongTexts),
        ):
            if value not in get_args(kind):
                raise UsageError(f"unknown {name} '{value}': expected one of {', '.join(get_args(kind))}")
        if pooling == "cls" and unit != "sentence":
            raise UsageError(f"pooling cls is for sentences, got unit '{unit}': take mean or first")
        if pooling == "first" and unit == "sentence":
            raise UsageError("a sentence is pooled by mean or cls, got 'first'")
        self.tokenizer, self.unit, self.pooling, self.long = tokenizer, unit, pooling, long
        self._spans = find_words if split == "words" else find_stretches
        bare = list(tokenizer("a", add_special_tokens=False)["input_ids"])
        framed = list(tokenizer("a")["input_ids"])
        at = _find(bare, framed)
        self.prefix, self.suffix = framed[:at], framed[at + len(bare) :]
        self.room = window - len(self.prefix) - len(self.suffix)
        if pooling == "cls" and not self.prefix:
            raise UsageError("this model puts no token in front of a text: take --pooling mean")

    def read(self, text: str) -> Reading:
        """Read plain text; its words are found here."""
        return self._read(text, self._spans(text))

    def read_words(self, words: Sequence[str]) -> Reading:
        """Read a text that comes as a list of words, each of which is a unit, whatever is in it."""
        return self._read(*join_words(words))

    def read_all(self, texts: Iterable[str | Sequence[str]]) -> Iterator[Reading]:
        """Read texts of both kinds."""
        for text in texts:
            yield self.read(text) if isinstance(text, str) else self.read_words(text)

    def with_special_tokens(self, ids: Sequence[int]) -> list[int]:
        """Return the ids with the special tokens around them."""
        return [*self.prefix, *ids, *self.suffix]

    def _read(self, text: str, spans: list[Span]) -> Reading:
        ids, words, places = self._tokenize(text, spans)
        pieces = [(0, len(ids))]
        overlong = len(ids) > self.room
        if overlong:
            if self.long == "refuse":
                raise UsageError(
                    f"a text of {len(ids)} tokens is longer than the {self.room} that the model's window "
                    f"holds ('{text[:40]}...'): --long split or truncate mends that"
                )
            pieces = [(0, self.room)] if self.long == "truncate" else _cut(len(ids), self.room, words)
        kept = pieces[-1][1]
        units, vanished = [], 0
        for unit in self._units(text, spans, ids, words, places):
            tokens = tuple(token for token in unit.tokens if token < kept)
            if tokens:
                units.append(Unit(unit.name, unit.start, unit.end, tokens))
            else:
                vanished += not unit.tokens  # what is cut off at the end is no fault of the tokenizer
        return Reading(ids, units, pieces, vanished, overlong)

    def _tokenize(self, text: str, spans: list[Span]) -> tuple[list[int], list[list[int]], list[Span]]:
        """Return the ids, each word's tokens, and where each token stands in the text."""
        if self.tokenizer.is_fast:
            encoded = self.tokenizer(
                text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
            )
            places = [(int(start), int(end)) for start, end in encoded["offset_mapping"]]
            return list(encoded["input_ids"]), tokens_of(spans, places), places
        ids: list[int] = []  # no offsets: word by word, so that each word's tokens are known
        words, places = [], []
        for start, end in spans:
            found = self.tokenizer(text[start:end], add_special_tokens=False, verbose=False)["input_ids"]
            words.append(list(range(len(ids), len(ids) + len(found))))
            ids += found
            places += [(start, end)] * len(found)
        return ids, words, places

    def _units(
        self, text: str, spans: list[Span], ids: list[int], words: list[list[int]], places: list[Span]
    ) -> Iterator[Unit]:
        if self.unit == "sentence":
            whole = (FIRST_TOKEN,) if self.pooling == "cls" else tuple(range(len(ids)))
            yield Unit(text, 0, len(text), whole)
        elif self.unit == "token":
            token_of = self.tokenizer.convert_ids_to_tokens(ids)
            for i, token in enumerate(token_of):
                yield Unit(str(token), *places[i], (i,))
        else:
            for (start, end), tokens in zip(spans, words, strict=True):
                own = tokens[:1] if self.pooling == "first" else tokens
                yield Unit(text[start:end], start, end, tuple(own))


def _find(part: list[int], whole: list[int]) -> int:
    for at in range(len(whole) - len(part) + 1):
        if whole[at : at + len(part)] == part:
            return at
    raise UsageError("this tokenizer reads a text otherwise when it adds special tokens: it can't be framed")


def _cut(length: int, room: int, words: list[list[int]]) -> list[Span]:
    """Cut `length` tokens into pieces of at most `room`, where a word ends if there is such a place."""
    inside = {token for tokens in words for token in tokens[1:] if token - 1 in tokens}
    pieces, start = [], 0
    while length - start > room:
        end = start + room
        while end > start and end in inside:
            end -= 1
        end = end if end > start else start + room  # one word longer than the window
        pieces.append((start, end))
        start = end
    return [*pieces, (start, length)]


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

    A token belongs to every word of which it stands for a character: one that spans two words (a piece `'s.`
    of a sentence-piece vocabulary, say) to both; a character that became several byte-level tokens gives its
    word all of them; the space that a token took in belongs to nobody.

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
