"""PairGuess: what the pair head makes of one blank of a text when another one is filled, without a pass."""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.errors import UsageError
from unmask.models.masked_lm import MaskedLM
from unmask.models.pair_head import HeldOut, PairHead, how_to_make
from unmask.tables.token_groups import TokenGroups
from unmask.text.cloze import Cloze
from unmask.text.support import Support

EMBEDDING_WEIGHT = 0.5
"""Of a token's embedding beside the pair head's guess, among what the regression learns from."""


def check_has_head(mlm: MaskedLM, completion: str = "learned", wanted_by: str = "candidates=0") -> PairHead:
    """Return the model's pair head; raise if there is none, or if it would not be asked."""
    if completion == "plain":
        raise UsageError(
            "the plain completion needs at least 1 candidate: candidates=0 goes with the learned one"
        )
    if mlm.pair_head is None:
        raise UsageError(
            f"{wanted_by} needs a pair head, and the model '{mlm.name}' has none: "
            f"{how_to_make('CHECKPOINT')} (a model in memory has to be saved)"
        )
    return mlm.pair_head


class PairGuess:
    """The head's guesses of the states at one blank, for tokens in another one.

    Args:
        mlm: a model with a pair head.
        cloze: the text.
        states: those at its blanks, all of them masked, [blanks, features].
        filled, asked: which blank is filled, and which is asked.
    """

    def __init__(self, mlm: MaskedLM, cloze: Cloze, states: Tensor, filled: int, asked: int) -> None:
        self._mlm, self._head = mlm, check_has_head(mlm)
        self._there, self._here = states[filled].float(), states[asked].float()
        self._distance = cloze.blanks[asked] - cloze.blanks[filled]

    def __call__(self, token_ids: Tensor) -> Tensor:
        """Return the states at the asked blank for tokens in the filled one, [tokens, features]."""
        return self.of_embeddings(self._mlm.input_embeddings[token_ids.to(self._mlm.device)])

    def of_groups(self, support: Support, groups: TokenGroups, count: int) -> Tensor:
        """Return the states for each group of the support, [groups, features].

        They are those for the mean embedding of `count` tokens that stand for the group.
        """
        return self.of_embeddings(group_embeddings(self._mlm, support, groups, count))

    @torch.inference_mode()
    def of_embeddings(self, embeddings: Tensor) -> Tensor:
        """Return the states for tokens of these input embeddings, [tokens, features]."""
        found = self._head.states(self._there, self._here, embeddings.float(), self._distance)
        return found.to(self._mlm.tables_on)

    def points(self, embeddings: Tensor, guessed: Tensor, spread: float) -> Tensor:
        """Return what a regression that starts from the guesses learns from, [tokens, features].

        The embeddings as the head reads them, and the guesses, in units of how far they lie apart.
        """
        mean, std = (x.to(embeddings) for x in (self._head.embedding_mean, self._head.embedding_std))
        return torch.cat([EMBEDDING_WEIGHT * (embeddings - mean) / std, guessed / spread], -1)

    @property
    def error(self) -> HeldOut:
        """The error that the head had on held-out text at this distance."""
        assert self._head.card is not None
        return self._head.card.at(self._distance)


def group_embeddings(mlm: MaskedLM, support: Support, groups: TokenGroups, count: int) -> Tensor:
    """Return the mean input embedding of `count` tokens that stand for each group, [groups, features]."""
    members = groups.representatives(count)
    embeddings = mlm.input_embeddings[support.ids[members].to(mlm.device)].float()
    group = groups.group_of[members].to(embeddings.device)
    total = embeddings.new_zeros(len(groups), embeddings.shape[1]).index_add_(0, group, embeddings)
    return total / torch.bincount(group)[:, None]
