"""Scores: accuracy and F1 by class (scikit-learn), precision, recall and F1 of entities by type (seqeval).

An entity is right if its first token, its last token and its type are; broken sequences are read as the
CoNLL-2000 scorer reads them, which is seqeval's default mode. F1 of all types together counts every entity
once (micro); the macro mean counts every type once. What is 0/0 is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from unmask.lazy import require

NAMES = ("precision", "recall", "f1", "support")


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
    """Score one label per example."""
    require_metrics()
    from sklearn.metrics import precision_recall_fscore_support

    labels = sorted({*true, *given})
    table = precision_recall_fscore_support(true, given, labels=labels, zero_division=0) if labels else ()
    by_label = _by_label(labels, table)
    right = sum(a == b for a, b in zip(true, given, strict=True))
    overall = {"accuracy": right / max(len(true), 1), "macro_f1": _macro(by_label)}
    return Scores(overall, by_label, len(true))


def token_scores(true: Sequence[Sequence[str]], given: Sequence[Sequence[str]]) -> Scores:
    """Score tags without a scheme, such as parts of speech, token by token."""
    flat_true = [tag for tags in true for tag in tags]
    flat_given = [tag for tags in given for tag in tags]
    scores = class_scores(flat_true, flat_given)
    return Scores(scores.overall, scores.by_label, len(true))


def entity_scores(true: Sequence[Sequence[str]], given: Sequence[Sequence[str]]) -> Scores:
    """Score entities in any scheme, broken sequences included."""
    require_metrics()
    from seqeval.metrics.sequence_labeling import (
        accuracy_score,
        get_entities,
        precision_recall_fscore_support,
    )

    true, given = [list(tags) for tags in true], [list(tags) for tags in given]
    types = sorted({kind for tags in (*true, *given) for kind, _, _ in get_entities(tags)})
    by_label, micro = {}, (0.0, 0.0, 0.0, 0)
    if types:
        by_label = _by_label(types, precision_recall_fscore_support(true, given, zero_division=0))
        micro = precision_recall_fscore_support(true, given, average="micro", zero_division=0)
    overall = {
        "f1": float(micro[2]),
        "precision": float(micro[0]),
        "recall": float(micro[1]),
        "macro_f1": _macro(by_label),
        "token_accuracy": float(accuracy_score(true, given)) if any(true) else 0.0,
    }
    return Scores(overall, by_label, len(true))


def require_metrics() -> None:
    """Refuse to score without seqeval, which brings scikit-learn."""
    require("scoring", "train", "seqeval")


def _by_label(labels: Sequence[str], table: Any) -> dict[str, dict[str, Any]]:
    """Return the numbers of each label, from columns [labels] by name."""
    rows = zip(labels, *(np.asarray(column).tolist() for column in table), strict=True)
    return {label: dict(zip(NAMES, numbers, strict=True)) for label, *numbers in rows}


def _macro(by_label: dict[str, dict[str, Any]]) -> float:
    return float(sum(row["f1"] for row in by_label.values()) / max(len(by_label), 1))
