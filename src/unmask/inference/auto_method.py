"""Which joint a text with many blanks gets, and why.

By method:

- `ag`: the grid, if one that holds every token is affordable, and else the chain of pairs, which leaves
  nothing out; by the pair head alone (`candidates=0`) the tree, which takes one pass;
- `grid`, `chain`, `tree`: as they say;
- `product`: independent answers; `l2r`, `r2l`: the chain of single blanks in that order;
- any other construction of a pair: the chain, its blocks of two made by that construction.

What was chosen and why is among the notes that the user is told.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, NamedTuple

from unmask.diagnostics import Diagnostics
from unmask.errors import UsageError
from unmask.inference.grid_conditionals import (
    AFFORDABLE_PASSES,
    MOST_PASSES,
    affordable_candidates,
    check_grid,
    grid_conditionals,
    passes_of_grid,
)
from unmask.inference.methods import CHAIN_OPTIONS
from unmask.inference.model_conditionals import (
    PAIR_CANDIDATES,
    ModelConditionals,
    independent_joint,
    tokens_joined,
)
from unmask.inference.query import Query
from unmask.inference.resolve import check_many_blanks, kept_tokens, supports_of
from unmask.inference.tree import MOST_BLANKS, tree_joint
from unmask.inference.tree import affordable_candidates as affordable_tree
from unmask.joints.chain import Chain, Order
from unmask.joints.grid import GridJoint
from unmask.joints.joint import Joint
from unmask.joints.options import check_options, unknown_option
from unmask.joints.registry import CONSTRUCTIONS
from unmask.models.masked_lm import MaskedLM
from unmask.progress import Progress, silent
from unmask.text.cloze import Cloze
from unmask.text.support import Support
from unmask.values import plural

NO_GRID = "; the method grid joins all blanks at once, but covers only a few candidates per blank"
NO_GRID_TO_SCORE = "; a grid gives no probability to a token that is not among its candidates"


class _Blanks(NamedTuple):
    """A text's blanks, what each may hold, and the mass outside that with all of them masked."""

    mlm: MaskedLM
    cloze: Cloze
    query: Query
    supports: tuple[Support, ...]
    outside: tuple[float, ...]
    progress: Progress


def joint_of_blanks(mlm: MaskedLM, cloze: Cloze, query: Query, progress: Progress = silent) -> Joint:
    """Return the joint of any number of blanks.

    The candidates are those of the grid, or of the chain's blocks of two; `auto` takes what is affordable.
    What is to be included is among the candidates of every blank of a grid; the chain is over every token.
    """
    check_many_blanks(query, cloze)
    method, candidates = query.method, query.candidates
    supports, outside = supports_of(mlm, cloze, query)
    if method == "product":
        _check_no_candidates("product", query)
        reason = f"{_count(cloze)}: each by itself"
        known = Diagnostics(
            conditionals="product",
            passes=1,
            candidates=len(supports[0]),
            mass_outside_support=outside,
            reason=reason,
        )
        return independent_joint(mlm, _noted(cloze, reason), supports, known)
    given = _Blanks(mlm, cloze, query, supports, outside, progress)
    # whether a grid that is affordable holds every token that a blank may hold
    holds_all = max(len(support) for support in supports) <= affordable_candidates(len(supports))
    if method == "grid" or (method == "ag" and candidates == "auto" and holds_all):
        return _grid(given)
    in_one_pass = method == "ag" and candidates == 0 and not query.options and len(supports) <= MOST_BLANKS
    return _tree(given) if method == "tree" or in_one_pass else _chain(given)


def _noted(cloze: Cloze, reason: str) -> Cloze:
    return replace(cloze, notes=(*cloze.notes, reason))


def _grid(given: _Blanks) -> Joint:
    mlm, cloze, query, supports, outside, progress = given
    blanks = len(cloze.blanks)
    options = check_options("the grid", GridJoint, query.options)
    wanted = query.candidates if isinstance(query.candidates, int) else max(2, affordable_candidates(blanks))
    count = min(wanted, max(len(s) for s in supports))
    check_grid(blanks, count)
    kept = tuple(kept_tokens(query, cloze, Support.by_kind(mlm.vocabulary, query.support)))
    table = grid_conditionals(mlm, cloze, supports, count, include=kept, progress=progress)
    # what lies on no candidate: what the support leaves out, and what the grid leaves out of the support
    left = zip(outside, table.diagnostics.mass_outside_support, strict=True)
    missing = tuple(1 - (1 - cut) * (1 - lost) for cut, lost in left)
    held = max(len(s) for s in table.supports)  # more than asked for, if more were to be included
    reason = (
        f"{_count(cloze)}: the grid of {held} candidates per blank, {passes_of_grid(blanks, held):,} forward "
        f"passes (auto takes up to {AFFORDABLE_PASSES:,}, the limit is {MOST_PASSES:,}); it leaves out up to "
        f"{100 * max(missing):.0f} % of a blank's probability with all blanks masked"
    )
    known = replace(table.diagnostics, mass_outside_support=missing, reason=reason)
    return GridJoint(replace(table, diagnostics=known, cloze=_noted(cloze, reason)), **options)


def _tree(given: _Blanks) -> Joint:
    mlm, cloze, query, supports, outside, progress = given
    wanted = query.candidates if isinstance(query.candidates, int) else affordable_tree(supports)
    count = min(wanted, max(len(s) for s in supports))
    conditionals = f"{count} candidates per blank" if count else "by the pair head's guesses"
    reason = (
        f"{_count(cloze)}: a tree of the blanks that tell each other most, {conditionals}"
        if len(supports) > 1
        else "1 blank: the model's own answer, as by every method"
    )
    return tree_joint(
        mlm,
        _noted(cloze, reason),
        supports,
        count,
        include=kept_tokens(query, cloze, Support.by_kind(mlm.vocabulary, query.support)),
        diagnostics=Diagnostics(mass_outside_support=tuple(outside), reason=reason),
        progress=progress,
    )


class _ChainPlan(NamedTuple):
    """How a chain goes: in which order, by blocks of which size, and how it joins the blanks of a block."""

    order: Order
    block: Literal[1, 2]
    pairs: str
    candidates: int
    options: dict[str, Any]


def _chain(given: _Blanks) -> Joint:
    mlm, cloze, query, supports, outside, progress = given
    plan = _chain_plan(query, len(cloze.blanks))
    reason = _chain_reason(plan, given)
    conditionals = ModelConditionals(
        mlm,
        _noted(cloze, reason),
        supports,
        method=plan.pairs,
        candidates=plan.candidates,
        options=plan.options,
    )
    diagnostics = Diagnostics(
        conditionals="chain",
        candidates=plan.candidates if plan.block == 2 else None,
        mass_outside_support=outside,
        reason=reason,
    )
    return Chain(
        conditionals,
        order=plan.order,
        block=plan.block,
        beam=query.options.get("beam"),
        progress=progress,
        diagnostics=diagnostics,
    )


def _chain_plan(query: Query, blanks: int) -> _ChainPlan:
    """Read a chain's options; refuse those that contradict each other or the method."""
    method, options = query.method, query.options
    single = method in ("l2r", "r2l")
    default = list(reversed(range(blanks))) if method == "r2l" else "left-to-right"
    order: Order = CHAIN_OPTIONS["order"].kind.check("order of a chain", options.get("order", default))
    block = options.get("block", 1 if single else 2)
    for name in ("order", "block") if single else ():
        if name in options:
            raise UsageError(
                f"{method} fills single blanks in its own order: leave out the option {name}, or take the "
                f"method chain"
            )
    pairs = options.get("pairs", method if method in CONSTRUCTIONS and not single else "ag")
    if "pairs" in options and method in CONSTRUCTIONS and method not in ("ag", pairs):
        raise UsageError(
            f"the chain's pairs are joined by {method} or by pairs={pairs}: leave one of them out"
        )
    if block == 1 and "pairs" in options:
        raise UsageError("a chain of single blanks joins no pairs: leave out their construction, or block=1")
    rest = {name: value for name, value in options.items() if name not in CHAIN_OPTIONS}
    if single or block == 1:
        for name in rest:
            raise unknown_option(f"the chain of single blanks ({method})", name, {})
        _check_no_candidates("a chain of single blanks", query)
    count = query.candidates if isinstance(query.candidates, int) else PAIR_CANDIDATES
    return _ChainPlan(order, block, pairs, count, rest)


def _chain_reason(plan: _ChainPlan, given: _Blanks) -> str:
    """Say which chain it is, and what else there is."""
    cloze, method = given.cloze, given.query.method
    if isinstance(plan.order, str):
        shown = {"left-to-right": "left to right", "confidence": "the surest first"}[plan.order]
    else:
        shown = "in the order " + ", ".join(str(b) for b in plan.order)
    largest = max(given.supports, key=len)
    joined = tokens_joined((largest, largest), plan.candidates or PAIR_CANDIDATES)
    on = "every token" if joined >= len(largest) else f"{joined} candidates per blank"
    if plan.candidates == 0:
        on += " by the pair head's guesses"
    what = "single blanks" if plan.block == 1 else f"pairs (joined by {plan.pairs}, {on})"
    reason = f"{_count(cloze)}: the chain of {what}, {shown}"
    if len(cloze.blanks) == 1:  # a chain of nothing: there is no order, and no pair to join
        reason = "1 blank: the model's own answer, as by every method"
    if method == "ag":
        reason += NO_GRID if cloze.truth is None else NO_GRID_TO_SCORE
    return reason


def _count(cloze: Cloze) -> str:
    return plural(len(cloze.blanks), "blank")


def _check_no_candidates(what: str, query: Query) -> None:
    if isinstance(query.candidates, int):
        raise UsageError(f"{what} is over every token and has no candidates: leave out their number")
