"""BLiMP: is the grammatical sentence of a minimal pair the likelier one? (Warstadt et al. 2020)

A directory of `.jsonl` files (or `.jsonl.gz`), a pair per line with `sentence_good`, `sentence_bad`, `UID`
and `linguistics_term`. A score is right on a pair if it gives the good sentence more; a tie is half
right. Accuracy is told for each phenomenon (`linguistics_term`) and over all pairs. Pairs of which a sentence
can't be scored (it is empty, longer than the model's window, or has a blank) are left out and counted.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any, Unpack

from unmask.errors import UsageError
from unmask.evaluation.intervals import share
from unmask.evaluation.keyed_tasks import Record, Task, run_tasks
from unmask.evaluation.score_file import Scorer, ScoreSettings, make_scorer
from unmask.models.embedded import absolute
from unmask.runs.run import Spread
from unmask.runs.settings_record import RunKind
from unmask.text.lines import read_objects

BLIMP = RunKind("BLiMP benchmark")
PAIRS_AT_ONCE = 32
FIELDS = ("sentence_good", "sentence_bad", "UID", "linguistics_term")


def read_pairs(directory: Path, examples: int | None, seed: int) -> Iterator[dict[str, Any]]:
    """Go through the pairs of every file, or through so many of each, drawn at random."""
    files = sorted([*directory.glob("*.jsonl"), *directory.glob("*.jsonl.gz")])
    if not files:
        raise UsageError(f"expected a directory with BLiMP's .jsonl files, and {directory} has none")
    for path in files:
        pairs = list(read_objects(path))
        if not pairs:
            raise UsageError(
                f"{path} holds no pair: expected a JSON object with {', '.join(FIELDS)} per line"
            )
        if examples is not None and examples < len(pairs):
            chosen = random.Random(f"{seed} {path.name}").sample(pairs, examples)
            pairs = sorted(chosen, key=itemgetter(0))
        for number, pair in pairs:
            if not all(isinstance(pair.get(field), str) for field in FIELDS):
                raise UsageError(
                    f"{path}, line {number}: expected a JSON object with {', '.join(FIELDS)}, each of them a "
                    "text"
                )
            yield {"key": f"{path.name}:{number}", **{field: pair[field] for field in FIELDS}}


class PairScorer:
    """Scores both sentences of pairs: what turns pairs into records."""

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer

    def __call__(self, pairs: list[Task]) -> list[Record]:
        """Return the totals of the good and of the bad sentence of every pair."""
        texts = [text for pair in pairs for text in (pair["sentence_good"], pair["sentence_bad"])]
        totals = [_totals(record) for record in self._scorer(list(enumerate(texts)))]
        return [
            {**pair, "good": good, "bad": bad}
            for pair, good, bad in zip(pairs, totals[::2], totals[1::2], strict=True)
        ]


def run_blimp(
    directory: Path,
    settings: ScoreSettings,
    *,
    examples: int | None = None,
    seed: int = 0,
    out: Path | None = None,
    scorer: Scorer | None = None,
    **spread: Unpack[Spread],
) -> dict[str, Any]:
    """Score every pair and return the accuracies; with `out`, a killed run is resumed.

    Args:
        directory: the `.jsonl` files, gzipped or not.
        settings: what to score by.
        examples: so many pairs of each file; all by default.
        seed: of their choice.
        out: the file of records.
        scorer: what scores lines; by default one with the model of the settings.
        spread: `ray`, `workers` and `progress`, as for `unmask.runs.run.Run.work`.
    """
    settings.check()
    there = replace(settings, model=absolute(settings.model))
    records = run_tasks(
        BLIMP,
        list(read_pairs(directory, examples, seed)),
        lambda: PairScorer(scorer or make_scorer(there)),
        settings.to_dict(),
        batch=PAIRS_AT_ONCE,
        out=out,
        stage="pairs",
        **spread,
    )
    return summary(records, settings)


def summary(records: list[dict[str, Any]], settings: ScoreSettings) -> dict[str, Any]:
    """Return the accuracy of every score, by phenomenon and over all."""
    groups: dict[str, list[dict[str, Any]]] = {r["linguistics_term"]: [] for r in records}
    scored = [r for r in records if r["good"] is not None and r["bad"] is not None]
    for record in scored:
        groups[record["linguistics_term"]].append(record)
    groups = dict(sorted(groups.items())) | {"all": scored}
    return {
        "benchmark": "blimp",
        "model": settings.model,
        "pairs": len(scored),
        "not_scored": len(records) - len(scored),
        "accuracy": {
            term: {
                name: share(sum(_right(r, name) for r in members), len(members))._asdict()
                for name in settings.scores
            }
            | {"pairs": len(members)}
            for term, members in groups.items()
        },
    }


def _totals(record: dict[str, Any]) -> dict[str, float] | None:
    return None if record["scores"] is None else {n: s["log_prob"] for n, s in record["scores"].items()}


def _right(record: dict[str, Any], name: str) -> float:
    good, bad = record["good"][name], record["bad"][name]
    return 0.5 if good == bad else float(good > bad)
