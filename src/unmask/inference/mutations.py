"""Mutants of a sequence as people write them: `A24G:K30R` turns A at 24 into G, and K at 30 into R.

That is the notation of ESM and ProteinGym. Letters are numbered from 1, or from `first` on. Nothing heavy is
imported here: what can't be is refused before a model is opened.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from unmask.errors import UsageError
from unmask.inference.method_names import construction_names
from unmask.text.lines import read_lines
from unmask.values import Whole, check_method, shown

Scoring = Literal[
    "joint",
    "wt-marginals",
    "mutant-marginals",
    "masked-marginals",
    "wt-context",
    "mutant-context",
    "matched",
    "pseudo-likelihood",
]
SCORINGS: tuple[Scoring, ...] = get_args(Scoring)
"""What each means is in `unmask.inference.mutant_scorers`."""
MEASURED = ("DMS_score", "fitness")
"""The columns that may hold what was measured."""
MUTATION = re.compile(r"([A-Z])(-?\d+)([A-Z])")


@dataclass(frozen=True)
class Mutant:
    """Mutations as places in the sequence, numbered from 0 and ascending, and the new letter of each."""

    name: str
    places: tuple[int, ...]
    letters: str

    def __len__(self) -> int:
        return len(self.places)


def check_scoring(scoring: str, method: str) -> None:
    """Refuse a scoring or a construction that there is not."""
    if not isinstance(scoring, str) or scoring not in SCORINGS:
        raise UsageError(f"unknown scoring {shown(scoring)}: expected one of {', '.join(SCORINGS)}")
    check_method(method, construction_names())


def check_scorings(scorings: Sequence[str], method: str) -> None:
    """Refuse scores that there are not, or one that is asked for twice."""
    for scoring in scorings:
        check_scoring(scoring, method)
    if len(set(scorings)) < len(scorings):
        raise UsageError(f"expected different scores, got {', '.join(scorings)}")


def check_sequence(sequence: Any) -> str:
    """Return a sequence in capital letters; refuse what is not made of letters."""
    if not isinstance(sequence, str) or not (sequence.isascii() and sequence.isalpha()):
        raise UsageError(f"expected the wild type as a string of letters, got {str(sequence)[:40]!r}")
    return sequence.upper()


def check_first(first: Any) -> int:
    """Return the number of a sequence's first letter."""
    found: int = Whole(-(10**6), 10**6).check("first", first)
    return found


def parse_mutant(name: str, sequence: str, first: int = 1) -> Mutant:
    """Read a mutant of a sequence whose letters are numbered from `first` on."""
    found: dict[int, str] = {}
    for part in name.strip().split(":"):
        match = MUTATION.fullmatch(part)
        if match is None:
            raise UsageError(f"expected mutations as A24G:K30R, got '{name}'")
        old, number, new = match.group(1), int(match.group(2)), match.group(3)
        place = number - first
        if not 0 <= place < len(sequence):
            raise UsageError(
                f"{part}: the wild type has no position {number}, its letters are numbered from {first} to "
                f"{first + len(sequence) - 1}: check the sequence and the number of its first letter"
            )
        if sequence[place] != old:
            raise UsageError(
                f"{part} says {old} at {number}, where the wild type has {sequence[place]}: check the "
                f"sequence and the number of its first letter"
            )
        if new == old:
            raise UsageError(f"{part} changes nothing: leave it out")
        if place in found:
            raise UsageError(f"two mutations at one position, '{name}': keep one of them")
        found[place] = new
    places = tuple(sorted(found))
    return Mutant(name.strip(), places, "".join(found[place] for place in places))


def parse_mutants(names: Any, sequence: str, first: int = 1) -> list[Mutant]:
    """Read a mutant, or a list of different ones."""
    given, first = [names] if isinstance(names, str) else names, check_first(first)
    if isinstance(given, dict) or not hasattr(given, "__iter__") or getattr(given, "ndim", 1) == 0:
        raise UsageError(f"expected a mutant as A24G:K30R or a list of them, got {type(names).__name__}")
    mutants: list[Mutant] = []
    for name in given:
        if not isinstance(name, str):
            raise UsageError(f"mutant {len(mutants) + 1}: expected a string, got {type(name).__name__}")
        mutants.append(parse_mutant(name, sequence, first))
    if not mutants:
        raise UsageError("expected at least one mutant, got an empty list")
    check_different(mutants)
    return mutants


def read_mutants(path: Path, sequence: str, first: int = 1) -> tuple[list[Mutant], list[float] | None]:
    """Read a table of mutants, comma- or tab-separated, and what was measured of them, if that is there.

    The column `mutant` names them, `DMS_score` (ProteinGym's name) or `fitness` has what was measured.
    """
    if not path.is_file():
        raise UsageError(f"the file of mutants is not there: {path}")
    lines = [line for _, line in read_lines(path)]
    header = lines[0] if lines else ""
    rows = csv.DictReader(lines, delimiter="\t" if "\t" in header else ",", restval="")
    mutants: list[Mutant] = []
    values: list[float] = []
    try:
        columns = rows.fieldnames or ()
        if "mutant" not in columns:
            raise UsageError(
                f"{path}: expected a column mutant, and fitness or DMS_score if measured, got "
                f"{header.strip() or 'an empty file'}: name them so in the first line"
            )
        column = next((name for name in MEASURED if name in columns), None)
        for row in rows:
            try:
                mutants.append(parse_mutant(row["mutant"], sequence, first))
                values += [] if column is None else [_number(row[column], column)]
            except UsageError as error:
                raise UsageError(f"{path}, line {rows.line_num}: {error}") from None
    except csv.Error as error:
        raise UsageError(f"{path}, line {rows.line_num + 1}: expected a mutant per row ({error})") from None
    if not mutants:
        raise UsageError(f"{path} has no mutants: expected one per row")
    check_different(mutants)
    return mutants, None if column is None else values


def _number(text: str, column: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"expected a number as {column}, got '{text}'")
    return value


def check_different(mutants: Iterable[Mutant]) -> None:
    """Refuse a mutant that stands twice in a list, however its mutations are ordered."""
    known: dict[tuple[tuple[int, ...], str], str] = {}
    for mutant in mutants:
        changes = (mutant.places, mutant.letters)
        if changes in known:
            raise UsageError(f"'{known[changes]}' and '{mutant.name}' are the same mutant: keep one of them")
        known[changes] = mutant.name
