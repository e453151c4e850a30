"""The pair head's guesses as edges of a tree, decoded where they are read, and what blanks tell each other.

`unmask.inference.tree` makes whole tables of an edge, for joints that are asked many things. Decoding in a
few passes (`unmask.inference.parallel_decoding`) asks a tree for one filling and throws it away. So
`GuessedEdge` decodes a row when it is read, and has the conditionals of the child given the parent as the
head guesses them. (The tables have those of the mixture of both orders, made of an edge in each.)
`guessed_information` compares all pairs of blanks on likely tokens alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from unmask.inference.pair_guess import PairGuess, check_has_head, group_embeddings
from unmask.joints.edge_conditionals import EdgeConditionals, EdgeTable
from unmask.models.masked_lm import MaskedLM
from unmask.tables.token_groups import TokenGroups
from unmask.text.cloze import Cloze
from unmask.text.support import Support

OWN_ROWS, SHARED_ROWS, MEMBERS = 128, 16, 16
"""Of a parent: the tokens with their own row, the rows of the others, and how many tokens stand for one."""
COMPARED_ROWS = 16
"""The tokens with their own row where blanks are only compared; all others share one."""
COMPARED_TOKENS = 1024
"""The likeliest tokens of a blank that what others tell of it is measured on."""


class GuessedEdge(EdgeConditionals):
    """The pair head's conditionals of a child blank, a row decoded whenever it is read.

    The likeliest tokens of the parent, and those kept, have a row of their own; the others share one with
    others of like probability, which is that of their mean embedding.

    Args:
        mlm: a model with a pair head.
        cloze: the text.
        states: those at its blanks, all of them masked, [blanks, features].
        edge: the numbers of parent and child among the blanks.
        supports: the tokens that each of the two may hold.
        log_parent: log-probabilities of the parent with all blanks masked, [tokens].
        kept: ids of the parent that have a row of their own, however unlikely.
        own, shared: how many rows of their own there are, and how many that are shared.
        decode: the output layer cut to the child's tokens, if the caller has it: it may be a large copy.
    """

    def __init__(
        self,
        mlm: MaskedLM,
        cloze: Cloze,
        states: Tensor,
        edge: tuple[int, int],
        supports: tuple[Support, Support],
        log_parent: Tensor,
        kept: Sequence[int] = (),
        *,
        own: int | None = None,
        shared: int | None = None,
        decode: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        support, child = supports
        single = support.indices(support.likeliest(log_parent, own or OWN_ROWS, kept).ids)
        groups = TokenGroups.by_probability(log_parent, single, shared or SHARED_ROWS)
        none = torch.zeros(len(groups), dtype=torch.bool)
        super().__init__(groups.group_of, (len(groups), len(child)), none)
        self._guess = PairGuess(mlm, cloze, states, *edge)
        self._embeddings = group_embeddings(mlm, support, groups, MEMBERS)
        self._decode, self._mlm = decode or mlm.decoder(child.ids), mlm

    @torch.inference_mode()
    def log_rows(self, rows: Tensor) -> Tensor:
        """Return log q(child | parent) of some rows, [rows, child]."""
        return self._logits(self._embeddings[rows.to(self._embeddings.device)]).double().log_softmax(-1)

    @torch.inference_mode()
    def table(self) -> EdgeTable:
        """Return the same with all rows decoded, for an edge that is read more than once."""
        return EdgeTable(self._logits(self._embeddings), self.group_of, self.evaluated)

    def _logits(self, embeddings: Tensor) -> Tensor:
        guessed = self._guess.of_embeddings(embeddings)
        return self._decode(guessed.to(self._mlm.device)).to(self._mlm.tables_on).float().cpu()


@torch.inference_mode()
def guessed_information(
    mlm: MaskedLM, cloze: Cloze, states: Tensor, supports: Sequence[Support], alone: Sequence[Tensor]
) -> Tensor:
    """Return the mutual information of every two blanks by the pair head's guesses, [blanks, blanks] in nats.

    It is the mean of both directions. A parent has its likeliest tokens and one row for the others; a child
    has its likeliest tokens, and the others are left out.

    Args:
        mlm: a model with a pair head.
        cloze: the text.
        states: those at its blanks, all of them masked, [blanks, features].
        supports: the tokens that each blank may hold.
        alone: log-probabilities of each blank with all masked, [tokens] each.
    """
    blanks = len(supports)
    found = torch.zeros(blanks, blanks, dtype=torch.float64)
    if blanks < 2:
        return found
    head, states = check_has_head(mlm), states.float()
    places = torch.tensor(cloze.blanks, device=states.device)
    decoders = []
    for support, log_m in zip(supports, alone, strict=True):
        likely = log_m.topk(min(COMPARED_TOKENS, len(log_m))).indices.sort().values
        decoders.append(mlm.decoder(support.ids[likely.cpu()]))
    for parent, (support, log_m) in enumerate(zip(supports, alone, strict=True)):
        children = [i for i in range(blanks) if i != parent]
        single = log_m.topk(min(COMPARED_ROWS, len(log_m))).indices.sort().values.cpu()
        groups = TokenGroups.by_probability(log_m, single, 1)
        weights = torch.zeros(len(groups), dtype=torch.float64)
        weights.index_add_(0, groups.group_of, log_m.double().exp().cpu())
        guessed = head(
            states[parent].expand(len(children), 1, -1),
            states[children][:, None],
            group_embeddings(mlm, support, groups, MEMBERS)[None],
            (places[children] - places[parent])[:, None],
        )
        for child, rows in zip(children, guessed, strict=True):
            logits = decoders[child](rows.to(mlm.device)).to(mlm.tables_on)
            found[parent, child] = mutual_information(logits.double().cpu().log_softmax(-1), weights)
    return (found + found.T) / 2


def mutual_information(log_rows: Tensor, weights: Tensor) -> Tensor:
    """Return sum_a w(a) KL(p(.|a) || q) with q = sum_a w(a) p(.|a), in nats.

    `log_rows` are log p(b|a), [rows, tokens]; `weights` sum to 1, [rows].
    """
    rows = log_rows.exp()
    mixed = weights @ rows
    alone: Tensor = -torch.special.xlogy(mixed, mixed).sum()
    given: Tensor = -(weights @ torch.special.xlogy(rows, rows).sum(1))
    return (alone - given).clamp_min(0.0)
