"""What a sampler asks: the distribution of one blank, or of two, given tokens in all the others.

`Field` is the question, `ModelField` a model's answer (the tests hold the samplers against an exact joint's).
States are token ids [chains, blanks].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

import torch
from torch import Tensor

from unmask.inference.backoff_pair import PAIR_CANDIDATES, pair_joint
from unmask.models.masked_lm import MaskedLM
from unmask.text.cloze import Cloze
from unmask.text.support import Support


class Field(ABC):
    """Conditionals of n blanks, given tokens in all but one or two of them."""

    def __init__(self, supports: tuple[Support, ...]) -> None:
        self.supports = supports
        self.passes = 0

    @property
    def blanks(self) -> int:
        """How many blanks there are."""
        return len(self.supports)

    @abstractmethod
    def logits(self, states: Tensor, blank: int) -> Tensor:
        """Return the logits of one blank given the others, [chains, support]."""

    @abstractmethod
    def start(self, chains: int, generator: torch.Generator) -> Tensor:
        """Return where chains may start: tokens drawn for each blank by itself, [chains, blanks]."""

    @abstractmethod
    def draw_pair(self, states: Tensor, pair: tuple[int, int], generator: torch.Generator) -> Tensor:
        """Draw two blanks from their joint given the others, [chains, 2]."""

    def log_probs(self, states: Tensor, blank: int) -> Tensor:
        """Return the log-probabilities of one blank given the others, [chains, support]."""
        return self.logits(states, blank).double().log_softmax(-1)

    def draw(self, log_probs: Tensor, blank: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw a token for each row; returns ids and their log-probabilities, [chains]."""
        index = torch.multinomial(log_probs.exp(), 1, generator=generator)
        return self.supports[blank].ids[index[:, 0]], log_probs.gather(1, index)[:, 0]


class ModelField(Field):
    """A model's own conditionals in a text; incompatible, as a rule.

    Args:
        mlm: the model.
        cloze: the text.
        supports: the tokens that each blank may hold.
        method: the construction that joins two blanks.
        candidates: tokens a blank on which they are joined.
    """

    def __init__(
        self,
        mlm: MaskedLM,
        cloze: Cloze,
        supports: tuple[Support, ...],
        *,
        method: str = "ag",
        candidates: int = PAIR_CANDIDATES,
    ) -> None:
        super().__init__(supports)
        self.mlm, self.cloze = mlm, cloze
        self._method, self._candidates = method, candidates
        self._decoders = {s: mlm.decoder(s.ids) for s in set(supports)}

    @torch.inference_mode()
    def logits(self, states: Tensor, blank: int) -> Tensor:
        """Ask the model, the blank masked: one pass a text, however many chains are at it."""
        ids = self._filled(states)
        ids[:, self.cloze.blanks[blank]] = self.mlm.vocabulary.mask_id
        distinct, which = torch.unique(ids, dim=0, return_inverse=True)
        self.passes += len(distinct)
        found = self.mlm.states(distinct, self.cloze.blanks[blank])
        return self._decoders[self.supports[blank]](found).cpu()[which]

    @torch.inference_mode()
    def start(self, chains: int, generator: torch.Generator) -> Tensor:
        """Draw each blank by itself, all of them masked: one pass."""
        seen = self.mlm.states_at(torch.tensor([self.cloze.ids]), self.cloze.blanks)[0]
        self.passes += 1
        columns = []
        for support, state in zip(self.supports, seen, strict=True):
            p = self._decoders[support](state).double().softmax(-1).cpu()
            columns.append(support.ids[torch.multinomial(p, chains, replacement=True, generator=generator)])
        return torch.stack(columns, dim=1)

    def draw_pair(self, states: Tensor, pair: tuple[int, int], generator: torch.Generator) -> Tensor:
        """Make the joint of the pair in each chain's text, and draw from it."""
        positions = (self.cloze.blanks[pair[0]], self.cloze.blanks[pair[1]])
        supports = (self.supports[pair[0]], self.supports[pair[1]])
        ids = self._filled(states)
        ids[:, list(positions)] = self.mlm.vocabulary.mask_id
        distinct, which = torch.unique(ids, dim=0, return_inverse=True)
        drawn = torch.empty(len(states), 2, dtype=torch.long)
        for n, row in enumerate(distinct.tolist()):
            here = which == n
            cloze = replace(self.cloze, ids=tuple(row), blanks=positions, pieces=("", "", ""), truth=None)
            joint = pair_joint(self.mlm, cloze, supports, method=self._method, candidates=self._candidates)
            drawn[here] = joint.sample(int(here.sum()), generator)
            self.passes += joint.evidence.get("passes", 0)
        return drawn

    def _filled(self, states: Tensor) -> Tensor:
        ids = torch.tensor(self.cloze.ids).repeat(len(states), 1)
        ids[:, list(self.cloze.blanks)] = states
        return ids
