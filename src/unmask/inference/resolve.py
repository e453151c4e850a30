"""What a query means for a model and a text: the tokens that it names, and whether there are enough of them.

`Query` has checked all that can be checked without a model. Here is the rest, in one place: more candidates
than tokens, tokens that the model does not know, and what does not go with the number of blanks.
"""

from __future__ import annotations

from unmask.errors import UsageError
from unmask.inference.methods import BEYOND_PAIRS
from unmask.inference.query import Query
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
    """Return the ids, per blank, that are held however unlikely they are: those named and the true one."""
    named = tuple(int(tokens.ids[tokens.index(token)]) for token in query.include)
    for token in cloze.truth or ():
        tokens.index(token)
    return [named + ((cloze.truth[n],) if cloze.truth else ()) for n in range(len(cloze.blanks))]


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
        raise UsageError(f"expected from 1 to {MOST_CANDIDATES} candidates per blank, got {query.candidates}")


def check_pair_tables(cloze: Cloze) -> None:
    """Refuse a text with more blanks than a table of conditionals has."""
    if len(cloze.blanks) > 2:
        told = "; ".join([*cloze.notes, f"the text has {len(cloze.blanks)} blanks"])
        raise UsageError(
            f"{told}, and a table of conditionals is of one or two: leave two, or join all of them by "
            f"unmask.fill or the command 'unmask fill'"
        )
