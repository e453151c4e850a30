"""Mutants: does the joint of the mutated positions predict fitness better than a sum over them?

A file of mutants of one sequence with measured fitness, a row each with the columns `mutant` (`A23G:K45R`:
wild-type letter, position, new letter, a colon between mutations) and `fitness`; comma- or tab-separated. Two
scores of a mutant:

- *additive*, the masked marginals (Meier et al. 2021): sum over its mutations of log p(new) - log p(wild),
  the model seeing the wild type with all mutated positions masked;
- *joint*: log q(new letters) - log q(wild letters), q being the joint of the mutated positions: `ag` of the
  pair for two, the grid over all letters where its passes are affordable, the chain of pairs beyond that.

q is over the 20 amino acids, those of them that the model knows, and whatever other letters the sequence and
its mutants have: a model of DNA or RNA has its own.

Told is Spearman's correlation of each with fitness, over all mutants and by the number of mutations. Single
mutants, for which the two are the same, are left out.
"""

from __future__ import annotations

import csv
import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from unmask.errors import UsageError
from unmask.evaluation.intervals import spearman
from unmask.inference.exact import exact_conditionals
from unmask.inference.grid_conditionals import AFFORDABLE_PASSES, grid_conditionals, passes_of_grid
from unmask.inference.model_conditionals import ModelConditionals, independent_joint
from unmask.inference.sentences import Reader
from unmask.joints.chain import Chain
from unmask.joints.grid import GridJoint
from unmask.joints.joint import Joint
from unmask.joints.registry import construct
from unmask.models.masked_lm import MaskedLM
from unmask.progress import Progress, silent
from unmask.text.cloze import Cloze
from unmask.text.lines import read_lines
from unmask.text.support import Support

AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"
MUTATION = re.compile(r"^([A-Z])(\d+)([A-Z])$")


@dataclass(frozen=True)
class Mutant:
    """Mutations as (index into the sequence, new letter), and what was measured."""

    name: str
    places: tuple[int, ...]
    letters: str
    fitness: float


def read_mutants(path: Path, wild: str, first: int = 1) -> list[Mutant]:
    """Read the mutants of a sequence whose letters are numbered from `first` on."""
    if not path.is_file():
        raise UsageError(f"the file of mutants is not there: {path}")
    lines = [line for _, line in read_lines(path)]
    header = lines[0] if lines else ""
    rows = csv.DictReader(lines, delimiter="\t" if "\t" in header else ",", restval="")
    try:
        if not {"mutant", "fitness"} <= set(rows.fieldnames or ()):
            raise UsageError(
                f"{path}: expected the columns mutant and fitness, got {header.strip() or 'an empty file'}: "
                "name them so in the first line"
            )
        found = [_mutant(path, rows.line_num, row, wild, first) for row in rows]
    except csv.Error as error:
        raise UsageError(
            f"{path}, line {rows.line_num + 1}: expected a mutant and its fitness ({error})"
        ) from None
    kept = [m for m in found if len(m.places) > 1]
    if len(kept) < 2:
        raise UsageError(f"{path} has {len(kept)} mutants of two mutations or more: expected some to compare")
    return kept


def _mutant(path: Path, number: int, row: dict[str, str], wild: str, first: int) -> Mutant:
    places, letters = [], ""
    for part in row["mutant"].strip().split(":"):
        match = MUTATION.match(part)
        if match is None:
            raise UsageError(f"{path}, line {number}: expected mutations as A23G:K45R, got '{row['mutant']}'")
        place = int(match.group(2)) - first
        if not 0 <= place < len(wild) or wild[place] != match.group(1):
            here = wild[place] if 0 <= place < len(wild) else "nothing"
            raise UsageError(
                f"{path}, line {number}: {part} says {match.group(1)} at {match.group(2)}, where the wild "
                f"type has {here}: check --wild-type and --first"
            )
        places.append(place)
        letters += match.group(3)
    if len(set(places)) != len(places):
        raise UsageError(f"{path}, line {number}: two mutations at one place, '{row['mutant']}'")
    order = sorted(range(len(places)), key=places.__getitem__)
    try:
        fitness = float(row["fitness"])
    except ValueError:
        fitness = math.nan
    if not math.isfinite(fitness):
        raise UsageError(f"{path}, line {number}: expected a number as fitness, got '{row['fitness']}'")
    return Mutant(row["mutant"], tuple(places[i] for i in order), "".join(letters[i] for i in order), fitness)


@torch.inference_mode()
def run_mutants(
    mlm: MaskedLM, mutants: Sequence[Mutant], wild: str, *, method: str = "ag", progress: Progress = silent
) -> dict[str, Any]:
    """Score all mutants both ways and return the correlations with fitness."""
    sentence = Reader(mlm)(wild)
    if len(sentence) != len(wild):
        raise UsageError(
            f"the model reads {len(wild)} letters as {len(sentence)} tokens: expected one that reads a "
            f"letter as a token, such as ESM"
        )
    if len(sentence.ids) > mlm.window:
        raise UsageError(
            f"the wild type makes {len(sentence.ids)} tokens, but the model's window holds {mlm.window}: "
            f"give the part of it that is mutated, and --first"
        )
    ids = _letters(mlm, set(wild), {letter for m in mutants for letter in m.letters})
    support = Support(torch.tensor(sorted(set(ids.values()))), mlm.vocabulary, "letters")
    groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for n, mutant in enumerate(mutants):
        groups[mutant.places].append(n)
    rows: list[dict[str, Any]] = [{}] * len(mutants)
    for places, members in progress.over(groups.items(), total=len(groups), stage="sets of positions"):
        positions = tuple(sentence.positions[p] for p in places)
        cloze = Cloze.of_ids(sentence.ids, positions, mlm.vocabulary)
        joint = _joint(mlm, cloze, support, method)
        alone = independent_joint(mlm, cloze, (support,) * len(places))
        new = torch.tensor([[ids[letter] for letter in mutants[n].letters] for n in members])
        old = torch.tensor([[ids[wild[p]] for p in places]])
        for kind, q in (("additive", alone), ("joint", joint)):
            gain = q.log_prob(new).double() - q.log_prob(old).double()
            for n, value in zip(members, gain.tolist(), strict=True):
                rows[n] = {**rows[n], "mutant": mutants[n].name, "fitness": mutants[n].fitness, kind: value}
    return {
        "benchmark": "mutants",
        "model": mlm.name,
        "method": method,
        "mutants": len(rows),
        "spearman": _correlations(mutants, rows),
        "scores": rows,
    }


def _letters(mlm: MaskedLM, of_wild: set[str], of_mutants: set[str]) -> dict[str, int]:
    """Return the tokens of all letters that are asked for, and of the 20 amino acids that the model knows."""
    found = {}
    for letter in sorted({*AMINO_ACIDS, *of_wild, *of_mutants}):
        try:
            found[letter] = mlm.vocabulary.find(letter)
        except UsageError:
            if letter in of_wild:
                raise UsageError(
                    f"the model does not know the letter '{letter}' of the wild type: take another model"
                ) from None
            if letter in of_mutants:
                raise UsageError(
                    f"the model does not know the letter '{letter}': leave out the mutants that have it"
                ) from None
    return found


def _joint(mlm: MaskedLM, cloze: Cloze, support: Support, method: str) -> Joint:
    blanks = len(cloze.blanks)
    supports = (support,) * blanks
    if blanks == 2:
        return construct(method, exact_conditionals(mlm, cloze, (support, support)))
    if method == "ag" and passes_of_grid(blanks, len(support)) <= AFFORDABLE_PASSES:
        return GridJoint(grid_conditionals(mlm, cloze, supports, len(support)))
    return Chain(ModelConditionals(mlm, cloze, supports, method=method), block=2)


def _correlations(mutants: Sequence[Mutant], rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    sizes = sorted({len(m.places) for m in mutants})
    found = []
    for size in [*sizes, None] if len(sizes) > 1 else sizes:
        here = [n for n, m in enumerate(mutants) if size is None or len(m.places) == size]
        fitness = [rows[n]["fitness"] for n in here]
        found.append(
            {
                "mutations": size,
                "mutants": len(here),
                **{kind: spearman([rows[n][kind] for n in here], fitness) for kind in ("additive", "joint")},
            }
        )
    return found
