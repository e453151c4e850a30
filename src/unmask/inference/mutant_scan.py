"""`unmask.scan_mutants`: all combinations of letters at chosen sites, scored as they are gone through.

The combinations are made and scored some thousand at a time and not kept, so that 20^5 of them take no more
memory than 20^2. By `joint` they all have the joint of all chosen sites.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product
from typing import TYPE_CHECKING, Any

from unmask.errors import UsageError
from unmask.inference.mutant_scorers import ContextScorer, JointScorer
from unmask.inference.mutant_scores import MutantRow, MutantScores, row_of
from unmask.inference.mutations import Mutant, Scoring, check_first, check_scoring, check_sequence
from unmask.inference.query import check_progress
from unmask.inference.wild_type import WildType
from unmask.joints.fillings import whole_number
from unmask.models.in_memory import check_mlm
from unmask.models.load import load
from unmask.models.masked_lm import MaskedLM
from unmask.progress import Progress, silent
from unmask.values import plural, shown

if TYPE_CHECKING:
    import pandas

COMBINATIONS_AT_ONCE = 4096
MOST_COMBINATIONS = 20_000_000


class MutantScan:
    """All combinations of letters at some sites but the wild type's own.

    Iterating scores them one after the other, the last site changing fastest; nothing is kept. `top` goes
    through all and keeps the best.
    """

    def __init__(
        self,
        wild: WildType,
        letters: Mapping[int, str],
        *,
        first: int = 1,
        scoring: Scoring = "joint",
        method: str = "ag",
        progress: Progress = silent,
    ) -> None:
        """`letters` are those that are tried at each place."""
        self._wild, self._first = wild, first
        self._places = tuple(sorted(letters))
        self._letters = tuple(letters[place] for place in self._places)
        self.scoring, self._method, self._progress = scoring, method, progress

    def __len__(self) -> int:
        wild = all(
            self._wild.sequence[place] in letters
            for place, letters in zip(self._places, self._letters, strict=True)
        )
        return math.prod(len(letters) for letters in self._letters) - wild

    def __repr__(self) -> str:
        sites = plural(len(self._places), "site")
        return f"<MutantScan: {self.scoring} of '{self._wild.mlm.name}', {len(self):,} mutants at {sites}>"

    def __iter__(self) -> Iterator[MutantRow]:
        old = "".join(self._wild.sequence[place] for place in self._places)
        score = (
            JointScorer(self._wild, self._places, self._method)
            if self.scoring == "joint"
            else ContextScorer(self._wild, self.scoring)
        )
        combinations = ("".join(each) for each in product(*self._letters))
        mutated = (each for each in combinations if each != old)
        self._progress.started("combinations", len(self))
        try:
            while part := list(islice(mutated, COMBINATIONS_AT_ONCE)):
                mutants = [self._mutant(each) for each in part]
                effects = score(part) if isinstance(score, JointScorer) else score(mutants)
                yield from map(row_of, mutants, effects)
                self._progress.advanced(len(part))
        finally:
            self._progress.finished()

    def top(self, k: int = 10) -> MutantScores:
        """Return the k mutants with the highest scores, best first."""
        best = heapq.nlargest(whole_number(k, "a number of mutants", 1), self, key=lambda row: row.score)
        return MutantScores(best, scoring=self.scoring, model=self._wild.mlm.name)

    def to_dict(self, top: int = 10) -> dict[str, Any]:
        """Return the best mutants as plain data for JSON."""
        return self.top(top).to_dict()

    def to_pandas(self, top: int = 10) -> pandas.DataFrame:
        """Return the best mutants as a table."""
        return self.top(top).to_pandas()

    def _mutant(self, letters: str) -> Mutant:
        sequence = self._wild.sequence
        changed = [(p, new) for p, new in zip(self._places, letters, strict=True) if new != sequence[p]]
        name = ":".join(f"{sequence[place]}{place + self._first}{new}" for place, new in changed)
        return Mutant(name, tuple(place for place, _ in changed), "".join(new for _, new in changed))


def scan_mutants(
    sequence: str,
    sites: Sequence[int],
    *,
    targets: str | Sequence[str] | None = None,
    scoring: Scoring = "joint",
    first: int = 1,
    method: str = "ag",
    mlm: MaskedLM | None = None,
    progress: Progress = silent,
) -> MutantScan:
    """Score all combinations of letters at chosen sites.

    Args:
        sequence: the wild type.
        sites: the numbers of the positions, as in the names of mutants.
        targets: the letters that are tried, as `"ACDE"`: one string for all sites, or one per site. By
            default the 20 amino acids, those of them that the model knows.
        scoring: as in `score_mutants`.
        first: the number of the sequence's first letter.
        method: the construction that joins two sites.
        mlm: a model that reads a letter as a token, such as ESM.
        progress: told of the combinations.
    """
    check_scoring(scoring, method)
    check_progress(progress)
    sequence, first = check_sequence(sequence), check_first(first)
    places = _check_sites(sites, len(sequence), first)
    lists = _check_targets(targets, len(places))
    mlm = load() if mlm is None else check_mlm(mlm)
    wild = WildType.read(mlm, sequence, {letter for letters in lists for letter in letters})
    of_sites = {place: one or "".join(wild.letters) for place, one in zip(places, lists, strict=True)}
    scan = MutantScan(wild, of_sites, first=first, scoring=scoring, method=method, progress=progress)
    if not 0 < len(scan) <= MOST_COMBINATIONS:
        raise UsageError(
            f"expected sites and targets of 1 to {MOST_COMBINATIONS:,} mutants, got {len(scan):,}: give "
            + ("fewer of either" if len(scan) else "a target that is not the wild type's own letter")
        )
    return scan


def _check_sites(sites: Any, length: int, first: int) -> list[int]:
    if isinstance(sites, str | bytes) or not hasattr(sites, "__iter__") or getattr(sites, "ndim", 1) == 0:
        raise UsageError(f"expected sites as a list of numbers, got {sites!r}")
    numbers = [whole_number(site, "a site", first) for site in sites]
    if not numbers or len(set(numbers)) < len(numbers):
        raise UsageError(f"expected different sites, and at least one, got {numbers}")
    for number in numbers:
        if number - first >= length:
            raise UsageError(
                f"there is no site {number}: they are numbered from {first} to {first + length - 1}"
            )
    return [number - first for number in numbers]


def _check_targets(targets: Any, sites: int) -> list[str]:
    """Return the letters of each site, empty where the model's own are meant."""
    if targets is None:
        return [""] * sites
    if not isinstance(targets, str | list | tuple):
        raise UsageError(
            f"expected targets as letters such as 'ACDE', or a list of them, got {shown(targets)}"
        )
    given = [targets] * sites if isinstance(targets, str) else list(targets)
    if len(given) != sites:
        raise UsageError(f"expected targets for all sites, or for each of {sites}, got {len(given)}")
    for one in given:
        if not isinstance(one, str) or not (one.isascii() and one.isalpha()):
            raise UsageError(f"expected targets as a string of letters such as 'ACDE', got {one!r}")
        if len(set(one.upper())) < len(one):
            raise UsageError(f"expected targets that are all different, got '{one}'")
    return [one.upper() for one in given]
