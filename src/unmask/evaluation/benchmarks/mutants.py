"""Mutants: which score ranks mutants of a sequence as their measured fitness does?

Told is Spearman's correlation with fitness of each score (`unmask.inference.mutant_scorers`), by the number
of mutations and over all mutants.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unmask.errors import UsageError
from unmask.inference.mutant_scores import MutantScores, score_mutants
from unmask.inference.mutations import Scoring, check_scorings
from unmask.models.masked_lm import MaskedLM
from unmask.progress import Progress, silent

USUAL: tuple[Scoring, ...] = ("wt-context", "masked-marginals", "joint")


def run_mutants(
    mlm: MaskedLM,
    wild: str,
    mutants: Sequence[str],
    fitness: Sequence[float],
    scorings: Sequence[Scoring] = USUAL,
    *,
    first: int = 1,
    method: str = "ag",
    progress: Progress = silent,
) -> dict[str, Any]:
    """Score all mutants by each score and return the correlations with fitness."""
    check_scorings(scorings, method)
    if len(mutants) < 2:
        raise UsageError(f"expected at least two mutants to rank, got {len(mutants)}")
    found: dict[str, MutantScores] = {
        scoring: score_mutants(
            wild, mutants, scoring, measured=fitness, first=first, method=method, mlm=mlm, progress=progress
        )
        for scoring in scorings
    }
    tables = {scoring: scores.by_mutations() for scoring, scores in found.items()}
    return {
        "benchmark": "mutants",
        "model": mlm.name,
        "method": method,
        "mutants": len(mutants),
        "spearman": [
            {"mutations": row["mutations"], "mutants": row["mutants"]}
            | {scoring: table[n]["spearman"] for scoring, table in tables.items()}
            for n, row in enumerate(tables[scorings[0]])
        ],
        "scores": [
            {"mutant": name, "fitness": value} | {scoring: found[scoring][n].score for scoring in scorings}
            for n, (name, value) in enumerate(zip(mutants, fitness, strict=True))
        ],
    }
