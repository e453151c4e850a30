"""Support: the tokens that a blank may hold, as an explicit list of ids.

Row i of a table speaks of the token `support.ids[i]`. All arithmetic is done on ids, never on decoded text.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from unmask.errors import UsageError
from unmask.text.vocabulary import Vocabulary
from unmask.values import Whole, shown

MOST_NUMBERED = 10**8


@dataclass(frozen=True, eq=False)
class Support:
    """The tokens that a blank may hold: index in a table <-> token id."""

    ids: Tensor
    vocabulary: Vocabulary | None = None
    name: str = "all"

    def __post_init__(self) -> None:
        ids = self.ids
        whole = isinstance(ids, Tensor) and not (ids.is_floating_point() or ids.is_complex())
        if not whole or ids.ndim != 1 or ids.dtype == torch.bool or not _is_readable(ids):
            raise UsageError("expected the ids of a support as a dense tensor of whole numbers, [tokens]")

    def __len__(self) -> int:
        return int(self.ids.numel())

    def same_tokens(self, other: Support) -> bool:
        """Whether both stand for the same tokens in the same order."""
        spelled = [None if s.vocabulary is None else s.vocabulary.tokens for s in (self, other)]
        return torch.equal(self.ids, other.ids) and spelled[0] == spelled[1]

    @staticmethod
    def everything(vocabulary: Vocabulary) -> Support:
        """Every id, special and unused tokens included."""
        return Support(torch.arange(vocabulary.size), vocabulary, "all")

    @staticmethod
    def words(vocabulary: Vocabulary) -> Support:
        """Every id but the special and the unused ones: what can stand in a text."""
        if not len(vocabulary.word_ids):
            raise UsageError(
                "the vocabulary holds nothing but special and unused tokens: use the support 'all'"
            )
        return Support(vocabulary.word_ids, vocabulary, "words")

    @staticmethod
    def by_kind(vocabulary: Vocabulary, kind: int | str) -> Support:
        """Return all the tokens of a choice of support, before a number of likeliest ones is cut out."""
        if isinstance(kind, str) and kind == "all":
            return Support.everything(vocabulary)
        if kind in ("auto", "words") if isinstance(kind, str) else isinstance(kind, int) and kind >= 1:
            return Support.words(vocabulary)
        raise UsageError(
            f"unknown support {shown(kind)}: expected auto, words (no special or unused tokens), all, or a "
            f"number of likeliest tokens, 1 or more"
        )

    def likeliest(self, log_probs: Tensor, most: int, include: Sequence[int] = ()) -> Support:
        """Return the `most` likeliest tokens by log-probabilities [support], and those included by id."""
        best = log_probs.topk(min(most, len(self))).indices.tolist()
        kept = sorted({*best, *(self.index(token_id) for token_id in include)})
        return Support(self.ids[kept], self.vocabulary, f"the {len(kept)} likeliest")

    @staticmethod
    def numbered(size: int) -> Support:
        """Indices that are their own ids, for tables that do not come from a language model."""
        return Support(torch.arange(Whole(1, MOST_NUMBERED).check("the size of a support", size)))

    @cached_property
    def _position(self) -> dict[int, int]:
        return {int(token_id): i for i, token_id in enumerate(self.ids.tolist())}

    def index(self, token: int | str) -> int:
        """Return the index in the table of a token, given as an id or a string."""
        if isinstance(token, str):
            if self.vocabulary is None:
                raise UsageError(
                    f"this table has no vocabulary, so '{token}' means nothing to it: give an index"
                )
            token_id, told = self.vocabulary.find(token), f"'{token}'"
        else:
            try:
                token_id, told = operator.index(token), shown(token)
            except (TypeError, RuntimeError):  # the latter from tensors
                raise UsageError(
                    f"expected a token or its id, got {shown(token)}: an id is a whole number"
                ) from None
        if token_id not in self._position:
            if self.vocabulary is None:
                raise UsageError(f"{told} is outside this table: expected an index from 0 to {len(self) - 1}")
            if not 0 <= token_id < self.vocabulary.size:
                raise UsageError(
                    f"{told} is no token of this model: expected an id from 0 to {self.vocabulary.size - 1}"
                )
            named = f"'{self.vocabulary.token(token_id)}' (id {token_id})"
            if token_id == self.vocabulary.tokenizer.unk_token_id:
                raise UsageError(
                    f"{named} is this model's unknown token, which a blank can't hold here: check the "
                    f"spelling, or take the support 'all' to let it"
                )
            if token_id in self.vocabulary.special_ids | self.vocabulary.unused_ids:
                raise UsageError(
                    f"{named} is a special or unused token, which a blank can't hold here: take the support "
                    f"'all' to let it"
                )
            raise UsageError(
                f"{named} is not among {self.name} tokens that the blank may hold: take more of them"
            )
        return self._position[token_id]

    @cached_property
    def _ordered(self) -> tuple[Tensor, Tensor]:
        values, order = self.ids.sort()
        return values, order

    def _looked_up(self, tokens: Tensor) -> Tensor | None:
        """Return the indices of many ids at once; None if one of them is not there, to be told which."""
        if tokens.is_floating_point() or not len(self):
            return None
        values, order = self._ordered
        asked = tokens.cpu().long().contiguous()
        where = torch.searchsorted(values, asked).clamp_max(len(values) - 1)
        return order[where] if bool((values[where] == asked).all()) else None

    def indices(self, tokens: int | str | Sequence[int | str] | Tensor) -> Tensor:
        """Return the indices of one token or of many, in the shape in which they came."""
        if isinstance(tokens, Tensor):
            if not _is_readable(tokens):
                raise UsageError(
                    "expected tokens as a dense tensor of whole numbers, got one of another kind"
                )
            found = self._looked_up(tokens)
            if found is not None:
                return found
            flat = [self.index(t) for t in tokens.reshape(-1).tolist()]
            return torch.tensor(flat, dtype=torch.long).reshape(tokens.shape)
        if isinstance(tokens, str) or not isinstance(tokens, Sequence):
            return torch.tensor(self.index(tokens))
        return torch.tensor([self.index(t) for t in tokens], dtype=torch.long)


def _is_readable(tensor: Tensor) -> bool:
    """Whether a tensor's numbers are there to be read as they are."""
    return not (tensor.is_meta or tensor.is_quantized) and tensor.layout == torch.strided
