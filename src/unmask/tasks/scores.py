"""Scores: accuracy and F1 by class, and precision, recall and F1 of entities by type.

An entity is right if its first token, its last token and its type are. F1 of all types together counts
every entity once (micro); the macro mean counts every type once. What is 0/0 is 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from unmask.tasks.schemes import entities


@dataclass(frozen=True)
class Counts:
    """How many there are, how many were found, and how many of these are right."""

    true: int
    found: int
    right: int

    @property
    def precision(self) -> float:
        """The share of what was found that is right."""
        return self.right / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        """The share of what is there that was found."""
        return self.right / self.true if self.true else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of both."""
        return 2 * self.right / (self.true + self.found) if self.true + self.found else 0.0

    def record(self) -> dict[str, Any]:
        """The numbers by name."""
        return {"precision": self.precision, "recall": self.recall, "f1": self.f1, "support": self.true}


@dataclass(frozen=True)
class Scores:
    """The leading numbers, and those of each class or type."""

    overall: dict[str, float]
    by_label: dict[str, dict[str, Any]]
    examples: int

    def record(self) -> dict[str, Any]:
        """All of it as JSON knows it."""
        return asdict(self)


def class_scores(true: Sequence[str], given: Sequence[str]) -> Scores:
    """Score one label an example."""
    table = _counts(true, given)
    right = sum(a == b for a, b in zip(true, given, strict=True))
    overall = {"accuracy": right / max(len(true), 1), "macro_f1": _macro(table)}
    return Scores(overall, _records(table), len(true))


def token_scores(true: Sequence[Sequence[str]], given: Sequence[Sequence[str]]) -> Scores:
    """Score tags without a scheme, such as parts of speech, token by token."""
    flat_true = [tag for tags in true for tag in tags]
    flat_given = [tag for tags in given for tag in tags]
    scores = class_scores(flat_true, flat_given)
    return Scores(scores.overall, scores.by_label, len(true))


def entity_scores(true: Sequence[Sequence[str]], given: Sequence[Sequence[str]]) -> Scores:
    """Score entities in any scheme, broken sequences included."""
    count: dict[str, Counter[str]] = {name: Counter() for name in ("true", "found", "right")}
    tokens = right_tokens = 0
    for tags, guess in zip(true, given, strict=True):
        there, said = set(entities(tags)), set(entities(guess))
        for name, some in (("true", there), ("found", said), ("right", there & said)):
            count[name].update(entity.type for entity in some)
        tokens += len(tags)
        right_tokens += sum(a == b for a, b in zip(tags, guess, strict=True))
    types = sorted(set(count["true"]) | set(count["found"]))
    table = {kind: Counts(count["true"][kind], count["found"][kind], count["right"][kind]) for kind in types}
    total = Counts(*(count[name].total() for name in ("true", "found", "right")))
    overall = {
        "f1": total.f1,
        "precision": total.precision,
        "recall": total.recall,
        "macro_f1": _macro(table),
        "token_accuracy": right_tokens / max(tokens, 1),
    }
    return Scores(overall, _records(table), len(true))


def _counts(true: Iterable[str], given: Iterable[str]) -> dict[str, Counts]:
    pairs = list(zip(true, given, strict=True))
    there, said = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    right = Counter(a for a, b in pairs if a == b)
    return {label: Counts(there[label], said[label], right[label]) for label in sorted(there | said)}


def _macro(table: Mapping[str, Counts]) -> float:
    return sum(counts.f1 for counts in table.values()) / max(len(table), 1)


def _records(table: Mapping[str, Counts]) -> dict[str, dict[str, Any]]:
    return {label: counts.record() for label, counts in table.items()}
