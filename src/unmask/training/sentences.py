"""A corpus sentence by sentence: short texts to train on, beside the rows that are full.

A model that only sees rows of 128 tokens is a stranger to a text of eight words. So a share of the rows can
be made of single sentences, each framed by itself (see `packing.py`). The split is by punctuation: a
sentence ends at . ? or !, with the quotes and brackets that close it, before a space and something that
may begin one; not after a title, an abbreviation or an initial. It is a split for training, not for
linguistics: what it gets wrong is a fragment now and then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unmask.errors import UsageError
from unmask.training.corpus import Corpus, Document
from unmask.training.tokenfile import TokenFile

SHORTEST = 3
"""Tokens of a sentence that is worth a place: a number or a chapter's mark has fewer."""

_END = re.compile(r"(?<=[.?!])[\"'”’»)\]]*(\s+)(?=[\"'“‘«(\[]*[A-Z0-9])")
_NO_END = re.compile(
    r"(?:\b(?:[A-Z]|Mr|Mrs|Ms|Messrs|Mme|Dr|Drs|Prof|Rev|Hon|St|Sr|Jr|Gen|Col|Capt|Lt|Sgt|Maj|Gov|Sen|Rep|"
    r"Pres|Esq|No|Nos|Vol|vol|Fig|fig|Art|Ch|ch|pp|p|ed|eds|cf|vs|v|c|ca|approx|etc|i\.e|e\.g|Inc|Ltd|Co|"
    r"Bros|Mt|Ft|Jan|Feb|Mar|Apr|Aug|Sept|Sep|Oct|Nov|Dec))\.$"
)


def sentences(paragraph: str) -> list[str]:
    """The sentences of a paragraph, in order; together they hold all of it but the spaces between them."""
    found, start = [], 0
    for match in _END.finditer(paragraph):
        end = match.start(1)
        if not _NO_END.search(paragraph, max(start, end - 12), end):
            found.append(paragraph[start:end])
            start = match.end(1)
    return [*found, paragraph[start:]]


@dataclass(frozen=True)
class SentenceCorpus(Corpus):
    """The same documents, each as the list of its sentences instead of its paragraphs."""

    def documents(self) -> Iterator[Document]:
        """Stream them."""
        for document in super().documents():
            yield [sentence for paragraph in document for sentence in sentences(paragraph)]


@dataclass(frozen=True)
class Sentences:
    """Some documents of a token file, each of their sentences as a text of its own."""

    tokens: TokenFile
    starts: NDArray[np.int64]  # [sentences]
    ends: NDArray[np.int64]  # [sentences]

    @classmethod
    def of(cls, tokens: TokenFile, documents: NDArray[np.int64], separator: int) -> Sentences:
        """The sentences of the named documents of a `SentenceCorpus`; the separator stands between two."""
        limits = np.stack((tokens.starts[documents], tokens.starts[documents + 1]), axis=1)
        cuts = np.flatnonzero(np.asarray(tokens.ids) == separator)
        first, last = np.searchsorted(cuts, limits[:, 0]), np.searchsorted(cuts, limits[:, 1])
        inside = [cuts[a:b] for a, b in zip(first, last, strict=True)]
        starts = np.concatenate([np.r_[low, own + 1] for (low, _), own in zip(limits, inside, strict=True)])
        ends = np.concatenate([np.r_[own, high] for (_, high), own in zip(limits, inside, strict=True)])
        long_enough = ends - starts >= SHORTEST
        if not long_enough.any():
            raise UsageError(
                f"corpus {tokens.name!r}: expected sentences of {SHORTEST} tokens and more, got none: leave "
                "it out of sentence_shares"
            )
        return cls(tokens, starts[long_enough], ends[long_enough])

    def lengths(self) -> NDArray[np.int64]:
        """The number of tokens of every sentence."""
        return self.ends - self.starts

    def part(self, index: int, start: int, end: int) -> NDArray[np.int64]:
        """Some tokens of a sentence."""
        first = self.starts[index]
        return np.asarray(self.tokens.ids[first + start : first + end], dtype=np.int64)
