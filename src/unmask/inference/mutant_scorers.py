"""How mutants of a sequence are scored; `unmask.score_mutants` says what a score is good for.

Most scores are sums over sites i of

    log p(new letter i | context) - log p(old letter i | context),

and differ in what the model sees. M are the mutated sites of a mutant.

| scoring | the model sees | source |
|---|---|---|
| `wt-marginals` | the wild type | Meier et al. 2021 |
| `mutant-marginals` | the mutant | Meier et al. 2021 |
| `masked-marginals` | the wild type, all of M masked | Meier et al. 2021, Appendix A |
| `wt-context` | the wild type, i masked | ESM's script and ProteinGym, as `masked-marginals` |
| `mutant-context` | the mutant, i masked | |
| `matched` | i masked: the new letter in the mutant, the old one in the wild type | |
| `pseudo-likelihood` | the same, summed over all sites and not M alone | Meier et al. 2021 |
| `joint` | log q(new letters) - log q(old letters), q being a joint of M | |

q is `ag` of the pair for two sites, the grid over all letters where its passes are affordable, the chain of
pairs beyond. All probabilities are over the letters that a site may hold. Of a single mutant, `joint` and all
scores that mask are the same but `pseudo-likelihood`.

Beside each score is the sum of the scores of its mutations, each alone with the wild type at the other sites
(for `joint` by the same q), and the epistasis: the score less that sum.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from unmask.inference.exact import exact_conditionals
from unmask.inference.grid_conditionals import AFFORDABLE_PASSES, grid_conditionals, passes_of_grid
from unmask.inference.model_conditionals import ModelConditionals, independent_joint
from unmask.inference.mutations import Mutant, Scoring
from unmask.inference.wild_type import WildType
from unmask.joints.chain import Chain
from unmask.joints.grid import GridJoint
from unmask.joints.joint import Joint
from unmask.joints.registry import construct
from unmask.progress import Progress, silent
from unmask.text.cloze import Cloze

MUTANTS_AT_ONCE = 1024
CONTEXTS_AT_ONCE = 2048
ANSWERS_KEPT = 100_000
Context: TypeAlias = frozenset[tuple[int, int]]
"""What the model sees: the wild type, but for these tokens at these places."""


class Effect(NamedTuple):
    """The score of a mutant, and the sum of the scores of its mutations."""

    score: float
    additive: float


def effects_of(
    wild: WildType,
    mutants: Sequence[Mutant],
    scoring: Scoring,
    *,
    method: str = "ag",
    progress: Progress = silent,
) -> list[Effect]:
    """Return the effect of each mutant; the joint is that of its own sites."""
    found: dict[int, Effect] = {}
    progress.started("mutants", len(mutants))
    try:
        if scoring == "joint":
            groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
            for n, mutant in enumerate(mutants):
                groups[mutant.places].append(n)
            for places, members in groups.items():
                effects = JointScorer(wild, places, method)([mutants[n].letters for n in members])
                found.update(zip(members, effects, strict=True))
                progress.advanced(len(members))
        else:
            score = ContextScorer(wild, scoring)
            for start in range(0, len(mutants), MUTANTS_AT_ONCE):
                effects = score(mutants[start : start + MUTANTS_AT_ONCE])
                found.update(enumerate(effects, start))
                progress.advanced(len(effects))
    finally:
        progress.finished()
    return [found[n] for n in range(len(mutants))]


class JointScorer:
    """Scores letters at some sites by the joint of these sites."""

    def __init__(self, wild: WildType, places: Sequence[int], method: str = "ag") -> None:
        self._ids = wild.letters
        self._old = torch.tensor(wild.tokens(places))
        self._joint = _joint(wild, places, method)
        self._log_old = float(self._joint.log_prob(self._old))
        self._alone: dict[tuple[int, int], float] = {}

    def __call__(self, letters: Sequence[str]) -> list[Effect]:
        """Score mutants, each given as the letters of all sites; those of the wild type may be among them."""
        new = torch.tensor([[self._ids[letter] for letter in each] for each in letters])
        changes = [
            [(site, token) for site, token in enumerate(row) if token != int(self._old[site])]
            for row in new.tolist()
        ]
        self._score_alone(sorted({one for each in changes for one in each} - self._alone.keys()))
        scores = (self._log_prob(new) - self._log_old).tolist()
        return [
            Effect(score, math.fsum(self._alone[one] for one in each))
            for score, each in zip(scores, changes, strict=True)
        ]

    def _score_alone(self, changes: Sequence[tuple[int, int]]) -> None:
        """Score single mutations, the other sites as in the wild type."""
        if not changes:
            return
        rows = self._old.repeat(len(changes), 1)
        for row, (site, token) in zip(rows, changes, strict=True):
            row[site] = token
        scores = (self._log_prob(rows) - self._log_old).tolist()
        self._alone.update(zip(changes, scores, strict=True))

    @torch.inference_mode()
    def _log_prob(self, rows: Tensor) -> Tensor:
        return self._joint.log_prob(rows).double().cpu()


@torch.inference_mode()
def _joint(wild: WildType, places: Sequence[int], method: str) -> Joint:
    mlm, support = wild.mlm, wild.support
    cloze = Cloze.of_ids(wild.ids, tuple(wild.positions[place] for place in places), mlm.vocabulary)
    supports = (support,) * len(places)
    if len(places) == 1:
        return independent_joint(mlm, cloze, supports)
    if len(places) == 2:
        return construct(method, exact_conditionals(mlm, cloze, (support, support)))
    if method == "ag" and passes_of_grid(len(places), len(support)) <= AFFORDABLE_PASSES:
        return GridJoint(grid_conditionals(mlm, cloze, supports, len(support)))
    return Chain(ModelConditionals(mlm, cloze, supports, method=method), block=2)


class ContextScorer:
    """Scores mutants by sums over sites; a context is run once, those of many mutants together."""

    def __init__(self, wild: WildType, scoring: Scoring) -> None:
        self._wild, self._scoring = wild, scoring
        support = wild.support
        self._decode = wild.mlm.decoder(support.ids)
        self._column = {letter: support.index(token) for letter, token in wild.letters.items()}
        self._answers: dict[tuple[Context, int], list[float]] = {}
        self._alone: dict[tuple[int, str], float] = {}

    def __call__(self, mutants: Sequence[Mutant]) -> list[Effect]:
        """Score mutants."""
        changes = {one for mutant in mutants for one in zip(mutant.places, mutant.letters, strict=True)}
        alone = sorted(changes - self._alone.keys())
        singles = [Mutant("", (place,), letter) for place, letter in alone]
        self._alone.update(zip(alone, self._scores(singles), strict=True))
        return [
            Effect(
                score,
                math.fsum(self._alone[one] for one in zip(mutant.places, mutant.letters, strict=True)),
            )
            for mutant, score in zip(mutants, self._scores(mutants), strict=True)
        ]

    def _scores(self, mutants: Sequence[Mutant]) -> list[float]:
        """Return the scores, after all contexts that are not known have been run."""
        if len(self._answers) > ANSWERS_KEPT:
            self._answers.clear()
        terms = [list(self._terms(mutant)) for mutant in mutants]
        self._run({(seen, place) for each in terms for place, _, *both in each for seen in both})
        scores = []
        for mutant, each in zip(mutants, terms, strict=True):
            new = dict(zip(mutant.places, mutant.letters, strict=True))
            parts = []
            for place, old, of_new, of_old in each:
                parts.append(self._answers[of_new, place][self._column[new.get(place, old)]])
                parts.append(-self._answers[of_old, place][self._column[old]])
            scores.append(math.fsum(parts))
        return scores

    def _terms(self, mutant: Mutant) -> Iterator[tuple[int, str, Context, Context]]:
        """Go through the sites of a sum: place, old letter, what is seen for the new one and the old one."""
        mask = self._wild.mlm.vocabulary.mask_id
        letters = self._wild.letters
        mutated = {place: letters[new] for place, new in zip(mutant.places, mutant.letters, strict=True)}
        everywhere = self._scoring == "pseudo-likelihood"
        for place in range(len(self._wild.sequence)) if everywhere else mutant.places:
            alone = {place: mask}
            seen, seen_for_old = {
                "wt-marginals": ({}, {}),
                "mutant-marginals": (mutated, mutated),
                "masked-marginals": (dict.fromkeys(mutant.places, mask),) * 2,
                "wt-context": (alone, alone),
                "mutant-context": (mutated | alone, mutated | alone),
                "matched": (mutated | alone, alone),
                "pseudo-likelihood": (mutated | alone, alone),
            }[self._scoring]
            yield (
                place,
                self._wild.sequence[place],
                frozenset(seen.items()),
                frozenset(seen_for_old.items()),
            )

    @torch.inference_mode()
    def _run(self, asked: set[tuple[Context, int]]) -> None:
        """Ask the model what stands at places of contexts; contexts with as many places go together."""
        places: dict[Context, list[int]] = defaultdict(list)
        for context, place in sorted(asked - self._answers.keys(), key=lambda one: (sorted(one[0]), one[1])):
            places[context].append(place)
        groups: dict[int, list[Context]] = defaultdict(list)
        for context, found in places.items():
            groups[len(found)].append(context)
        at, mlm = self._wild.positions, self._wild.mlm
        for group in groups.values():
            for start in range(0, len(group), CONTEXTS_AT_ONCE):
                part = group[start : start + CONTEXTS_AT_ONCE]
                ids = torch.tensor(self._wild.ids).repeat(len(part), 1)
                for row, context in zip(ids, part, strict=True):
                    for place, token in context:
                        row[at[place]] = token
                where = torch.tensor([[at[place] for place in places[context]] for context in part])
                states = mlm.states_each(ids, where)
                logits = self._decode(states.flatten(0, 1)).to(mlm.tables_on)
                log_probs = logits.double().log_softmax(-1).cpu()
                keys = [(context, place) for context in part for place in places[context]]
                self._answers.update(zip(keys, log_probs.tolist(), strict=True))
