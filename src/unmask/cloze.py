"""A text with blanks, as token ids.

Two ways to write one:

- blanks to be filled, `The [MASK] [MASK] at the casino.` (`[MASK]`, three or more underscores, or the
  tokenizer's own mask token), read by `parse_blanks`;
- words to be scored, `The {man} {is} at the casino.`, read by `parse_braces`; `{{` and `}}` stand for
  plain braces. The text is tokenized whole, without its braces, and the tokens inside them become blanks
  whose true tokens are known.

From here on everything works on ids; the pieces of text around the blanks are kept for display alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from unmask.errors import Misuse
from unmask.vocabulary import Vocabulary

BRACES = re.compile(r"\{\{|\}\}|\{|\}")


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

    def filled(self, token_ids: Sequence[int]) -> str:
        """Return the text with these tokens in the blanks, joined as the tokenizer's marks ask."""
        text = self.pieces[0]
        for token_id, piece in zip(token_ids, self.pieces[1:], strict=True):
            surface = self.vocabulary.surface(token_id)
            if self.vocabulary.goes_on_inside_a_word(token_id):
                text = text.rstrip()
            elif self.vocabulary.start_mark is not None and text and not text[-1].isspace():
                text += " "
            text += surface + piece
        return text


def parse_blanks(text: str, vocabulary: Vocabulary, window: int, *, truncate: bool = False) -> Cloze:
    """Read a text whose blanks are to be filled."""
    if not text.strip():
        raise Misuse("expected a text with blanks, got an empty one: write it with [MASK] or ___ for a blank")
    tokenizer = vocabulary.tokenizer
    blank = re.compile(rf"{re.escape(tokenizer.mask_token)}|\[MASK\]|_{{3,}}")
    pieces = blank.split(text)
    if len(pieces) == 1:
        raise Misuse(
            "the text has no blank: write [MASK], ___ or the model's own "
            f"{tokenizer.mask_token} for each token to be filled"
        )
    ids = tokenizer(tokenizer.mask_token.join(pieces), verbose=False)["input_ids"]
    blanks = tuple(i for i, token_id in enumerate(ids) if token_id == vocabulary.mask_id)
    cloze = Cloze(tuple(ids), blanks, tuple(pieces), vocabulary)
    return _within_window(cloze, window, truncate=truncate)


def parse_braces(text: str, vocabulary: Vocabulary, window: int, *, truncate: bool = False) -> Cloze:
    """Read a text whose words in braces are to be scored."""
    if not text.strip():
        raise Misuse("expected a text with words in braces, got an empty one: write {word} for each")
    plain, spans = _strip_braces(text)
    if not spans:
        raise Misuse("nothing is marked to be scored: put braces around it, as in 'The {man} {is} here.'")
    ids, blanks = _locate(plain, spans, vocabulary)
    notes = []
    truth: list[int] = []
    pieces: list[str] = []
    end = 0
    for (start, stop), positions in zip(spans, blanks, strict=True):
        tokens = [vocabulary.token(ids[i]) for i in positions]
        if len(positions) > 1:
            notes.append(
                f"'{plain[start:stop]}' is {len(tokens)} tokens for this model ({' '.join(tokens)}) "
                f"and counts as {len(tokens)} blanks"
            )
        pieces += [plain[end:start], *[""] * (len(positions) - 1)]
        truth += [ids[i] for i in positions]
        end = stop
    pieces.append(plain[end:])
    flat = tuple(i for positions in blanks for i in positions)
    masked = tuple(vocabulary.mask_id if i in flat else token_id for i, token_id in enumerate(ids))
    cloze = Cloze(masked, flat, tuple(pieces), vocabulary, tuple(truth), tuple(notes))
    return _within_window(cloze, window, truncate=truncate)


def _strip_braces(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Return the text without its braces and the character spans that they enclosed."""
    plain, spans = "", []
    opened: int | None = None
    end = 0
    for match in BRACES.finditer(text):
        plain += text[end : match.start()]
        end = match.end()
        sign = match.group()
        if sign in ("{{", "}}"):
            plain += sign[0]
        elif sign == "{":
            if opened is not None:
                raise Misuse(
                    f"a brace opens inside another one at character {match.start()}: close the first"
                )
            opened = len(plain)
        elif opened is None:
            raise Misuse(
                f"a brace closes at character {match.start()} that was never opened: "
                f"write }}}} for a plain one"
            )
        else:
            if not plain[opened:].strip():
                raise Misuse(f"empty braces at character {match.start()}: put the word to be scored inside")
            spans.append((opened, len(plain)))
            opened = None
    if opened is not None:
        raise Misuse("a brace opens and does not close: write {word}, or {{ for a plain brace")
    return plain + text[end:], spans


def _locate(
    plain: str, spans: list[tuple[int, int]], vocabulary: Vocabulary
) -> tuple[list[int], list[list[int]]]:
    """Tokenize the text and return its ids with the positions of the tokens inside each span."""
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
                raise Misuse(
                    f"the braces around '{plain[start:stop]}' cut the token '{token.strip()}' of this model: "
                    f"put them around the whole word"
                )
            inside.append(position)
        if not inside:
            raise Misuse(f"'{plain[start:stop]}' is no token at all for this model: nothing to score")
        found.append(inside)
    return ids, found


def _locate_by_pieces(
    plain: str, spans: list[tuple[int, int]], vocabulary: Vocabulary
) -> tuple[list[int], list[list[int]]]:
    """Do the same for tokenizers that give no offsets: tokenize the stretches apart and join the ids."""
    tokenizer = vocabulary.tokenizer
    body: list[int] = []
    found = []
    end = 0
    for start, stop in spans:
        body += tokenizer(plain[end:start], add_special_tokens=False, verbose=False)["input_ids"]
        inside = tokenizer(plain[start:stop], add_special_tokens=False, verbose=False)["input_ids"]
        if not inside:
            raise Misuse(f"'{plain[start:stop]}' is no token at all for this model: nothing to score")
        found.append(list(range(len(body), len(body) + len(inside))))
        body += inside
        end = stop
    body += tokenizer(plain[end:], add_special_tokens=False, verbose=False)["input_ids"]
    ids = list(tokenizer.build_inputs_with_special_tokens(body))
    before = next(i for i in range(len(ids)) if ids[i : i + len(body)] == body)
    return ids, [[before + i for i in inside] for inside in found]


def _within_window(cloze: Cloze, window: int, *, truncate: bool) -> Cloze:
    """Check that the text fits the model's window, or cut its end if that was asked for."""
    length = len(cloze.ids)
    if length <= window:
        return cloze
    if not truncate:
        raise Misuse(
            f"the text is {length} tokens long, but the model's window holds {window}: shorten it, or ask "
            f"for truncation (--truncate) to drop its end"
        )
    special = cloze.vocabulary.special_ids - {cloze.vocabulary.mask_id}
    tail = next(i for i in range(length) if cloze.ids[length - 1 - i] not in special or i == length - 1)
    kept = window - tail
    late = [b for b in cloze.blanks if b >= kept]
    if late:
        raise Misuse(
            f"a blank stands at token {late[0] + 1}, in the part that truncation to {window} tokens drops: "
            f"move it forward or shorten the text before it"
        )
    ids = cloze.ids[:kept] + cloze.ids[length - tail :]
    note = f"the text was cut from {length} to {window} tokens"
    return Cloze(ids, cloze.blanks, cloze.pieces, cloze.vocabulary, cloze.truth, (*cloze.notes, note))
