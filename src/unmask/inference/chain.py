"""Chain: blocks of one or two blanks, filled one after the other.

    q(x) = prod_t  q_t(x_{B_t} | x_{B_1}, ..., x_{B_{t-1}}),

each block B_t by the model's answer with the earlier blocks filled and the later ones still masked: a block
of one by the model's own distribution, a block of two by a joint of the pair
(`unmask.inference.backoff_pair`). Each factor sums to 1, so the product does, over all V^n fillings, with
nothing to normalise; `log_prob` is exact and so is `sample`. `top` is a beam search.

The order is left to right, as given, or by confidence: next comes the blank whose distribution has the
smallest entropy, given what is filled already (and, in blocks of two, the one of those still blank that is
nearest in the text). Which blank that is depends on the tokens before, but on nothing else, so that every
filling has one path and the sum over all is still 1.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from unmask.errors import UsageError
from unmask.joints.joint import Joint, Token, TokenDistribution, Tokens
from unmask.joints.sequential import SequentialJoint
from unmask.models.masked_lm import MaskedLM
from unmask.progress import Progress, silent
from unmask.text.cloze import Cloze
from unmask.text.support import Support

Order = Literal["left-to-right", "confidence"] | Sequence[int]
Filled = tuple[int, ...]
"""A token id for each blank; STILL_BLANK where there is none yet."""
Block = tuple[int, ...]
PairMaker = Callable[[Cloze, tuple[Support, Support]], Joint]
"""Makes the joint of a cloze with two blanks over the two supports."""

STILL_BLANK = -1
STATES_AT_ONCE = 64
PAIRS_KEPT = 8
NARROWEST_BEAM = {1: 16, 2: 8}


class Chain(SequentialJoint):
    """The joint of a cloze's blanks, filled block by block.

    Args:
        mlm: the model.
        cloze: the text.
        supports: the tokens that each blank may hold.
        order: `left-to-right`, `confidence`, or the blanks' numbers in the order wanted.
        pair: makes the joint of a block of two; without it every block is of one blank.
        beam: how many partial fillings `top` keeps; by default as many as are asked for, and at least 16
            in chains of single blanks, 8 in chains of pairs.
        progress: told of long work.
    """

    def __init__(
        self,
        mlm: MaskedLM,
        cloze: Cloze,
        supports: tuple[Support, ...],
        *,
        order: Order = "left-to-right",
        pair: PairMaker | None = None,
        beam: int | None = None,
        progress: Progress = silent,
        evidence: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(supports, method="chain", evidence=evidence, cloze=cloze)
        if len(supports) != len(cloze.blanks):
            raise UsageError(
                f"expected a support for each of {len(cloze.blanks)} blanks, got {len(supports)}"
            )
        if beam is not None and (not isinstance(beam, int) or beam < 1):
            raise UsageError(f"the beam of a chain is a whole number from 1 on, got {beam}")
        self.mlm, self.order, self.beam = mlm, order, beam
        self._pair, self._progress = pair, progress
        self._size = 1 if pair is None else 2
        self._fixed = None if order == "confidence" else _cut(_sequence(order, self.blanks), self._size)
        self._decoders = {s: mlm.decoder(s.ids) for s in set(supports)}
        self._pairs: OrderedDict[Filled, Joint] = OrderedDict()
        self._counted: dict[Filled, int] = {}
        self.evidence.setdefault("passes", 0)
        self.evidence |= {
            "block": self._size,
            "chain_order": order if isinstance(order, str) else list(order),
        }

    @property
    def steps(self) -> int:
        """How many blocks there are."""
        return -(-self.blanks // self._size)

    def log_prob(self, *filling: Tokens) -> Tensor:
        """Return log q of one filling, or of many."""
        indices = self._indices(filling)
        flat = torch.stack([s.ids[i.reshape(-1)] for s, i in zip(self.supports, indices, strict=True)], dim=1)
        rows = [tuple(row) for row in flat.tolist()]
        filled: list[Filled] = [self._empty] * len(rows)
        found = torch.zeros(len(rows), dtype=torch.float64)
        for _ in self._progress.over(range(self.steps), total=self.steps, stage="blocks of the chain"):
            where = _where(filled)
            for state, block, answer in self._answers(where):
                here = where[state]
                tokens = [torch.tensor([rows[n][b] for n in here]) for b in block]
                found[here] += answer.log_prob(*tokens).double().cpu()
                for n in here:
                    filled[n] = _with(state, block, [rows[n][b] for b in block])
        return found.reshape(indices[0].shape)

    def path(self, *filling: Token) -> list[tuple[Block, float]]:
        """Return the blocks of one filling in the order of their filling, and what each adds to log q."""
        tokens = [int(s.ids[s.index(t)]) for s, t in zip(self.supports, filling, strict=True)]
        state, found = self._empty, []
        for _ in range(self.steps):
            for _, block, answer in self._answers([state]):
                here = [tokens[b] for b in block]
                found.append((block, float(answer.log_prob(*here))))
                longer = _with(state, block, here)
            state = longer
        return found

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw n fillings, as token ids [n, blanks], one block after the other."""
        self._check_number(n)
        filled: list[Filled] = [self._empty] * n
        for _ in self._progress.over(range(self.steps), total=self.steps, stage="blocks of the chain"):
            where = _where(filled)
            for state, block, answer in self._answers(where):
                here = where[state]
                drawn = answer.sample(len(here), generator).tolist()
                for i, tokens in zip(here, drawn, strict=True):
                    filled[i] = _with(state, block, tokens)
        return torch.tensor(filled)

    def _top(self, k: int) -> tuple[Tensor, Tensor]:
        width = self.beam or max(k, NARROWEST_BEAM[self._size])
        beam: dict[Filled, float] = {self._empty: 0.0}
        for _ in self._progress.over(range(self.steps), total=self.steps, stage="blocks of the chain"):
            longer: dict[Filled, float] = {}
            for state, block, answer in self._answers(beam):
                ids, log_probs = answer._top(max(width, k))
                for tokens, log_prob in zip(ids.tolist(), log_probs.tolist(), strict=True):
                    longer[_with(state, block, tokens)] = beam[state] + log_prob
            best = sorted(longer, key=lambda filled: -longer[filled])
            beam = {filled: longer[filled] for filled in best[: max(width, k)]}
        best = list(beam)[:k]
        return torch.tensor(best), torch.tensor([beam[b] for b in best], dtype=torch.float64)

    @property
    def _empty(self) -> Filled:
        return (STILL_BLANK,) * self.blanks

    def _answers(self, filled: Iterable[Filled]) -> Iterable[tuple[Filled, Block, Joint]]:
        """Go through the distinct partial fillings, with the block that is next and its distribution."""
        distinct = sorted(set(filled))
        groups: dict[Block, list[Filled]] = defaultdict(list)
        for state, block in zip(distinct, self._blocks_of(distinct), strict=True):
            groups[block].append(state)
        for block, states in sorted(groups.items()):
            if len(block) == 2:
                for state in states:
                    answer = self._pair_of(state, block)
                    yield state, block, answer
                    self._take_evidence(state, answer)
                continue
            for start in range(0, len(states), STATES_AT_ONCE):
                part = states[start : start + STATES_AT_ONCE]
                log_probs = self.distributions(part, block[0])
                for state, line in zip(part, log_probs, strict=True):
                    yield state, block, TokenDistribution(line, self.supports[block[0]], method="mlm")

    def distributions(self, filled: Sequence[Filled], blank: int) -> Tensor:
        """Return the model's log-probabilities at one blank, others filled or masked, [states, support]."""
        states = self.mlm.states(self._ids(filled), self.cloze_blanks[blank])
        self.evidence["passes"] += len(filled)
        logits = self._decoders[self.supports[blank]](states).to(self.mlm.tables_on)
        return logits.double().log_softmax(-1)

    @property
    def cloze_blanks(self) -> tuple[int, ...]:
        """The blanks' positions in the text."""
        assert self.cloze is not None
        return self.cloze.blanks

    def _ids(self, filled: Sequence[Filled]) -> Tensor:
        """Return the text once for each partial filling, [states, length]."""
        assert self.cloze is not None
        ids = torch.tensor(self.cloze.ids).repeat(len(filled), 1)
        tokens = torch.tensor(filled)
        for blank, position in enumerate(self.cloze.blanks):
            known = tokens[:, blank] != STILL_BLANK
            ids[known, position] = tokens[known, blank]
        return ids

    def _blocks_of(self, states: Sequence[Filled]) -> list[Block]:
        """Return the block that comes next after each partial filling."""
        if self._fixed is not None:
            return [self._fixed[sum(t != STILL_BLANK for t in s) // self._size] for s in states]
        entropies = torch.full((len(states), self.blanks), torch.inf, dtype=torch.float64)
        for start in range(0, len(states), STATES_AT_ONCE):
            part = states[start : start + STATES_AT_ONCE]
            seen = self.mlm.states_at(self._ids(part), self.cloze_blanks)
            self.evidence["passes"] += len(part)
            for blank, support in enumerate(self.supports):
                log_p = self._decoders[support](seen[:, blank]).double().log_softmax(-1).cpu()
                entropies[start : start + len(part), blank] = -(log_p.exp() * log_p).sum(-1)
        return [self._most_certain(state, line) for state, line in zip(states, entropies, strict=True)]

    def _most_certain(self, state: Filled, entropies: Tensor) -> Block:
        left = [b for b in range(self.blanks) if state[b] == STILL_BLANK]
        first = min(left, key=lambda b: (float(entropies[b]), b))
        at = self.cloze_blanks
        others = sorted((abs(at[b] - at[first]), b) for b in left if b != first)
        if self._size == 1 or not others:
            return (first,)
        return tuple(sorted((first, others[0][1])))

    def _pair_of(self, state: Filled, block: Block) -> Joint:
        """Return the joint of two blanks after a partial filling; the last few are kept."""
        if state not in self._pairs:
            assert self._pair is not None
            assert self.cloze is not None
            positions = tuple(self.cloze_blanks[b] for b in block)
            ids = tuple(self._ids([state])[0].tolist())
            cloze = replace(self.cloze, ids=ids, blanks=positions, pieces=("", "", ""), truth=None)
            self._pairs[state] = self._pair(cloze, (self.supports[block[0]], self.supports[block[1]]))
            self._counted[state] = 0
            while len(self._pairs) > PAIRS_KEPT:
                self._counted.pop(self._pairs.popitem(last=False)[0])
        return self._pairs[state]

    def _take_evidence(self, state: Filled, answer: Joint) -> None:
        """Add what a pair has asked of the model since it was last looked at: it asks when it needs to.

        The chain has converged if the solvers of all its pairs have.
        """
        if "converged" in answer.evidence:
            before = self.evidence.get("converged", True)
            self.evidence["converged"] = before and answer.evidence["converged"]
        passes = answer.evidence.get("passes", 0)
        self.evidence["passes"] += passes - self._counted.get(state, 0)
        self._counted[state] = passes


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


def _where(filled: Sequence[Filled]) -> dict[Filled, list[int]]:
    """Return which of the fillings are at each distinct state."""
    found: dict[Filled, list[int]] = defaultdict(list)
    for n, state in enumerate(filled):
        found[state].append(n)
    return found


def _cut(order: list[int], size: int) -> list[Block]:
    return [tuple(sorted(order[i : i + size])) for i in range(0, len(order), size)]


def _with(state: Filled, block: Block, tokens: Sequence[int]) -> Filled:
    longer = list(state)
    for blank, token in zip(block, tokens, strict=True):
        longer[blank] = token
    return tuple(longer)
