"""BLiMP: is the grammatical sentence of a minimal pair the likelier one? (Warstadt et al. 2020)

A directory of `.jsonl` files (or `.jsonl.gz`), a pair a line with the fields `sentence_good`, `sentence_bad`,
`UID` and `linguistics_term`. A score is right on a pair if it gives the good sentence more; a tie is half
right. Accuracy is told for each phenomenon (`linguistics_term`) and over all pairs.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unmask.errors import Misuse
from unmask.progress import Progress, silent
from unmask.records import Records
from unmask.sequence.benchmarks.intervals import share
from unmask.sequence.files import Scorer, ScoreSettings, make_scorer

PAIRS_AT_ONCE = 16
FIELDS = ("sentence_good", "sentence_bad", "UID", "linguistics_term")


def read_pairs(directory: Path, examples: int | None, seed: int) -> Iterator[dict[str, Any]]:
    """Go through the pairs of every file, or through so many of each, drawn at random."""
    files = sorted([*directory.glob("*.jsonl"), *directory.glob("*.jsonl.gz")])
    if not files:
        raise Misuse(f"expected a directory with BLiMP's .jsonl files, and {directory} has none")
    for path in files:
        text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        lines = [line for line in text.decode("utf-8").splitlines() if line.strip()]
        kept = list(range(len(lines)))
        if examples is not None and examples < len(lines):
            kept = sorted(random.Random(f"{seed} {path.name}").sample(kept, examples))
        for number in kept:
            try:
                pair = json.loads(lines[number])
                found = {field: pair[field] for field in FIELDS}
            except (ValueError, KeyError, TypeError):
                raise Misuse(
                    f"{path}, line {number + 1}: expected a JSON object with {', '.join(FIELDS)}"
                ) from None
            yield {"key": f"{path.name}:{number + 1}", **found}


def run_blimp(
    directory: Path,
    settings: ScoreSettings,
    *,
    examples: int | None = None,
    seed: int = 0,
    out: Path | None = None,
    scorer: Scorer | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Score every pair and return the accuracies; with `out`, a killed run goes on where it was."""
    settings.check()
    pairs = list(read_pairs(directory, examples, seed))
    records = None if out is None else Records.open(out)
    try:
        done = {} if records is None else {r["key"]: r for r in records}
        _check_scores_of(done, settings, out)
        todo = [pair for pair in pairs if pair["key"] not in done]
        work = scorer or (make_scorer(settings) if todo else None)
        chunks = [todo[i : i + PAIRS_AT_ONCE] for i in range(0, len(todo), PAIRS_AT_ONCE)]
        for chunk in progress.over(chunks, total=len(todo), size=len, stage="pairs"):
            assert work is not None
            texts = [text for pair in chunk for text in (pair["sentence_good"], pair["sentence_bad"])]
            scored = work(list(enumerate(texts)))
            for n, pair in enumerate(chunk):
                good, bad = (_totals(scored[2 * n + i]) for i in (0, 1))
                record = {
                    **{f: pair[f] for f in ("key", "UID", "linguistics_term")},
                    "good": good,
                    "bad": bad,
                }
                done[pair["key"]] = record
                if records is not None:
                    records.append(record)
    finally:
        if records is not None:
            records.close()
    return summary([done[pair["key"]] for pair in pairs], settings)


def summary(records: list[dict[str, Any]], settings: ScoreSettings) -> dict[str, Any]:
    """Return the accuracy of every score, by phenomenon and over all."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        groups.setdefault(record["linguistics_term"], []).append(record)
    groups = dict(sorted(groups.items())) | {"all": records}
    return {
        "benchmark": "blimp",
        "model": settings.model,
        "pairs": len(records),
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
    if record["good"] is None or record["bad"] is None:
        return 0.5
    good, bad = record["good"][name], record["bad"][name]
    return 0.5 if good == bad else float(good > bad)


def _check_scores_of(done: dict[str, Any], settings: ScoreSettings, out: Path | None) -> None:
    for record in done.values():
        if record["good"] is not None and set(record["good"]) != set(settings.scores):
            raise Misuse(f"{out} holds other scores than {', '.join(settings.scores)}: give another --out")
        return
