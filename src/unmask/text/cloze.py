"""A text with blanks, as token ids.

Two ways to write one:

- blanks to be filled, `The [MASK] [MASK] in the pool.` (`[MASK]`, three or more underscores, or the
  tokenizer's own mask token), read by `parse_blanks`;
- words to be scored, `The {boy} {is} in the pool.`, read by `parse_braces`; `{{` and `}}` stand for
  plain braces. The text is tokenized whole, without its braces, and the tokens inside them become blanks
  whose true tokens are known. Braces and blanks don't mix: a text is read in one of the two ways.

From here on everything works on ids; the pieces of text around the blanks are kept for display alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from unmask.errors import UsageError
from unmask.text.vocabulary import Vocabulary
from unmask.values import Text

BRACES = re.compile(r"\{\{|\}\}|\{|\}")


class _Found(NamedTuple):
    """A token inside braces: its position among the ids, and the stretch of text that it stands for."""

    position: int
    start: int
    stop: int


@dataclass(frozen=True)
class Cloze:
    """Token ids with the mask at each blank, and what is known of the blanks.

    `pieces` are the stretches of text before, between and after the blanks (one more than there are
    blanks); `truth` holds the ids that stood in the blanks, if they are known; `notes` is what the user
    should be told.
    """

    ids: tuple[int, ...]
    blanks: tuple[int, ...]
    pieces: tuple[str, ...]
    vocabulary: Vocabulary
    truth: tuple[int, ...] | None = None
    notes: tuple[str, ...] = ()

    @staticmethod
    def of_ids(ids: Sequence[int], blanks: Sequence[int], vocabulary: Vocabulary) -> Cloze:
        """Blank out some positions of a text in id space, where nothing is decoded and tokenized again."""
        masked = tuple(vocabulary.mask_id if i in blanks else t for i, t in enumerate(ids))
        truth = tuple(ids[i] for i in blanks)
        return Cloze(masked, tuple(blanks), ("",) * (len(truth) + 1), vocabulary, truth)

    def filled(self, token_ids: Sequence[int]) -> str:
        """Return the text with these tokens in the blanks, joined as the tokenizer's marks ask."""
        text = between = self.pieces[0]
        before = ""
        word: list[int] = []
        for token_id, piece in zip(token_ids, self.pieces[1:], strict=True):
            goes_on = self.vocabulary.goes_on_inside_a_word(token_id)
            if goes_on and word and not between.strip():
                word.append(token_id)
            else:
                if goes_on:
                    text = text.rstrip()
                elif self.vocabulary.start_mark is not None and text and not text[-1].isspace():
                    text += " "
                before, word = text, [token_id]
            text = before + self.vocabulary.surface(*word) + piece
            between = piece
        return text


def parse_blanks(text: str, vocabulary: Vocabulary, window: int, *, truncate: bool = False) -> Cloze:
    """Read a text whose blanks are to be filled."""
    if not text.strip():
        raise UsageError(
            "expected a text with blanks, got an empty one: write [MASK] or ___ for each token to be filled"
        )
    Text().check("the text", text)
    tokenizer = vocabulary.tokenizer
    pieces = _blank(vocabulary).split(text)
    if len(pieces) == 1:
        own = tokenizer.mask_token
        ways = "[MASK] or ___" if own == "[MASK]" else f"[MASK], ___ or the model's own {own}"
        raise UsageError(f"the text has no blank: write {ways} for each token to be filled")
    ids = tokenizer(tokenizer.mask_token.join(pieces), verbose=False)["input_ids"]
    blanks = tuple(i for i, token_id in enumerate(ids) if token_id == vocabulary.mask_id)
    cloze = Cloze(tuple(ids), blanks, tuple(pieces), vocabulary)
    return _within_window(_with_unknown_noted(cloze), window, truncate=truncate)


def has_blank(text: str, vocabulary: Vocabulary) -> bool:
    """Tell whether a text has a blank, however it is written."""
    return _blank(vocabulary).search(text) is not None


def parse_braces(text: str, vocabulary: Vocabulary, window: int, *, truncate: bool = False) -> Cloze:
    """Read a text whose words in braces are to be scored."""
    if not text.strip():
        raise UsageError("expected a text with words in braces, got an empty one: write {word} for each")
    Text().check("the text", text)
    plain, spans = _strip_braces(text)
    if not spans:
        raise UsageError(
            "nothing is marked to be scored: put braces around it, as in 'The {man} {is} here.' or "
            "'{The man is here.}'"
        )
    blank = _blank(vocabulary).search(plain)
    if blank:
        raise UsageError(
            f"the text has both braces and a blank ({blank.group()}): put a word in braces where the blank "
            f"is to score it, or write [MASK] for the braces to fill them"
        )
    ids, found = locate(plain, spans, vocabulary)
    notes = []
    pieces: list[str] = []
    end = 0
    for (start, stop), inside in zip(spans, found, strict=True):
        tokens = [vocabulary.token(ids[token.position]) for token in inside]
        if len(tokens) > 1:
            notes.append(
                f"'{plain[start:stop]}' is {len(tokens)} tokens for this model ({' '.join(tokens)}) "
                f"and counts as {len(tokens)} blanks"
            )
        for token in inside:
            pieces.append(plain[end : token.start])
            end = token.stop
    pieces.append(plain[end:])
    blanks = [token.position for inside in found for token in inside]
    cloze = replace(Cloze.of_ids(ids, blanks, vocabulary), pieces=tuple(pieces), notes=tuple(notes))
    return _within_window(_with_unknown_noted(cloze), window, truncate=truncate)


def expanded(cloze: Cloze, lengths: Sequence[int]) -> Cloze:
    """Return the text with so many masks in each blank."""
    ids: list[int] = []
    blanks: list[int] = []
    pieces = [cloze.pieces[0]]
    masks = dict(zip(cloze.blanks, lengths, strict=True))
    for position, token_id in enumerate(cloze.ids):
        for _ in range(masks.get(position, 0)):
            blanks.append(len(ids))
            ids.append(token_id)
        if position not in masks:
            ids.append(token_id)
    for length, piece in zip(lengths, cloze.pieces[1:], strict=True):
        pieces += [""] * (length - 1) + [piece]
    return replace(cloze, ids=tuple(ids), blanks=tuple(blanks), pieces=tuple(pieces))


def _blank(vocabulary: Vocabulary) -> re.Pattern[str]:
    """Return what stands for a blank in a text."""
    return re.compile(rf"{re.escape(vocabulary.tokenizer.mask_token)}|\[MASK\]|_{{3,}}")


def _strip_braces(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Return the text without its braces and the character spans that they enclosed, blank ends left out.

    As in Python's format strings, the first closing brace after a word ends it: {{{man}}} is a plain
    brace, a word, and a plain brace.
    """
    plain, spans = "", []
    opened: int | None = None
    end = 0
    while match := BRACES.search(text, end):
        plain += text[end : match.start()]
        end = match.end()
        sign, place = match.group(), match.start() + 1
        word = plain[opened:].strip() if opened is not None else ""
        if sign == "}}" and word:
            sign, end = "}", match.start() + 1
        if sign in ("{{", "}}"):
            plain += sign[0]
        elif sign == "{":
            if opened is not None:
                raise UsageError(f"a brace opens inside another one at character {place}: close the first")
            opened = len(plain)
        elif opened is None:
            raise UsageError(
                f"a brace closes at character {place} that was never opened: write }}}} for a plain one"
            )
        elif not word:
            raise UsageError(f"empty braces at character {place}: put the word to be scored inside")
        else:
            start = plain.index(word, opened)
            spans.append((start, start + len(word)))
            opened = None
    if opened is not None:
        raise UsageError("a brace opens and does not close: write {word}, or {{ for a plain brace")
    return plain + text[end:], spans


def locate(
    plain: str, spans: list[tuple[int, int]], vocabulary: Vocabulary
) -> tuple[list[int], list[list[_Found]]]:
    """Tokenize the text and return its ids with the tokens inside each span."""
    tokenizer = vocabulary.tokenizer
    if not tokenizer.is_fast:
        return _locate_by_pieces(plain, spans, vocabulary)
    encoded = tokenizer(plain, return_offsets_mapping=True, verbose=False)
    ids, offsets = list(encoded["input_ids"]), encoded["offset_mapping"]
    found = []
    for start, stop in spans:
        inside = []
        for position, (first, last) in enumerate(offsets):
            token = plain[first:last]
            first += len(token) - len(token.lstrip())  # some tokenizers count the space before a word
            if first >= last or last <= start or first >= stop:
                continue
            if first < start or last > stop:
                raise UsageError(
                    f"the braces around '{plain[start:stop]}' cut the token '{token.strip()}' of this model: "
                    f"put them around the whole word"
                )
            inside.append(_Found(position, first, last))
        if not inside:
            raise _nothing_to_score(plain[start:stop])
        found.append(inside)
    return ids, found


def _locate_by_pieces(
    plain: str, spans: list[tuple[int, int]], vocabulary: Vocabulary
) -> tuple[list[int], list[list[_Found]]]:
    """Do the same for tokenizers that give no offsets: tokenize the stretches apart and join the ids."""
    tokenizer = vocabulary.tokenizer

    def tokenized(stretch: str) -> list[int]:
        return list(tokenizer(stretch, add_special_tokens=False, verbose=False)["input_ids"])

    body: list[int] = []
    found = []
    end = 0
    for start, stop in spans:
        body += tokenized(plain[end:start])
        inside = tokenized(plain[start:stop])
        if not inside:
            raise _nothing_to_score(plain[start:stop])
        # which token stands for which letters is not known: the first one stands for the whole word
        shares = [(start, stop)] + [(stop, stop)] * (len(inside) - 1)
        found.append([_Found(len(body) + i, *share) for i, share in enumerate(shares)])
        body += inside
        end = stop
    body += tokenized(plain[end:])
    if body != tokenized(plain):
        raise UsageError("the braces cut a token of this model: put them around whole words")
    ids = list(tokenizer.build_inputs_with_special_tokens(body))
    before = next(i for i in range(len(ids)) if ids[i : i + len(body)] == body)
    return ids, [[token._replace(position=before + token.position) for token in inside] for inside in found]


def _nothing_to_score(word: str) -> UsageError:
    return UsageError(
        f"'{word}' is no token at all for this model, so there is nothing to score: choose another"
    )


def _with_unknown_noted(cloze: Cloze) -> Cloze:
    """Say so if part of the text is unknown to the model, which then reads a placeholder there."""
    note = unknown_note((*cloze.ids, *(cloze.truth or ())), cloze.vocabulary)
    return cloze if note is None else replace(cloze, notes=(*cloze.notes, note))


def unknown_note(ids: Sequence[int], vocabulary: Vocabulary) -> str | None:
    """Return what the user is told of a text with tokens that the model does not know; None without."""
    tokenizer = vocabulary.tokenizer
    count = ids.count(tokenizer.unk_token_id)
    if not count:
        return None
    what = "a token of the text is" if count == 1 else f"{count} tokens of the text are"
    return (
        f"{what} unknown to this model, which reads {tokenizer.unk_token} there: check the spelling, and "
        f"that the tokenizer is the model's own"
    )


def _within_window(cloze: Cloze, window: int, *, truncate: bool) -> Cloze:
    """Check that the text fits the model's window, or cut its end if that was asked for."""
    length = len(cloze.ids)
    if length <= window:
        return cloze
    if not truncate:
        raise UsageError(
            f"the text is {length} tokens long, but the model's window holds {window}: shorten it, or ask "
            f"for truncation (truncate) to drop its end"
        )
    special = cloze.vocabulary.special_ids - {cloze.vocabulary.mask_id}
    tail = next(i for i in range(length) if cloze.ids[length - 1 - i] not in special or i == length - 1)
    kept = window - tail
    late = [b for b in cloze.blanks if b >= kept]
    if late:
        raise UsageError(
            f"a blank stands at token {late[0] + 1}, in the part that truncation to {window} tokens drops: "
            f"move it forward or shorten the text before it"
        )
    ids = cloze.ids[:kept] + cloze.ids[length - tail :]
    note = f"the text was cut from {length} to {window} tokens"
    return replace(cloze, ids=ids, notes=(*cloze.notes, note))
