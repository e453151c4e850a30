"""BlankConditionals: the conditionals of n blanks, given tokens in some of the others, the rest masked.

Chains (`unmask.joints.chain`) and Markov chains (`unmask.inference.markov_chains`) are built on this protocol
alone; `unmask.inference.model_conditionals` implements it by forward passes of a model, and the tests by the
table of an exact joint. States are token ids [states, blanks], `MASKED` where a blank holds no token yet.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from unmask.joints.joint import Joint
from unmask.text.cloze import Cloze
from unmask.text.support import Support

MASKED = -1
"""Stands for the token of a blank that is still masked."""


class BlankConditionals(ABC):
    """Conditionals of n blanks.

    Attributes:
        supports: the tokens that each blank may hold.
        cloze: the text that the blanks stand in, if there is one.
        passes: forward passes so far.
    """

    def __init__(self, supports: tuple[Support, ...], cloze: Cloze | None = None) -> None:
        self.supports = supports
        self.cloze = cloze
        self.passes = 0

    @property
    def blanks(self) -> int:
        """The number of blanks."""
        return len(self.supports)

    @property
    def positions(self) -> tuple[int, ...]:
        """Where the blanks stand in the text."""
        return tuple(range(self.blanks)) if self.cloze is None else self.cloze.blanks

    @property
    def all_masked(self) -> Tensor:
        """The state in which no blank is filled, [1, blanks]."""
        return torch.full((1, self.blanks), MASKED)

    @abstractmethod
    def logits(self, states: Tensor, blank: int) -> Tensor:
        """Return the logits of one blank, whatever the states hold there, [states, support]."""

    @abstractmethod
    def pair(self, state: Tensor, blanks: tuple[int, int]) -> Joint:
        """Return the joint of two blanks, whatever the state [blanks] holds there."""

    def log_probs(self, states: Tensor, blank: int) -> Tensor:
        """Return the log-probabilities of one blank, [states, support]."""
        return self.logits(states, blank).double().log_softmax(-1)

    def log_probs_of_all(self, states: Tensor) -> list[Tensor]:
        """Return the log-probabilities of every blank, one [states, support] per blank."""
        return [self.log_probs(states, blank) for blank in range(self.blanks)]

    def logits_given(self, filled: int, token_ids: Tensor, blank: int) -> Tensor:
        """Return the logits of one blank when another holds each token, others masked, [tokens, support]."""
        states = self.all_masked.repeat(len(token_ids), 1)
        states[:, filled] = token_ids
        return self.logits(states, blank)

    def start(self, chains: int, generator: torch.Generator) -> Tensor:
        """Return where Markov chains may start: each blank drawn with all masked, [chains, blanks]."""
        columns = []
        for support, log_probs in zip(self.supports, self.log_probs_of_all(self.all_masked), strict=True):
            weights = log_probs[0].exp().cpu()
            index = torch.multinomial(weights, chains, replacement=True, generator=generator)
            columns.append(support.ids[index])
        return torch.stack(columns, dim=1)

    def draw(self, log_probs: Tensor, blank: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw a token for each row; returns ids and their log-probabilities, [states]."""
        index = torch.multinomial(log_probs.exp(), 1, generator=generator)
        return self.supports[blank].ids[index[:, 0]], log_probs.gather(1, index)[:, 0]

    def draw_pair(self, states: Tensor, blanks: tuple[int, int], generator: torch.Generator) -> Tensor:
        """Draw two blanks from their joint given the others, [states, 2]."""
        masked = states.clone()
        masked[:, list(blanks)] = MASKED
        distinct, which = torch.unique(masked, dim=0, return_inverse=True)
        drawn = torch.empty(len(states), 2, dtype=torch.long)
        for n, state in enumerate(distinct):
            here = which == n
            drawn[here] = self.pair(state, blanks).sample(int(here.sum()), generator)
        return drawn
