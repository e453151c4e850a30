"""`unmask.score_mutants`: how much likelier a model finds mutants of a sequence than the sequence itself.

The scores themselves are in `unmask.inference.mutant_scorers`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, overload

from unmask.errors import UsageError
from unmask.inference.mutant_scorers import Effect, effects_of
from unmask.inference.mutations import Mutant, Scoring, check_scoring, check_sequence, parse_mutants
from unmask.inference.query import check_progress
from unmask.inference.wild_type import WildType
from unmask.lazy import require
from unmask.models.in_memory import check_mlm
from unmask.models.load import load
from unmask.models.masked_lm import MaskedLM
from unmask.progress import Progress, silent
from unmask.values import Real, Several

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class MutantRow:
    """The score of a mutant; above 0 the model prefers it to the wild type."""

    mutant: str
    mutations: int
    score: float
    additive: float
    """The sum of the scores of its mutations, each alone."""
    epistasis: float
    """The score less that sum."""
    measured: float | None = None


class MutantScores(Sequence[MutantRow]):
    """The scores of mutants, a row each."""

    def __init__(self, rows: Sequence[MutantRow], *, scoring: str, model: str) -> None:
        self._rows, self.scoring, self.model = tuple(rows), scoring, model

    @overload
    def __getitem__(self, index: int) -> MutantRow: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[MutantRow]: ...
    def __getitem__(self, index: int | slice) -> MutantRow | Sequence[MutantRow]:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"<MutantScores: {self.scoring} of '{self.model}', {len(self)} mutants>"

    def by_mutations(self) -> list[dict[str, Any]]:
        """Return, for each number of mutations and for all mutants (None), means and Spearman's correlation.

        The correlation is that of the scores with what was measured, None if nothing was.
        """
        counts = sorted({row.mutations for row in self})
        found = []
        for count in [*counts, None] if len(counts) > 1 else counts:
            rows = [row for row in self if count is None or row.mutations == count]
            measured = [row.measured for row in rows if row.measured is not None]
            found.append(
                {
                    "mutations": count,
                    "mutants": len(rows),
                    "score": math.fsum(row.score for row in rows) / len(rows),
                    "epistasis": math.fsum(row.epistasis for row in rows) / len(rows),
                    "spearman": spearman([row.score for row in rows], measured) if measured else None,
                }
            )
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        rows = [asdict(row) for row in self]
        return {
            "model": self.model,
            "scoring": self.scoring,
            "by_mutations": self.by_mutations(),
            "rows": rows,
        }

    def to_pandas(self) -> pandas.DataFrame:
        """Return a table, one row per mutant."""
        require("to_pandas", "tables", "pandas")
        import pandas

        return pandas.DataFrame([asdict(row) for row in self])


def score_mutants(
    sequence: str,
    mutants: str | Sequence[str],
    scoring: Scoring = "joint",
    *,
    measured: Sequence[float] | None = None,
    first: int = 1,
    method: str = "ag",
    mlm: MaskedLM | None = None,
    progress: Progress = silent,
) -> MutantScores:
    """Score mutants of a sequence: log-probability of the mutant less that of the wild type, in nats.

    Args:
        sequence: the wild type.
        mutants: one as `"A24G:K30R"`, or a list of different ones.
        scoring: `joint`, or a sum over sites: `wt-marginals`, `mutant-marginals`, `masked-marginals`,
            `wt-context`, `mutant-context`, `matched`, `pseudo-likelihood`.
        measured: what was measured of each mutant, to be ranked against the scores.
        first: the number of the sequence's first letter.
        method: the construction that joins two sites.
        mlm: a model that reads a letter as a token, such as ESM.
        progress: told of the mutants.
    """
    check_scoring(scoring, method)
    check_progress(progress)
    sequence = check_sequence(sequence)
    parsed = parse_mutants(mutants, sequence, first)
    values = _check_measured(measured, len(parsed))
    mlm = load() if mlm is None else check_mlm(mlm)
    wild = WildType.read(mlm, sequence, {letter for mutant in parsed for letter in mutant.letters})
    effects = effects_of(wild, parsed, scoring, method=method, progress=progress)
    rows = list(map(row_of, parsed, effects, values))
    return MutantScores(rows, scoring=scoring, model=mlm.name)


MEASURED_VALUES = Several(Real(), "finite numbers, one per mutant (leave out mutants without one)")


def _check_measured(measured: Sequence[float] | None, mutants: int) -> list[float | None]:
    if measured is None:
        return [None] * mutants
    values: list[float | None] = list(MEASURED_VALUES.check("measured", measured))
    if len(values) != mutants:
        raise UsageError(f"expected one measured value per mutant, got {len(values)} for {mutants} mutants")
    return values


def row_of(mutant: Mutant, effect: Effect, measured: float | None = None) -> MutantRow:
    """Return the row of a mutant."""
    epistasis = effect.score - effect.additive
    return MutantRow(mutant.name, len(mutant), effect.score, effect.additive, epistasis, measured)


def spearman(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Return Spearman's rank correlation; None if one of the two does not vary."""
    from scipy.stats import spearmanr

    if len(one) < 2 or min(one) == max(one) or min(other) == max(other):
        return None
    return float(spearmanr(one, other).statistic)
