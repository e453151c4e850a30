"""Decoding in few passes: each forward pass fills several blanks, those that it fills as a joint.

    q(x) = prod over passes t of q_t(x_S(t) | what the passes before filled)

A pass runs the model once on the text as it stands, chooses some of the blanks that are left, and fills them.
The choice rests on the model's answers, never on what is drawn in the same pass. So each scheme is a
distribution over all fillings, and the log-probability of one is the sum over its passes.

Which blanks a pass fills:

- `by_confidence`: an equal share of the blanks, the most confident first (Chang et al. 2022);
- `by_entropy_bound`: as many as keep the sum of their entropies less the largest below a bound (Ben-Hamu et
  al. 2025), which bounds what the blanks of a pass tell each other;
- `by_tree_bound`: the same, less what the edges of a tree between these blanks account for.

How a pass fills them:

- `independently`: each from its own distribution;
- `as_tree`: by the tree of the pair head's guesses, the blanks that tell each other most joined;
- `as_pairs`: in disjoint pairs, each by the joint `ag` of the pair head's guesses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from unmask.errors import UsageError
from unmask.inference.guessed_edges import GuessedEdge, guessed_information
from unmask.inference.model_conditionals import ModelConditionals
from unmask.inference.tree import MOST_BLANKS
from unmask.joints.blank_conditionals import MASKED
from unmask.joints.independent import Independent
from unmask.joints.joint import Joint
from unmask.joints.spanning_tree import maximum_spanning_tree
from unmask.joints.tree import TreeJoint
from unmask.models.masked_lm import MaskedLM
from unmask.text.cloze import Cloze
from unmask.text.support import Support

Part = tuple[tuple[int, ...], Joint]
"""Some of the blanks that a pass sees, by their numbers there, and their joint."""


class Pass:
    """What one forward pass says of the blanks that are still masked.

    Args:
        mlm: the model.
        cloze: the text; its blanks are those that are left.
        supports: the tokens that each of them may hold.
        kept: ids per blank that are told apart from others however unlikely, as those to be scored.
    """

    def __init__(
        self,
        mlm: MaskedLM,
        cloze: Cloze,
        supports: tuple[Support, ...],
        kept: Sequence[Sequence[int]] | None = None,
    ) -> None:
        self.mlm, self.cloze, self.supports = mlm, cloze, supports
        self.kept: Sequence[Sequence[int]] = kept or [()] * len(supports)
        self._information: tuple[list[int], Tensor] = ([], torch.zeros(0, 0, dtype=torch.float64))
        with torch.inference_mode():
            self.states = mlm.states_at(torch.tensor([cloze.ids]), cloze.blanks)[0]
            self.log_probs = [
                mlm.log_probs(state, support.ids).cpu()
                for support, state in zip(supports, self.states, strict=True)
            ]

    @cached_property
    def entropies(self) -> Tensor:
        """The entropy of each blank by itself, [blanks]."""
        probs = [line.exp() for line in self.log_probs]
        return torch.stack([-torch.special.xlogy(p, p).sum() for p in probs])

    @cached_property
    def most_confident(self) -> list[int]:
        """The blanks, that with the likeliest best token first."""
        best = torch.stack([line.max() for line in self.log_probs])
        return best.argsort(descending=True, stable=True).tolist()

    @cached_property
    def least_entropy(self) -> list[int]:
        """The blanks, the most certain first."""
        return self.entropies.argsort(stable=True).tolist()

    def only(self, blanks: Sequence[int]) -> Cloze:
        """Return the text with some of the blanks; the others stay masked in it."""
        places = tuple(self.cloze.blanks[i] for i in blanks)
        return replace(self.cloze, blanks=places, pieces=("",) * (len(places) + 1), truth=None)

    def information(self, blanks: Sequence[int]) -> Tensor:
        """Return what every two of some blanks tell each other, by the pair head, [blanks, blanks]."""
        known, table = self._information
        if not set(blanks) <= set(known):
            known = list(blanks)
            table = guessed_information(
                self.mlm,
                self.only(known),
                self.states[known],
                [self.supports[i] for i in known],
                [self.log_probs[i] for i in known],
            )
            self._information = known, table
        which = [known.index(i) for i in blanks]
        return table[which][:, which]


Choose = Callable[[Pass, int], list[int]]
"""(what a pass says, how many passes were before it) -> the blanks to fill, by their numbers there."""
Join = Callable[[Pass, Sequence[int]], list[Part]]
"""(what a pass says, the blanks to fill) -> their joints."""


def by_confidence(passes: int) -> Choose:
    """Fill an equal share in each of so many passes, the most confident blanks first."""

    def choose(seen: Pass, before: int) -> list[int]:
        return seen.most_confident[: share(len(seen.supports), passes - before)]

    return choose


def share(left: int, passes: int) -> int:
    """Return how many of the blanks that are left the next of so many passes fills."""
    return -(-left // max(1, passes))


def by_entropy_bound(bound: float) -> Choose:
    """Fill as many of the most certain blanks as keep sum H - max H within a bound in nats; at least one."""

    def choose(seen: Pass, before: int) -> list[int]:  # noqa: ARG001
        order = seen.least_entropy
        sums = seen.entropies[order].cumsum(0) - seen.entropies[order]  # sorted: the last is the largest
        return order[: max(1, int((sums <= bound).sum()))]

    return choose


def by_tree_bound(bound: float) -> Choose:
    """Do the same with what the edges of the tree of these blanks account for taken off."""

    def choose(seen: Pass, before: int) -> list[int]:  # noqa: ARG001
        order = seen.least_entropy[:MOST_BLANKS]
        information = seen.information(order)
        dependence, count = 0.0, 1
        for n in range(1, len(order)):
            dependence += float(seen.entropies[order[n - 1]])
            edges = maximum_spanning_tree(information[: n + 1, : n + 1])
            if dependence - sum(float(information[edge]) for edge in edges) <= bound:
                count = n + 1
        return order[:count]

    return choose


def independently(seen: Pass, blanks: Sequence[int]) -> list[Part]:
    """Join nothing: the product of the blanks' own distributions."""
    log_m, supports = zip(*((seen.log_probs[i], seen.supports[i]) for i in blanks), strict=True)
    return [(tuple(blanks), Independent(log_m, supports))]


def as_tree(seen: Pass, blanks: Sequence[int]) -> list[Part]:
    """Join the blanks by the tree of those that tell each other most, from the pair head's guesses.

    Its edges are those of `tree_joint` without candidates, each in one order alone (`GuessedEdge`).
    """
    if len(blanks) > MOST_BLANKS:
        raise UsageError(
            f"a pass joins at most {MOST_BLANKS} blanks, got {len(blanks)}: take more passes, or cut the text"
        )
    if len(blanks) == 1:
        return independently(seen, blanks)
    root = int(seen.entropies[list(blanks)].argmin())
    cloze, states = seen.only(blanks), seen.states[list(blanks)]
    supports = tuple(seen.supports[i] for i in blanks)
    edges = {
        (parent, child): GuessedEdge(
            seen.mlm,
            cloze,
            states,
            (parent, child),
            (supports[parent], supports[child]),
            seen.log_probs[blanks[parent]],
            seen.kept[blanks[parent]],
        )
        for parent, child in maximum_spanning_tree(seen.information(blanks), root)
    }
    return [(tuple(blanks), TreeJoint(seen.log_probs[blanks[root]], edges, supports))]


def as_pairs(seen: Pass, blanks: Sequence[int]) -> list[Part]:
    """Join disjoint pairs by `ag`, those that tell each other most first; an odd blank is left by itself."""
    information, alone = seen.information(blanks), set(range(len(blanks)))
    found: list[Part] = []
    ranked = information.triu(1).flatten().argsort(descending=True, stable=True).tolist()
    for a, b in (divmod(place, len(blanks)) for place in ranked):
        if a < b and {a, b} <= alone:
            alone -= {a, b}
            pair = [blanks[i] for i in sorted((a, b), key=lambda i: seen.cloze.blanks[blanks[i]])]
            supports = tuple(seen.supports[i] for i in pair)
            conditionals = ModelConditionals(
                seen.mlm, seen.only(pair), supports, candidates=0, states=seen.states[pair]
            )
            found.append((tuple(pair), conditionals.pair_joint()))
    return [*found, *(part for i in sorted(alone) for part in independently(seen, [blanks[i]]))]


@dataclass(frozen=True)
class Scheme:
    """A way to decode: which blanks a pass fills, and how it joins them."""

    choose: Choose
    join: Join


def tree_scheme(passes: int) -> Scheme:
    """Return the scheme of `unmask sample --passes`: equal shares by confidence, each joined by a tree."""
    return Scheme(by_confidence(passes), as_tree)


Fill = Callable[[tuple[int, ...], Joint], Tensor]
"""(the numbers of some blanks of the text, their joint) -> the ids that they get, [blanks]."""


def drawn(generator: torch.Generator) -> Fill:
    """Fill blanks with a draw from their joint."""
    return lambda _, joint: joint.sample((), generator)


def likeliest(_: tuple[int, ...], joint: Joint) -> Tensor:
    """Fill blanks with the likeliest filling of their joint."""
    return joint.mode


def known(tokens: Sequence[int]) -> Fill:
    """Fill blanks with tokens that are known: their log-probability is what is asked for."""
    return lambda blanks, _: torch.tensor([tokens[i] for i in blanks])


@dataclass(frozen=True)
class Decoded:
    """A filling, its log-probability under the scheme, and the passes that it took."""

    ids: tuple[int, ...]
    log_prob: float
    passes: int


class ParallelDecoder:
    """Decodes one text by any scheme; what was asked of the model before is not asked again.

    Args:
        mlm: the model.
        cloze: the text.
        supports: the tokens that each blank may hold.

    Attributes:
        passes: forward passes so far.
    """

    def __init__(self, mlm: MaskedLM, cloze: Cloze, supports: tuple[Support, ...]) -> None:
        self.mlm, self.cloze, self.supports = mlm, cloze, supports
        self.passes = 0
        self._seen: dict[tuple[int, ...], Pass] = {}

    def __call__(self, scheme: Scheme, fill: Fill) -> Decoded:
        """Fill all blanks, pass by pass."""
        ids = [MASKED] * len(self.supports)
        total, passes = 0.0, 0
        while MASKED in ids:
            left = [i for i, token in enumerate(ids) if token == MASKED]
            seen = self._pass(tuple(ids), left)
            for which, joint in scheme.join(seen, scheme.choose(seen, passes)):
                blanks = tuple(left[i] for i in which)
                tokens = fill(blanks, joint)
                total += float(joint.log_prob(tokens))
                for blank, token in zip(blanks, tokens.tolist(), strict=True):
                    ids[blank] = token
            passes += 1
        return Decoded(tuple(ids), total, passes)

    def _pass(self, filled: tuple[int, ...], left: list[int]) -> Pass:
        if filled not in self._seen:
            text = list(self.cloze.ids)
            for place, token in zip(self.cloze.blanks, filled, strict=True):
                text[place] = self.mlm.vocabulary.mask_id if token == MASKED else token
            places = tuple(self.cloze.blanks[i] for i in left)
            pieces = ("",) * (len(places) + 1)
            cloze = replace(self.cloze, ids=tuple(text), blanks=places, pieces=pieces, truth=None)
            truth = self.cloze.truth
            kept = None if truth is None else [(truth[i],) for i in left]
            self._seen[filled] = Pass(self.mlm, cloze, tuple(self.supports[i] for i in left), kept)
            self.passes += 1
        return self._seen[filled]
