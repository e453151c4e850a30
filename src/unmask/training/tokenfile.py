"""The token file: a corpus as one memory-mapped array of ids, written once and then only looked into.

Layout of the directory: `ids.bin` (16 or 32 bits a token), `documents.npy` (where each document starts and
the last one ends), `counts.npy` (how often each token occurs) and `about.json` (what it was made from).
Inside a document a separator stands between two paragraphs. `about.json` is written last: a directory
without it is the remains of a killed writer and is made anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmask.errors import UsageError
from unmask.runs.disk import write_whole
from unmask.training.corpus import Corpus, Document, shares_of

BATCH = 2000
"""Documents given to the tokenizer at a time: enough to keep its threads busy."""


@dataclass(frozen=True)
class TokenFile:
    """A tokenised corpus; documents are slices of `ids`, which stays on disk."""

    name: str
    ids: NDArray[Any]  # [tokens], memory-mapped
    starts: NDArray[np.int64]  # [documents + 1]
    counts: NDArray[np.int64]  # [vocab]

    @property
    def documents(self) -> int:
        """How many documents there are."""
        return len(self.starts) - 1

    def document(self, index: int) -> NDArray[np.int64]:
        """The ids of one document, its paragraphs parted by the separator."""
        return self.part(index, 0, int(self.starts[index + 1] - self.starts[index]))

    def part(self, index: int, start: int, end: int) -> NDArray[np.int64]:
        """Some of them: the others stay on disk."""
        first = self.starts[index]
        return np.asarray(self.ids[first + start : first + end], dtype=np.int64)

    def lengths(self) -> NDArray[np.int64]:
        """The number of tokens of every document."""
        return np.diff(self.starts)

    @classmethod
    def open(cls, name: str, directory: Path) -> TokenFile:
        """Map a directory that `write` has made."""
        about = about_tokens(directory) or {}
        ids = np.memmap(directory / "ids.bin", dtype=about["dtype"], mode="r")
        return cls(name, ids, np.load(directory / "documents.npy"), np.load(directory / "counts.npy"))


def write(corpus: Corpus, tokenizer: Any, directory: Path, origin: str) -> TokenFile:
    """Tokenise a corpus into `directory`, unless it holds the same corpus under the same tokenizer already.

    `origin` names the tokenizer; together with the corpus's fingerprint it decides whether the file is fresh.
    """
    about = {"corpus": corpus.fingerprint(), "tokenizer": origin}
    found = about_tokens(directory)
    if found is not None and {key: found.get(key) for key in about} == about:
        return TokenFile.open(corpus.name, directory)
    (directory / "about.json").unlink(missing_ok=True)
    directory.mkdir(parents=True, exist_ok=True)
    size = len(tokenizer)
    dtype = "uint16" if size <= 1 << 16 else "uint32"
    starts = [0]
    counts = np.zeros(size, dtype=np.int64)
    with (directory / "ids.bin").open("wb") as stream:
        for ids in encoded(corpus.documents(), tokenizer):
            if len(ids):
                stream.write(ids.astype(dtype).tobytes())
                counts += np.bincount(ids, minlength=size)
                starts.append(starts[-1] + len(ids))
    if len(starts) == 1:
        raise UsageError(
            f"{corpus.path}: expected text, got nothing that the tokenizer knows: check the file"
        )
    np.save(directory / "documents.npy", np.asarray(starts, dtype=np.int64))
    np.save(directory / "counts.npy", counts)
    record = {**about, "dtype": dtype, "tokens": starts[-1]}
    write_whole(directory / "about.json", json.dumps(record, indent=1))
    return TokenFile.open(corpus.name, directory)


def mixture(
    files: Iterable[TokenFile], alpha: float, stated: Mapping[str, float]
) -> tuple[dict[str, float], NDArray[np.float64]]:
    """The share of each corpus, and of each token [vocab] in text that is drawn by these shares."""
    named = {file.name: file for file in files}
    shares = shares_of({name: file.ids.size for name, file in named.items()}, alpha, stated)
    parts = [file.counts / file.counts.sum() * shares[name] for name, file in named.items()]
    return shares, np.sum(parts, axis=0)


def about_tokens(directory: Path) -> dict[str, Any] | None:
    """What a directory of tokens was made from; None if it was not made to its end."""
    try:
        found = json.loads((directory / "about.json").read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and "dtype" in found else None


def closing_id(tokenizer: Any) -> int:
    """The token that closes a text: [SEP], or the end of the sequence where there is none, as for ESM."""
    return int(tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id)


def encoded(documents: Iterable[Document], tokenizer: Any) -> Iterator[NDArray[np.int64]]:
    """Each document's ids, with a separator between two of its paragraphs."""
    separator = [closing_id(tokenizer)]
    stream = iter(documents)
    while batch := list(islice(stream, BATCH)):
        paragraphs = [paragraph for document in batch for paragraph in document]
        # verbose=False: a paragraph longer than the window is cut into rows later, nothing to warn of
        tokenized = iter(tokenizer(paragraphs, add_special_tokens=False, verbose=False)["input_ids"])
        for document in batch:
            ids: list[int] = []
            for part in (part for part in islice(tokenized, len(document)) if part):
                ids += separator + part if ids else part
            yield np.asarray(ids, dtype=np.int64)


def split(tokens: TokenFile, every: int, offset: int = 0) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Document numbers to train on and to hold out: one document in `every` is never trained on."""
    numbers = np.arange(tokens.documents)
    if every <= 0:
        return numbers, numbers[:0]
    held = numbers % every == offset % every
    if held.all() or not held.any():
        raise UsageError(
            f"corpus {tokens.name!r}: expected more than {offset % every} documents to evaluate on one in "
            f"{every}, got {tokens.documents}: part the documents by blank lines, or lower --eval-one-in "
            "(0: none)"
        )
    return numbers[~held], numbers[held]
