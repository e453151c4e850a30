"""EvaluatedTokens: which tokens of two blanks the model was asked about, and what it came to.

Part of the cross conditionals: `unmask.inference.cross` chooses the tokens.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unmask.inference.completed import Side
from unmask.inference.partial_states import PartialStates
from unmask.inference.shared_passes import Fillings
from unmask.models.masked_lm import MaskedLM
from unmask.text.cloze import Cloze


class EvaluatedTokens:
    """Which tokens of the blanks the model was asked about, and the states that it came to."""

    def __init__(self, mlm: MaskedLM, cloze: Cloze) -> None:
        self._mlm, self._cloze = mlm, cloze
        # by kind of pass, whole or partial, and by blank
        self._known: dict[bool, tuple[dict[int, Tensor], ...]] = {kind: ({}, {}) for kind in (False, True)}

    def unknown(self, sides: tuple[Side, Side], whole: tuple[Side, Side]) -> list[Fillings]:
        """Return what the model has not been asked yet about the sides' evaluated tokens.

        Those of `whole` want a whole pass. If there are others, all want a partial one.
        """
        asked = []
        for blank in (1, 0):
            partial = [True] if len(sides[blank].evaluated) > len(whole[blank].evaluated) else []
            for kind in (False, *partial):
                side = sides[blank] if kind else whole[blank]
                new = [token for token in _tokens(side) if token not in self._known[kind][blank]]
                if new:
                    position = self._cloze.blanks[1 - blank]
                    asked.append(Fillings(self._cloze, blank, torch.tensor(new), position, kind))
        return asked

    def learn(self, asked: list[Fillings], states: list[Tensor]) -> None:
        """Keep the states that the model came to."""
        for one, found in zip(asked, states, strict=True):
            tokens = one.token_ids.tolist()
            known = self._known[one.partial][one.blank]
            known.update(zip(tokens, found.to(self._mlm.tables_on), strict=True))

    def __call__(self, blank: int, side: Side, whole: Side) -> PartialStates:
        """Return the states at the other blank for the side's evaluated tokens."""
        tokens, exact = _tokens(side), self._states(False, blank, _tokens(whole))
        if len(exact) == len(tokens):
            return PartialStates(self._states(False, blank, tokens), torch.arange(len(tokens)))
        place = {token: n for n, token in enumerate(tokens)}
        where = torch.tensor([place[token] for token in _tokens(whole)])
        return PartialStates.corrected(self._states(True, blank, tokens), where, exact)

    def _states(self, partial: bool, blank: int, tokens: list[int]) -> Tensor:
        known = self._known[partial][blank]
        if not tokens:
            return torch.empty(0, self._mlm.output_layer.in_features, device=self._mlm.tables_on)
        return torch.stack([known[token] for token in tokens])

    @property
    def passes(self) -> int:
        """How many texts the model has read, a partial pass counted by its share of the positions."""
        active = self._mlm.active_positions(self._cloze) or []
        share = len(active) / len(self._cloze.ids)
        return sum(map(len, self._known[False])) + math.ceil(self.partial_passes * share)

    @property
    def partial_passes(self) -> int:
        """How many partial passes it has made."""
        return sum(map(len, self._known[True]))


def _tokens(side: Side) -> list[int]:
    """Return the ids of the tokens that the model is asked about."""
    return [int(token) for token in side.support.ids[side.evaluated]]
