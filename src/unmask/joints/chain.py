"""Chain: blocks of one or two blanks, filled one after the other.

    q(x) = prod_t  q_t(x_{B_t} | x_{B_1}, ..., x_{B_{t-1}}),

each block B_t by the conditionals with the earlier blocks filled and the later ones still masked: a block
of one by its own distribution, a block of two by a joint of the pair. Each factor sums to 1, so the product
does, over all V^n fillings, with nothing to normalise; `log_prob` is exact and so is `sample`. `top` is a
beam search.

The order is left to right, as given, or by confidence: next comes the blank whose distribution has the
smallest entropy, given what is filled already (and, in blocks of two, the one of those still masked that is
nearest in the text). Which blank that is depends on the tokens before, but on nothing else, so that every
filling has one path and the sum over all is still 1.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from unmask.diagnostics import Diagnostics, SolverDiagnostics
from unmask.errors import UsageError
from unmask.joints.blank_conditionals import MASKED, BlankConditionals
from unmask.joints.fillings import Value, index_filling
from unmask.joints.joint import Block, Joint
from unmask.joints.table import EnumerableJoint, TokenDistribution
from unmask.progress import Progress, silent

Order = Literal["left-to-right", "confidence"] | Sequence[int]
State = tuple[int, ...]
"""A token id for each blank; MASKED where there is none yet."""
STATES_AT_ONCE = 64
PAIRS_KEPT = 8
NARROWEST_BEAM = {1: 16, 2: 8}


class Chain(EnumerableJoint):
    """The joint of blanks that are filled block by block.

    Args:
        conditionals: of the blanks, given what is filled already.
        order: `left-to-right`, `confidence`, or the blanks' numbers in the order wanted.
        block: how many blanks are filled at once, 1 or 2.
        beam: how many partial fillings `top` keeps; by default as many as are asked for, and at least 16 in
            chains of single blanks, 8 in chains of pairs.
        progress: told of long work.
        diagnostics: what is known of the conditionals beforehand.
    """

    def __init__(
        self,
        conditionals: BlankConditionals,
        *,
        order: Order = "left-to-right",
        block: Literal[1, 2] = 1,
        beam: int | None = None,
        progress: Progress = silent,
        diagnostics: Diagnostics | None = None,
    ) -> None:
        options = {"block": block, "order": order if isinstance(order, str) else list(order)}
        known = replace(diagnostics or Diagnostics(conditionals="chain"), options=options)
        super().__init__(conditionals.supports, method="chain", diagnostics=known, cloze=conditionals.cloze)
        if beam is not None and (not isinstance(beam, int) or beam < 1):
            raise UsageError(f"the beam of a chain is a whole number from 1 on, got {beam}")
        self.conditionals, self.order, self.block, self.beam = conditionals, order, block, beam
        self._progress = progress
        self._fixed = None if order == "confidence" else _cut(_sequence(order, self.blanks), block)
        self._pairs: OrderedDict[State, Joint] = OrderedDict()
        self._passes_before = conditionals.passes
        self._solver: SolverDiagnostics | None = None

    @property
    def diagnostics(self) -> Diagnostics:
        """How the distribution came about, with the forward passes so far.

        The chain has converged if the solvers of all its pairs have.
        """
        passes = self._diagnostics.passes + self.conditionals.passes - self._passes_before
        return replace(self._diagnostics, passes=passes, solver=self._solver)

    @property
    def steps(self) -> int:
        """The number of blocks."""
        return -(-self.blanks // self.block)

    def factors(self, value: Value) -> list[tuple[Block, float]]:
        """Return the blocks of one filling in the order of their filling, and what each adds to log q."""
        tokens = self._ids(index_filling(value, self.supports))
        state, found = self._all_masked, []
        for _ in range(self.steps):
            for _, block, answer in self._answers([state]):
                here = tokens[list(block)]
                found.append((block, float(answer.log_prob(here))))
                longer = _with(state, block, here.tolist())
            state = longer
        return found

    def _log_prob(self, indices: list[Tensor]) -> Tensor:
        rows = self._ids([i.reshape(-1) for i in indices])
        states: list[State] = [self._all_masked] * len(rows)
        found = torch.zeros(len(rows), dtype=torch.float64)
        for _ in self._through_steps():
            where = _where(states)
            for state, block, answer in self._answers(where):
                here = where[state]
                tokens = rows[here][:, list(block)]
                found[here] += answer.log_prob(tokens).double().cpu()
                for n, filling in zip(here, tokens.tolist(), strict=True):
                    states[n] = _with(state, block, filling)
        return found.reshape(indices[0].shape)

    def _sample(self, count: int, generator: torch.Generator | None) -> Tensor:
        states: list[State] = [self._all_masked] * count
        for _ in self._through_steps():
            where = _where(states)
            for state, block, answer in self._answers(where):
                here = where[state]
                drawn = answer.sample(len(here), generator).tolist()
                for i, tokens in zip(here, drawn, strict=True):
                    states[i] = _with(state, block, tokens)
        return torch.tensor(states)

    def _top(self, k: int) -> tuple[Tensor, Tensor]:
        width = max(k, self.beam or NARROWEST_BEAM[self.block])
        beam: dict[State, float] = {self._all_masked: 0.0}
        for _ in self._through_steps():
            longer: dict[State, float] = {}
            for state, block, answer in self._answers(beam):
                ids, log_probs = answer._top(width)
                for tokens, log_prob in zip(ids.tolist(), log_probs.tolist(), strict=True):
                    longer[_with(state, block, tokens)] = beam[state] + log_prob
            best = sorted(longer, key=lambda state: -longer[state])
            beam = {state: longer[state] for state in best[:width]}
        best = list(beam)[:k]
        return torch.tensor(best), torch.tensor([beam[b] for b in best], dtype=torch.float64)

    def _marginal(self, blank: int) -> TokenDistribution:
        return self._by_one_factor(blank, {}) or super()._marginal(blank)

    def _conditional(self, blank: int, given: Mapping[int, int]) -> TokenDistribution:
        return self._by_one_factor(blank, given) or super()._conditional(blank, given)

    def _by_one_factor(self, blank: int, given: Mapping[int, int]) -> TokenDistribution | None:
        """Return a blank's distribution where all blanks before its block are given, and none after it.

        What comes after the block sums to 1 then; elsewhere there is a sum to be made.
        """
        tokens = {other: int(self.supports[other].ids[place]) for other, place in given.items()}
        state = self._all_masked
        while blank not in (block := self._blocks_of([state])[0]):
            if not tokens.keys() >= set(block):
                return None
            state = _with(state, block, [tokens.pop(b) for b in block])
        if not tokens.keys() <= set(block):
            return None
        ((_, _, answer),) = self._answers([state])
        within = {block.index(other): token for other, token in tokens.items()}
        place = block.index(blank)
        return answer.conditional(place, within) if within else answer.marginal(place)

    @property
    def _all_masked(self) -> State:
        return (MASKED,) * self.blanks

    def _through_steps(self) -> Iterator[int]:
        return self._progress.over(range(self.steps), total=self.steps, stage="blocks of the chain")

    def _answers(self, states: Iterable[State]) -> Iterator[tuple[State, Block, Joint]]:
        """Go through the distinct partial fillings, with the block that is next and its distribution."""
        distinct = sorted(set(states))
        groups: dict[Block, list[State]] = defaultdict(list)
        for state, block in zip(distinct, self._blocks_of(distinct), strict=True):
            groups[block].append(state)
        for block, members in sorted(groups.items()):
            if len(block) == 2:
                for state in members:
                    answer = self._pair_of(state, block)
                    yield state, block, answer
                    self._note_solver(answer)
                continue
            for part in _parts(members):
                log_probs = self.conditionals.log_probs(torch.tensor(part), block[0])
                for state, line in zip(part, log_probs, strict=True):
                    yield state, block, TokenDistribution(line, self.supports[block[0]], method="mlm")

    def _blocks_of(self, states: Sequence[State]) -> list[Block]:
        """Return the block that comes next after each partial filling."""
        if self._fixed is not None:
            return [self._fixed[sum(t != MASKED for t in s) // self.block] for s in states]
        entropies: list[Tensor] = []
        for part in _parts(states):
            lines = (log_p.cpu() for log_p in self.conditionals.log_probs_of_all(torch.tensor(part)))
            entropies.extend(torch.stack([-(p.exp() * p).sum(-1) for p in lines], dim=1))
        return [self._most_certain(state, line) for state, line in zip(states, entropies, strict=True)]

    def _most_certain(self, state: State, entropies: Tensor) -> Block:
        left = [b for b in range(self.blanks) if state[b] == MASKED]
        first = min(left, key=lambda b: (float(entropies[b]), b))
        at = self.conditionals.positions
        others = sorted((abs(at[b] - at[first]), b) for b in left if b != first)
        if self.block == 1 or not others:
            return (first,)
        return tuple(sorted((first, others[0][1])))

    def _pair_of(self, state: State, block: Block) -> Joint:
        """Return the joint of two blanks after a partial filling; the last few are kept."""
        if state not in self._pairs:
            self._pairs[state] = self.conditionals.pair(torch.tensor(state), (block[0], block[1]))
            while len(self._pairs) > PAIRS_KEPT:
                self._pairs.popitem(last=False)
        return self._pairs[state]

    def _note_solver(self, answer: Joint) -> None:
        """Keep the solver result of a pair, unless one that has not converged is kept already."""
        solver = answer.diagnostics.solver
        if solver is not None and (self._solver is None or self._solver.converged):
            self._solver = SolverDiagnostics(solver.result)


def _parts(states: Sequence[State]) -> Iterator[Sequence[State]]:
    return (states[i : i + STATES_AT_ONCE] for i in range(0, len(states), STATES_AT_ONCE))


def _sequence(order: Order, blanks: int) -> list[int]:
    """Return the blanks in the order asked for."""
    if order == "left-to-right":
        return list(range(blanks))
    if isinstance(order, str) or sorted(order) != list(range(blanks)):
        raise UsageError(
            f"unknown order {order!r} of a chain: expected left-to-right, confidence, or the numbers "
            f"0 to {blanks - 1}, each once"
        )
    return list(order)


def _where(states: Sequence[State]) -> dict[State, list[int]]:
    """Return which of the fillings are at each distinct state."""
    found: dict[State, list[int]] = defaultdict(list)
    for n, state in enumerate(states):
        found[state].append(n)
    return found


def _cut(order: list[int], size: int) -> list[Block]:
    return [tuple(sorted(order[i : i + size])) for i in range(0, len(order), size)]


def _with(state: State, block: Block, tokens: Sequence[int]) -> State:
    longer = list(state)
    for blank, token in zip(block, tokens, strict=True):
        longer[blank] = token
    return tuple(longer)
