"""Examples from files: TSV, CSV and JSON lines for texts and pairs, CoNLL columns or JSON lines for tags.

The kind is told by the name's ending (`.gz` may follow): `.tsv` has a header and no quoting, `.csv` a header
and the usual quoting, `.jsonl` one object per line; anything else is CoNLL, one word per line, an empty line
after each sentence; `# ` in front of a sentence starts a comment. Every example remembers its line, so that
a complaint can name it.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unmask.errors import UsageError
from unmask.text.lines import Line, read_lines, read_objects
from unmask.values import plural

PAIRS_IN_USE = (("premise", "hypothesis"), ("sentence1", "sentence2"), ("text", "text_pair"))
TEXT_OPTIONS = ("--text", "--second")
DOCUMENT_MARK = "-DOCSTART-"
NO_WORD = re.compile(r"\d+[-.]\d+")
"""In front of a line of CoNLL-U that is no word of its own: several words in one, or one left unsaid."""


@dataclass(frozen=True)
class Example:
    """A text, or a pair of them, with its label if it has one."""

    line: int
    texts: tuple[str, ...]
    label: str | None


@dataclass(frozen=True)
class Tagged:
    """The words of a sentence, with their tags if they have any; `line` is that of its first word.

    Where the tags were put into another scheme, `given` are those of the file.
    """

    line: int
    words: list[str]
    tags: list[str] | None
    lines: tuple[int, ...] | None = None  # of the words; None: all stand on one
    given: list[str] | None = None

    def line_of(self, place: int) -> int:
        """Return the line of a word."""
        return self.line if self.lines is None else self.lines[place]


@dataclass(frozen=True)
class Columns:
    """Which columns of a table hold the texts and the label; None: found by their names."""

    first: str | None = None
    second: str | None = None
    label: str = "label"


def read_examples(path: Path, *, pairs: bool, columns: Columns, labelled: bool) -> list[Example]:
    """Return the examples of a table; `labelled` ones must have a label."""
    examples = []
    names: tuple[str, ...] | None = None
    for line, row in _rows(path):
        if names is None:
            names = _text_columns(path, list(row), pairs, columns)
            if labelled:
                _require(path, line, row, columns.label, "--label")
        for name, option in zip(names, TEXT_OPTIONS, strict=False):
            _require(path, line, row, name, option)
        texts = tuple(_plain(path, line, name, row[name]) for name in names)
        if any(not text.strip() for text in texts):
            raise UsageError(f"{path}, line {line}: the text is empty: give one, or remove the line")
        label = row.get(columns.label)
        if labelled and (label is None or not str(label).strip()):
            raise UsageError(f"{path}, line {line}: the column '{columns.label}' is empty: give a label")
        if label is not None:
            label = _plain(path, line, columns.label, label)
        examples.append(Example(line, texts, label))
    return examples


def resolve(path: Path, *, pairs: bool, columns: Columns) -> Columns:
    """Return the columns under the names that they have in a file, so that others can be read alike."""
    for _, row in _rows(path):
        first, *second = _text_columns(path, list(row), pairs, columns)
        return Columns(first, second[0] if second else None, columns.label)
    return columns


def _text_columns(path: Path, there: list[str], pairs: bool, columns: Columns) -> tuple[str, ...]:
    """Return the columns of the texts: as told, by names in use, or those that are left."""
    rest = [name for name in there if name != columns.label]
    if not pairs:
        if columns.first is not None:
            return (columns.first,)
        if "text" in rest or len(rest) != 1:
            return ("text",)
        return (rest[0],)
    if columns.first is not None and columns.second is not None:
        return columns.first, columns.second
    if columns.first is not None or columns.second is not None:
        raise UsageError("a pair has two columns: name both with --text and --second, or neither")
    for known in PAIRS_IN_USE:
        if set(known) <= set(rest):
            return known
    if len(rest) == 2:
        return rest[0], rest[1]
    raise UsageError(
        f"{path}: expected two columns of texts, found {', '.join(rest) or 'none'}: name them with "
        f"--text and --second"
    )


def _require(path: Path, line: int, row: Mapping[str, Any], name: str, option: str) -> None:
    if name not in row or row[name] is None:
        raise UsageError(
            f"{path}, line {line}: there is no column '{name}', only {', '.join(map(str, row)) or 'none'}: "
            f"mend the file, or name the column with {option}"
        )


def _plain(path: Path, line: int, name: str, value: Any) -> str:
    """Return a text or a label; in JSON it may be a number, but nothing that is made of parts."""
    if isinstance(value, (str, int, float)):
        return str(value)
    raise UsageError(f"{path}, line {line}: expected '{name}' to be a text, got {json.dumps(value)[:40]}")


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    ending = Path(path.name.removesuffix(".gz")).suffix
    if ending in (".jsonl", ".ndjson"):
        yield from read_objects(path)
    elif ending in (".tsv", ".csv"):
        yield from _table(path, tab=ending == ".tsv")
    else:
        raise UsageError(f"expected a file that ends in .tsv, .csv or .jsonl (.gz may follow), got '{path}'")


def _table(path: Path, *, tab: bool) -> Iterator[tuple[int, dict[str, Any]]]:
    style: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if tab else {}
    reader = csv.reader((text + "\n" for _, text in _lines(path)), strict=True, **style)
    try:
        header = next(reader, None)
    except csv.Error as error:
        raise UsageError(f"{path}, line 1: can't be read as a table's header ({error})") from None
    if header is None:
        return
    twice = sorted(name for name, count in Counter(header).items() if count > 1)
    if twice:
        raise UsageError(
            f"{path}, line 1: several columns are called '{twice[0]}': give each a name of its own"
        )
    first = reader.line_num + 1  # of the row that is read next: a quoted field may hold several lines
    try:
        for row in reader:
            if row and len(row) != len(header):
                raise UsageError(
                    f"{path}, line {first}: expected {len(header)} columns "
                    f"({', '.join(header)}), got {len(row)}"
                )
            if row:
                yield first, dict(zip(header, row, strict=True))
            first = reader.line_num + 1
    except csv.Error as error:
        why = "a quote is opened and not closed" if "end of data" in str(error) else str(error)
        raise UsageError(f"{path}, line {first}: can't be read as a table ({why})") from None


def _lines(path: Path) -> Iterator[Line]:
    """Go through a file's lines; refuse what no text holds."""
    for number, text in read_lines(path):
        if "\0" in text:
            raise UsageError(f"{path}, line {number}: expected text, got a NUL byte: remove it")
        yield number, text


def read_tagged(path: Path, *, labelled: bool, word_column: int = 0, tag_column: int = -1) -> list[Tagged]:
    """Return the sentences of a CoNLL file, or of JSON lines with `words` and `tags`."""
    if Path(path.name.removesuffix(".gz")).suffix in (".jsonl", ".ndjson"):
        return [_tagged_object(path, line, row, labelled) for line, row in read_objects(path)]
    sentences: list[Tagged] = []
    words: list[str] = []
    tags: list[str] = []
    lines: list[int] = []

    def close() -> None:
        if words:
            found = list(tags) if labelled else None
            sentences.append(Tagged(lines[0], list(words), found, tuple(lines)))
        for some in (words, tags, lines):
            some.clear()

    for number, line in _lines(path):
        fields = line.split("\t") if "\t" in line else line.split()
        if not line.strip() or fields[0] == DOCUMENT_MARK:
            close()
            continue
        comment = not words and line.startswith("# ")
        if comment or (word_column > 0 and NO_WORD.fullmatch(fields[0])):
            continue
        lines.append(number)
        words.append(_field(path, number, fields, word_column, "word"))
        if labelled:
            if len(fields) < 2:
                raise UsageError(f"{path}, line {number}: expected a word and its tag, got '{line}'")
            tags.append(_field(path, number, fields, tag_column, "tag"))
    close()
    return sentences


def _field(path: Path, number: int, fields: Sequence[str], column: int, what: str) -> str:
    try:
        found = fields[column].strip()
    except IndexError:
        raise UsageError(
            f"{path}, line {number}: there is no column {column} for the {what}, only {len(fields)} columns"
        ) from None
    if not found:
        raise UsageError(f"{path}, line {number}: the {what} is empty")
    return found


def _tagged_object(path: Path, line: int, row: dict[str, Any], labelled: bool) -> Tagged:
    words, tags = row.get("words"), row.get("tags")
    if not _texts(words):
        raise UsageError(f'{path}, line {line}: expected "words", a list of words, got {str(words)[:40]}')
    if labelled and not (_texts(tags) and len(tags) == len(words)):  # type: ignore[arg-type]
        count = plural(len(words), "word")  # type: ignore[arg-type]
        raise UsageError(f'{path}, line {line}: expected "tags", one for each of {count}')
    return Tagged(line, list(words), list(tags) if labelled else None)  # type: ignore[arg-type]


def _texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, str) and v.strip() for v in value)
