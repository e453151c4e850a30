"""ModelConditionals: a model's own conditionals of the blanks of a text, incompatible as a rule.

What chains and Markov chains are built on (`unmask.joints.blank_conditionals`), by forward passes. Two blanks
are joined on a few likely tokens of each, backing off to the chain elsewhere (`unmask.joints.backoff`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from unmask.diagnostics import Diagnostics
from unmask.inference.exact import exact_conditionals
from unmask.inference.pair_guess import PairGuess, check_has_head
from unmask.joints.backoff import BackoffPair
from unmask.joints.blank_conditionals import MASKED, BlankConditionals
from unmask.joints.independent import Independent
from unmask.joints.joint import Joint
from unmask.joints.registry import construct
from unmask.models.masked_lm import MaskedLM
from unmask.text.cloze import Cloze
from unmask.text.support import Support

LARGEST_EXACT_PAIR = 512
PAIR_CANDIDATES = 16
"""Tokens per blank on which the pairs of a chain are joined."""


class ModelConditionals(BlankConditionals):
    """The conditionals of a text's blanks by forward passes.

    Args:
        mlm: the model.
        cloze: the text.
        supports: the tokens that each blank may hold.
        method: the construction that joins two blanks.
        candidates: tokens per blank on which they are joined; 0 joins as many by the pair head's guesses.
        options: of that construction.
        states: the model's states at the blanks, all of them masked, [blanks, features], if they are known.
        parent: conditionals whose passes these count as, too.
    """

    cloze: Cloze

    def __init__(
        self,
        mlm: MaskedLM,
        cloze: Cloze,
        supports: tuple[Support, ...],
        *,
        method: str = "ag",
        candidates: int = PAIR_CANDIDATES,
        options: Mapping[str, Any] | None = None,
        states: Tensor | None = None,
        parent: ModelConditionals | None = None,
    ) -> None:
        super().__init__(supports, cloze)
        self.mlm = mlm
        if candidates == 0:
            check_has_head(mlm)
        self._guesses = candidates == 0
        self._method, self._candidates, self._options = method, candidates, options or {}
        self._states, self._parent = states, parent
        self._decoders = {s: mlm.decoder(s.ids) for s in set(supports)}

    @torch.inference_mode()
    def logits(self, states: Tensor, blank: int) -> Tensor:
        """Run one pass for each distinct text, the blank masked, [states, support]."""
        ids = self._texts(states)
        ids[:, self.positions[blank]] = self.mlm.vocabulary.mask_id
        distinct, which = torch.unique(ids, dim=0, return_inverse=True)
        if len(distinct) == len(ids):
            distinct, which = ids, torch.arange(len(ids))
        self.count_passes(len(distinct))
        found = self._decode(self.mlm.states(distinct, self.positions[blank]), blank)
        return found[which.to(found.device)]

    @torch.inference_mode()
    def log_probs_of_all(self, states: Tensor) -> list[Tensor]:
        """Return the log-probabilities of every blank from one pass per state, [states, support] each."""
        self.count_passes(len(states))
        all_masked = bool((states == MASKED).all())
        if self._states is not None and all_masked:
            seen = self._states.expand(len(states), *self._states.shape)
        else:
            seen = self.mlm.states_at(self._texts(states), self.positions)
            if all_masked:
                self._states = seen[0]
        return [self._decode(seen[:, blank], blank).double().log_softmax(-1) for blank in range(self.blanks)]

    @torch.inference_mode()
    def logits_given(self, filled: int, token_ids: Tensor, blank: int) -> Tensor:
        """Return the logits of one blank when another holds each token, others masked, [tokens, support]."""
        if self._guesses:
            if self._states is None:
                self.log_probs_of_all(self.all_masked)
            assert self._states is not None
            return self._decode(
                PairGuess(self.mlm, self.cloze, self._states, filled, blank)(token_ids), blank
            )
        self.count_passes(len(token_ids))
        return self._decode(
            self.mlm.filled_states(self.cloze, filled, token_ids, self.positions[blank]), blank
        )

    def pair(self, state: Tensor, blanks: tuple[int, int]) -> Joint:
        """Return the joint of two blanks, both masked, in the text that a state [blanks] makes."""
        ids = self._texts(state[None])[0]
        positions = tuple(self.positions[b] for b in blanks)
        ids[list(positions)] = self.mlm.vocabulary.mask_id
        cloze = replace(
            self.cloze, ids=tuple(ids.tolist()), blanks=positions, pieces=("", "", ""), truth=None
        )
        return ModelConditionals(
            self.mlm,
            cloze,
            tuple(self.supports[b] for b in blanks),
            method=self._method,
            candidates=self._candidates,
            options=self._options,
            parent=self,
        ).pair_joint()

    def pair_joint(self) -> Joint:
        """Make the joint of a text's two blanks: of all pairs if there are few tokens, else backing off."""
        a, b = self.supports
        if self._guesses:
            joined = tokens_joined((a, b), PAIR_CANDIDATES)
            return BackoffPair(self, method=self._method, candidates=joined, **self._options)
        if tokens_joined((a, b), self._candidates) > self._candidates:
            table = exact_conditionals(self.mlm, self.cloze, (a, b))
            self.count_passes(table.diagnostics.passes)
            return construct(self._method, table, **self._options)
        return BackoffPair(self, method=self._method, candidates=self._candidates, **self._options)

    def count_passes(self, passes: int) -> None:
        """Count forward passes, here and in the conditionals that these are part of."""
        self.passes += passes
        if self._parent is not None:
            self._parent.count_passes(passes)

    def _decode(self, states: Tensor, blank: int) -> Tensor:
        return self._decoders[self.supports[blank]](states).to(self.mlm.tables_on)

    def _texts(self, states: Tensor) -> Tensor:
        """Return the text once for each state, [states, length]."""
        ids = torch.tensor(self.cloze.ids).repeat(len(states), 1)
        for blank, position in enumerate(self.positions):
            known = states[:, blank] != MASKED
            ids[known, position] = states[known, blank]
        return ids


def tokens_joined(supports: tuple[Support, Support], candidates: int) -> int:
    """Return on how many tokens per blank a pair is joined: on all if there are few."""
    most = max(len(support) for support in supports)
    return most if most <= max(candidates, LARGEST_EXACT_PAIR) else candidates


@torch.inference_mode()
def independent_joint(
    mlm: MaskedLM,
    cloze: Cloze,
    supports: tuple[Support, ...],
    diagnostics: Diagnostics = Diagnostics(conditionals="product", passes=1),  # noqa: B008
) -> Independent:
    """Ask the model once, and return the product of its answers."""
    states = mlm.states_at(torch.tensor([cloze.ids]), cloze.blanks)[0]
    lines = [mlm.log_probs(state, s.ids) for s, state in zip(supports, states, strict=True)]
    return Independent(tuple(lines), supports, diagnostics=diagnostics, cloze=cloze)
