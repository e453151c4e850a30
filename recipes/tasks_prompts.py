"""Labels as phrases of two tokens in a prompt, without training.

Where labels share their words (`very good` and `not bad` against `very bad` and `not good`), what tells them
apart is how the two blanks go together. The score of a label is the log-probability of its phrases among all
pairs of words. Zero-shot prompts lean towards one label, whatever the text; the area under the ROC curve
(AUC) does not depend on that, accuracy does.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata

import unmask
from unmask.errors import UsageError
from unmask.evaluation.keyed_tasks import Record, Task
from unmask.inference.infer import conditionals_of_many
from unmask.inference.query import Query
from unmask.joints.registry import construct
from unmask.tables.pair_conditionals import PairConditionals
from unmask.tasks.files import Columns, read_examples
from unmask.text.cloze import parse_blanks

LONGEST = 96
"""Tokens of a prompt with its text."""
CANDIDATES = 64
"""Tokens of each blank that `ag` asks the model about, the words of the labels among them."""
METHODS = {
    "independent": "independent",
    "l2r": "`l2r`",
    "r2l": "`r2l`",
    "ag": "`ag`",
    "ag-0": "`ag` (one pass)",
}
Labels = tuple[tuple[str, ...], tuple[str, ...]]
"""The phrases of the positive label, and those of the other."""


@dataclass(frozen=True)
class Prompts:
    """A task as prompts: where its texts are, what the prompts say, and which phrases stand for a label."""

    file: str
    pairs: bool
    classes: tuple[str, str]
    texts: tuple[str, ...]
    labels: Mapping[str, Labels]

    @property
    def positive(self) -> str:
        """The label of the first phrases."""
        return self.classes[0]

    @property
    def phrases(self) -> list[str]:
        """Every phrase, once."""
        sides = [side for labels in self.labels.values() for side in labels]
        return list(dict.fromkeys(phrase for side in sides for phrase in side))


PROMPTS = {
    "sentiment": Prompts(
        "sentiment/dev.tsv",
        pairs=False,
        classes=("positive", "negative"),
        texts=("{0} it was [MASK] [MASK].", "the film is [MASK] [MASK]. {0}"),
        labels={
            "very good / very bad": (("very good",), ("very bad",)),
            "not bad / not good": (("not bad",), ("not good",)),
            "very good, not bad / very bad, not good": (
                ("very good", "not bad"),
                ("very bad", "not good"),
            ),
        },
    ),
    "rte": Prompts(
        "pairs/rte-dev.tsv",
        pairs=True,
        classes=("entailment", "not_entailment"),
        texts=("{0} [MASK] [MASK], {1}",),
        labels={
            "of course / not really": (("of course",), ("not really",)),
            "yes indeed / no way": (("yes indeed",), ("no way",)),
        },
    ),
}


def prompt_tasks(
    part: str, mlm: unmask.MaskedLM, data: Path, count: int
) -> tuple[list[Task], dict[str, int]]:
    """Draw texts of the two classes, as many of each, and put them into every prompt of a task."""
    task = PROMPTS[part]
    examples = read_examples(data / task.file, pairs=task.pairs, columns=Columns(), labelled=True)
    wanted = dict.fromkeys(task.classes, count // 2)
    tasks: list[Task] = []
    left = {"too long": 0}
    for n in random.Random(f"prompts {part}").sample(range(len(examples)), len(examples)):
        example = examples[n]
        if not wanted.get(example.label or "", 0):
            continue
        ended = [text.rstrip(" .") + "." for text in example.texts]
        texts = {prompt: prompt.format(*ended) for prompt in task.texts}
        if not all(fits(text, mlm) for text in texts.values()):
            left["too long"] += 1
            continue
        wanted[str(example.label)] -= 1
        tasks += [
            {"key": f"{n}:{i}", "prompt": prompt, "text": text, "label": example.label}
            for i, (prompt, text) in enumerate(texts.items())
        ]
    return tasks, left


def fits(text: str, mlm: unmask.MaskedLM) -> bool:
    """Whether a text has two blanks and is short enough."""
    try:
        cloze = parse_blanks(text, mlm.vocabulary, mlm.window)
    except UsageError:
        return False
    return len(cloze.blanks) == 2 and len(cloze.ids) <= LONGEST


class PromptScorer:
    """Scores the phrases of a task in its prompts by every method."""

    def __init__(self, mlm: unmask.MaskedLM, part: str) -> None:
        self.mlm = mlm
        self.phrases = {phrase: tuple(phrase.split()) for phrase in PROMPTS[part].phrases}
        named = tuple(dict.fromkeys(word for words in self.phrases.values() for word in words))
        self._asked = Query(include=named, candidates=CANDIDATES)
        self._guessed = Query(include=named, candidates=0)

    @torch.inference_mode()
    def __call__(self, tasks: list[Task]) -> list[Record]:
        """Return the log-probability of every phrase by method; all but the last from the same passes."""
        clozes = [parse_blanks(task["text"], self.mlm.vocabulary, self.mlm.window) for task in tasks]
        asked = conditionals_of_many(self.mlm, clozes, self._asked)
        guessed = conditionals_of_many(self.mlm, clozes, self._guessed)
        return [
            task | {"scores": self._by_method(table, guess)}
            for task, table, guess in zip(tasks, asked, guessed, strict=True)
        ]

    def _by_method(self, asked: Any, guessed: Any) -> dict[str, dict[str, float]]:
        return {
            "independent": self._scores("product", asked),
            **{method: self._scores(method, asked) for method in ("l2r", "r2l", "ag")},
            "ag-0": self._scores("ag", guessed),
        }

    def _scores(self, method: str, table: Any) -> dict[str, float]:
        assert isinstance(table, PairConditionals)
        joint = construct(method, table)
        return {phrase: float(joint.log_prob(list(words))) for phrase, words in self.phrases.items()}


def margins(scores: Mapping[str, float], labels: Labels) -> float:
    """Return the log-odds of the first label: the log-probability of its phrases less that of the others'."""
    first, second = (np.logaddexp.reduce([scores[phrase] for phrase in side]) for side in labels)
    return float(first - second)


def auc(scores: NDArray[np.float64], positive: NDArray[np.bool_]) -> float:
    """Return the chance that a positive example has a higher score than a negative one; ties count half."""
    hits, misses = int(positive.sum()), int((~positive).sum())
    ranks = rankdata(scores)
    return float((ranks[positive].sum() - hits * (hits + 1) / 2) / (hits * misses))
