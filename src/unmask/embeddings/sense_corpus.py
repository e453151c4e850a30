"""Sense-tagged corpora in the unified format of Raganato et al. (2017), streamed.

The XML has a `sentence` of words (`wf`) and instances (`instance`, with an id, a lemma and a part of speech);
a file of gold keys has an instance's id and one or more sense keys per line. Both may be compressed.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from unmask.errors import UsageError
from unmask.text.lines import errors_in_one_line, open_bytes, read_lines

Gold = dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Instance:
    """A word to be disambiguated: which word of its sentence it is."""

    id: str
    lemma: str
    pos: str
    word: int

    @property
    def entry(self) -> tuple[str, str]:
        """Under which its senses are listed."""
        return self.lemma.lower(), self.pos


@dataclass(frozen=True)
class Sentence:
    """The words of a sentence, several of which may be instances."""

    words: list[str]
    instances: list[Instance]


def read_sentences(path: Path) -> Iterator[Sentence]:
    """Return the sentences of a corpus; words that are empty are left out."""
    opened = 0
    try:
        with errors_in_one_line(path), open_bytes(str(path)) as stream:
            for _, element in ElementTree.iterparse(stream):
                if element.tag == "sentence":
                    opened += 1
                    yield _sentence(path, element)
                    element.clear()
    except ElementTree.ParseError as error:
        raise UsageError(
            f"{path}: expected XML in the unified format, got a syntax error ({error})"
        ) from None
    if not opened:
        raise UsageError(f"{path}: expected <sentence> elements in the unified format, found none")


def count_sentences(path: Path) -> int:
    """Return about how many sentences a corpus has, for a progress bar: their opening tags, a line each."""
    try:
        with open_bytes(str(path)) as stream:
            return sum(b"<sentence " in line for line in stream)
    except (OSError, EOFError, zlib.error):
        return 0  # the reader will say what is wrong


def _sentence(path: Path, element: Any) -> Sentence:
    words: list[str] = []
    instances: list[Instance] = []
    for part in element:
        word = " ".join((part.text or "").split())
        if part.tag == "instance":
            missing = [name for name in ("id", "lemma", "pos") if not part.get(name)]
            if missing:
                raise UsageError(f"{path}, sentence {element.get('id')}: an instance has no {missing[0]}")
            if word:
                instances.append(Instance(part.get("id"), part.get("lemma"), part.get("pos"), len(words)))
        if word:
            words.append(word)
    return Sentence(words, instances)


def read_gold(path: Path) -> Gold:
    """Return the sense keys of every instance; several are each as good."""
    gold: Gold = {}
    for number, line in read_lines(path):
        parts = line.split()
        if not parts:
            continue
        if len(parts) < 2:
            raise UsageError(
                f"{path}, line {number}: expected an instance's id and its sense keys, got '{line}'"
            )
        gold[parts[0]] = tuple(parts[1:])
    if not gold:
        raise UsageError(f"{path}: expected gold keys, one instance per line, got none")
    return gold


def gold_beside(path: Path) -> Path:
    """Return where the gold keys of NAME.data.xml stand by custom: NAME.gold.key.txt."""
    stem = path.name.removesuffix(".gz").removesuffix(".data.xml")
    for ending in (".gold.key.txt", ".gold.key.txt.gz"):
        if (path.parent / (stem + ending)).is_file():
            return path.parent / (stem + ending)
    raise UsageError(f"no gold keys beside '{path}' ({stem}.gold.key.txt): give them with --gold")
