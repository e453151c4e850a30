"""Plain text in, documents out: the reading side of training.

A corpus is a UTF-8 text file (or .gz), one paragraph per line, a blank line between documents. It is read as
a stream, so that it may be larger than memory; a document or a line without end is cut after `LONGEST`
characters. Several corpora are drawn in a stratified way: the share of
a corpus is proportional to size^α (α = 1 draws by size, α = 0 gives every corpus the same share; XLM-R uses
0.3), unless the shares are stated.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from unmask.errors import UsageError
from unmask.text.lines import errors_in_one_line

Document = list[str]
"""The paragraphs of one document, none of them empty."""
LONGEST = 1 << 24
"""Characters of a document, to a paragraph."""


@dataclass(frozen=True)
class Corpus:
    """A named text file: the name appears in the results by domain and in the model card."""

    name: str
    path: Path

    @classmethod
    def parse(cls, text: str) -> Corpus:
        """Read `name=path`, or a bare path whose name is the file's stem; an existing file is a bare path."""
        name, mark, path = text.partition("=")
        if not mark or Path(text).is_file():
            name, path = Path(text).name.split(".")[0], text
        if not name or not path:
            raise UsageError(
                f"expected a corpus as NAME=FILE or FILE, got {text!r}: write e.g. wiki=wiki.txt.gz"
            )
        if name in (".", "..") or set(name) & {"/", "\\", "\0"}:
            # its token file lies under this name in the run's directory
            raise UsageError(f"expected a corpus name without / and \\, got {name!r}: write e.g. wiki={path}")
        return cls(name, Path(path))

    def documents(self) -> Iterator[Document]:
        """Stream the documents; refuse what is not text and a file in which there is none."""
        empty = True
        document: Document = []
        length = 0
        with errors_in_one_line(self.path), self._open() as lines:
            try:
                for line in iter(lambda: lines.readline(LONGEST), ""):
                    if "\0" in line:
                        raise self._binary()
                    if paragraph := line.strip():
                        document.append(paragraph)
                        length += len(paragraph)
                    if document and (not paragraph or length >= LONGEST):
                        empty = False
                        yield document
                        document, length = [], 0
            except UnicodeDecodeError as error:
                raise UsageError(
                    f"{self.path}: expected UTF-8 text (or gzip of it), got bytes that are not ({error}): "
                    "convert the file, e.g. with iconv -t UTF-8"
                ) from None
        if document:
            empty = False
            yield document
        if empty:
            raise UsageError(f"{self.path}: expected paragraphs of text, got an empty file: check the path")

    def check_readable(self) -> None:
        """Refuse a file that is not there, that can't be read or that is no text from its start."""
        with errors_in_one_line(self.path):
            self._open().close()

    def fingerprint(self) -> str:
        """A digest of the file's bytes: tokens made from it are reused only while it stays the same."""
        with errors_in_one_line(self.path), self.path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()

    def same_text(self, other: Corpus) -> bool:
        """Whether two corpora are one file, or copies of one."""
        try:
            if self.path.samefile(other.path):
                return True
            if self.path.stat().st_size != other.path.stat().st_size:
                return False
        except OSError:
            return False  # reading it for its text will say what is wrong
        return self.fingerprint() == other.fingerprint()

    def size(self) -> int:
        """How many bytes of text there are, unpacked."""
        try:
            with self.path.open("rb") as stream:
                if stream.read(2) != b"\x1f\x8b":
                    return self.path.stat().st_size
            with gzip.open(self.path) as packed:
                return sum(len(block) for block in iter(lambda: packed.read(1 << 20), b""))
        except (OSError, EOFError, zlib.error):
            return 0  # reading it for its text will say what is wrong

    def _open(self) -> IO[str]:
        with self.path.open("rb") as stream:
            head = stream.read(4096)
        packed = head[:2] == b"\x1f\x8b"
        if packed:
            with gzip.open(self.path) as unpacked:
                head = unpacked.read(4096)
        if b"\0" in head:  # before the text decoder says that the bytes are not UTF-8
            raise self._binary()
        encoding = "utf-8-sig"  # which passes over the mark that some editors put first
        return gzip.open(self.path, "rt", encoding=encoding) if packed else self.path.open(encoding=encoding)

    def _binary(self) -> UsageError:
        return UsageError(
            f"{self.path}: expected UTF-8 text, got a binary file: give plain text or .gz of it"
        )


def corpora(texts: Sequence[str], beside: Sequence[Corpus] = ()) -> list[Corpus]:
    """Parse several corpora; their names must differ, also from those that they stand beside."""
    if not texts:
        raise UsageError("expected at least one corpus, got none: give e.g. --corpus wiki=wiki.txt.gz")
    parsed = [Corpus.parse(text) for text in texts]
    names = [corpus.name for corpus in (*beside, *parsed)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"two corpora are called {twice[0]!r}: give each its own NAME=FILE")
    return parsed


def shares_by_size(sizes: Mapping[str, int], alpha: float) -> dict[str, float]:
    """Shares proportional to size^alpha, summing to 1."""
    if not 0 <= alpha <= 1:
        raise UsageError(f"expected alpha between 0 (equal shares) and 1 (by size), got {alpha}")
    weights = {name: float(size) ** alpha for name, size in sizes.items()}
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


def stated_shares(shares: Mapping[str, float], names: Sequence[str]) -> dict[str, float]:
    """Shares as the user states them, scaled to sum to 1; every corpus must have one."""
    if set(shares) != set(names):
        raise UsageError(
            f"expected shares of all corpora ({', '.join(names)}), got {', '.join(shares) or 'none'}"
        )
    total = sum(shares.values())
    if total <= 0 or min(shares.values()) < 0:
        raise UsageError(f"expected shares that are not negative and not all zero, got {dict(shares)}")
    return {name: shares[name] / total for name in names}


def shares_of(sizes: Mapping[str, int], alpha: float, stated: Mapping[str, float]) -> dict[str, float]:
    """The stated shares, or, if none are, those by size."""
    return stated_shares(stated, list(sizes)) if stated else shares_by_size(sizes, alpha)


def drawn(corpus: Corpus, fraction: float, generator: np.random.Generator) -> Iterator[str]:
    """A random part of a corpus's paragraphs, drawn one by one: the stratified text of a vocabulary."""
    for document in corpus.documents():
        for paragraph in document:
            if fraction >= 1 or generator.random() < fraction:
                yield paragraph
