"""What a query means for a model and a text: the tokens that it names, and whether there are enough of them.

`Query` has checked all that can be checked without a model. Here is the rest, in one place: more candidates
than tokens, tokens that the model does not know, and what does not go with the number of blanks.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.errors import UsageError
from unmask.inference.method_names import BEYOND_PAIRS
from unmask.inference.query import Query
from unmask.inference.targets import targets_of
from unmask.models.masked_lm import MaskedLM
from unmask.text.cloze import Cloze
from unmask.text.support import Support

MOST_CANDIDATES = 512
"""Candidates per blank of a joint of many blanks."""


def is_of_pairs(query: Query, cloze: Cloze) -> bool:
    """Whether the query's joint is made from a table of conditionals, of one or two blanks."""
    return len(cloze.blanks) <= 2 and query.method not in BEYOND_PAIRS


def tokens_of(query: Query, mlm: MaskedLM) -> Support:
    """Return the tokens that a blank may hold, before a number of likeliest ones is cut out.

    A table of conditionals can't have more candidates than that.
    """
    tokens = Support.by_kind(mlm.vocabulary, query.support)
    most = min(query.support, len(tokens)) if isinstance(query.support, int) else len(tokens)
    if isinstance(query.candidates, int) and query.candidates > most:
        raise UsageError(
            f"expected from 1 to {most} candidates (the tokens a blank may hold), got {query.candidates}"
        )
    return tokens


def kept_tokens(query: Query, cloze: Cloze, tokens: Support) -> list[tuple[int, ...]]:
    """Return the ids, per blank, that are held however unlikely: those named, the targets, the true one."""
    named = tuple(int(tokens.ids[tokens.index(token)]) for token in query.include)
    for token in cloze.truth or ():
        tokens.index(token)
    allowed = [tuple(t.ids[0] for t in words if len(t.ids) == 1) for words in targets_of(query, cloze)]
    return [named + allowed[n] + ((cloze.truth[n],) if cloze.truth else ()) for n in range(len(cloze.blanks))]


@torch.inference_mode()
def supports_of(
    mlm: MaskedLM, cloze: Cloze, query: Query, states: Tensor | None = None
) -> tuple[tuple[Support, ...], tuple[float, ...]]:
    """Return the tokens that each blank may hold, and the mass outside them with all blanks masked.

    What is to be included, and what is known to stand there, is held however unlikely it is. To choose the
    likeliest tokens takes a forward pass, unless the `states` with all blanks masked are known.
    """
    tokens, blanks = Support.by_kind(mlm.vocabulary, query.support), len(cloze.blanks)
    include = kept_tokens(query, cloze, tokens)
    if not isinstance(query.support, int) or query.support >= len(tokens):
        return (tokens,) * blanks, (0.0,) * blanks
    if states is None:
        states = mlm.states_at(torch.tensor([cloze.ids]), cloze.blanks)[0]
    supports, outside = [], []
    for state, kept in zip(states, include, strict=True):
        log_m = mlm.log_probs(state, tokens.ids).cpu()
        supports.append(tokens.likeliest(log_m, query.support, kept))
        outside.append(max(0.0, 1 - float(log_m[tokens.indices(supports[-1].ids)].exp().sum())))
    return tuple(supports), tuple(outside)


def check_many_blanks(query: Query, cloze: Cloze) -> None:
    """Refuse what a joint of many blanks can't be asked for."""
    blanks = len(cloze.blanks)
    if query.completion != "learned":
        raise UsageError(
            f"completion '{query.completion}' is for the tables of one or two blanks, got {blanks} "
            f"and method {query.method}: leave it out"
        )
    if query.candidates == "all":
        raise UsageError(
            f"candidates 'all' is too many combinations for {blanks} blanks: give a number, or 'auto'"
        )
    if isinstance(query.candidates, int) and query.candidates > MOST_CANDIDATES:
        raise UsageError(f"expected from 0 to {MOST_CANDIDATES} candidates per blank, got {query.candidates}")


def check_pair_tables(cloze: Cloze) -> None:
    """Refuse a text with more blanks than a table of conditionals has."""
    if len(cloze.blanks) > 2:
        told = "; ".join([*cloze.notes, f"the text has {len(cloze.blanks)} blanks"])
        raise UsageError(
            f"{told}, and a table of conditionals is of one or two: leave two, or join all of them by "
            f"unmask.fill or the command 'unmask fill'"
        )
