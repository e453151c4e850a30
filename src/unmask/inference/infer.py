"""Ask a model what a cloze needs, and make the cloze's joint: the middle of the way of the data.

`infer` goes all of it; `conditionals` and `joint_of` are its halves, for whoever asks once and constructs
several times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from torch import Tensor

from unmask.diagnostics import Diagnostics
from unmask.errors import UsageError
from unmask.inference.auto_method import joint_of_blanks
from unmask.inference.cross import cross_steps
from unmask.inference.exact import exact_conditionals
from unmask.inference.query import Query, SupportChoice
from unmask.inference.resolve import check_pair_tables, is_of_pairs, kept_tokens, supports_of, tokens_of
from unmask.inference.shared_passes import Steps, masked_states, run_together
from unmask.inference.targets import are_single_tokens, restricted, target_joint, targets_of
from unmask.joints.joint import Joint
from unmask.joints.registry import construct
from unmask.joints.table import TokenDistribution
from unmask.models.masked_lm import MaskedLM
from unmask.progress import Progress, silent
from unmask.tables.pair_conditionals import PairConditionals
from unmask.text.cloze import Cloze
from unmask.text.support import Support

TEXTS_AT_ONCE = 16
"""Texts of a list whose forward passes share batches; their tables are held at the same time."""
LARGEST_AUTO_EXACT = 512
"""`auto` asks about every token where there are no more than this, and about some of them otherwise."""


def infer(mlm: MaskedLM, cloze: Cloze, query: Query, progress: Progress = silent) -> Joint:
    """Return the joint of a cloze's blanks, however many, restricted to targets if any are given."""
    if query.targets is None:
        return _unrestricted(mlm, cloze, query, progress)
    return target_joint(
        cloze, query, mlm.window, lambda text, asked: _unrestricted(mlm, text, asked, progress)
    )


def infer_many(
    mlm: MaskedLM, clozes: Sequence[Cloze], query: Query, progress: Progress = silent
) -> Iterator[Joint]:
    """Yield the joint of each cloze; texts of one or two blanks share their forward passes.

    `TEXTS_AT_ONCE` of them are worked on together, so what is held does not grow with their number.
    """
    for part in parts_of(clozes):
        sharing = [n for n, cloze in enumerate(part) if _is_of_tables(query, cloze)]
        tables = dict(
            zip(sharing, conditionals_of_many(mlm, [part[n] for n in sharing], query, progress), strict=True)
        )
        for n, cloze in enumerate(part):
            yield joint_of(tables.pop(n), query) if n in tables else infer(mlm, cloze, query, progress)


def parts_of(clozes: Sequence[Cloze]) -> Iterator[Sequence[Cloze]]:
    """Yield the clozes of a list, as many at a time as are worked on together."""
    for start in range(0, len(clozes), TEXTS_AT_ONCE):
        yield clozes[start : start + TEXTS_AT_ONCE]


def _is_of_tables(query: Query, cloze: Cloze) -> bool:
    return is_of_pairs(query, cloze) and are_single_tokens(targets_of(query, cloze))


def _unrestricted(mlm: MaskedLM, cloze: Cloze, query: Query, progress: Progress) -> Joint:
    if is_of_pairs(query, cloze):
        return _constructed(conditionals(mlm, cloze, query, progress), query)
    return joint_of_blanks(mlm, cloze, query, progress)


def conditionals(
    mlm: MaskedLM, cloze: Cloze, query: Query, progress: Progress = silent
) -> PairConditionals | TokenDistribution:
    """Ask the model what a cloze with two blanks needs; with one blank its answer is the distribution."""
    return conditionals_of_many(mlm, [cloze], query, progress)[0]


def conditionals_of_many(
    mlm: MaskedLM, clozes: Sequence[Cloze], query: Query, progress: Progress = silent
) -> list[PairConditionals | TokenDistribution]:
    """Ask the model the same about several clozes, their forward passes in common batches."""
    for cloze in clozes:
        tokens_of(query, mlm)
        check_pair_tables(cloze)
        kept_tokens(query, cloze, Support.by_kind(mlm.vocabulary, query.support))
    states = masked_states(mlm, clozes)
    works = [_steps(mlm, cloze, query, found, progress) for cloze, found in zip(clozes, states, strict=True)]
    return run_together(mlm, works, progress)


def _steps(
    mlm: MaskedLM, cloze: Cloze, query: Query, states: Tensor, progress: Progress
) -> Steps[PairConditionals | TokenDistribution]:
    """Make the conditionals of one cloze from its states with all blanks masked, [blanks, features]."""
    tokens = tokens_of(query, mlm)
    kept = kept_tokens(query, cloze, tokens)
    if len(cloze.blanks) == 1:
        return _one_blank(mlm, cloze, tokens, query.support, kept[0], states[0])
    (a, b), outside = supports_of(mlm, cloze, query, states)
    supports = (a, b)
    most = max(len(tokens_of_blank) for tokens_of_blank in supports)
    if query.candidates == "all" or (query.candidates == "auto" and most <= LARGEST_AUTO_EXACT):
        table = exact_conditionals(mlm, cloze, supports, progress)
    else:
        table = yield from cross_steps(
            mlm,
            cloze,
            supports,
            query.candidates,
            completion=query.completion,
            include=(kept[0], kept[1]),
            seed=query.seed,
            states=states,
        )
    return replace(table, diagnostics=replace(table.diagnostics, mass_outside_support=outside))


def _one_blank(
    mlm: MaskedLM,
    cloze: Cloze,
    tokens: Support,
    support: SupportChoice,
    include: tuple[int, ...],
    state: Tensor,
) -> TokenDistribution:
    """Return the plain model's answer, over the likeliest tokens alone if a number of them is asked for."""
    logits = mlm.decoder(tokens.ids)(state).to(mlm.tables_on).double()
    outside = 0.0
    if isinstance(support, int) and support < len(tokens):
        kept = tokens.likeliest(logits, support, include)
        inside = tokens.indices(kept.ids).to(logits.device)
        outside = max(0.0, 1 - float(logits.softmax(0)[inside].sum()))
        tokens, logits = kept, logits[inside]
    known = Diagnostics(
        conditionals="exact", passes=1, candidates=len(tokens), mass_outside_support=(outside,)
    )
    return TokenDistribution(logits.log_softmax(0), tokens, method="mlm", diagnostics=known, cloze=cloze)


def joint_of(table: PairConditionals | TokenDistribution, query: Query) -> Joint:
    """Make the joint of a cloze from what the model said, restricted to targets of one token each."""
    joint = _constructed(table, query)
    if query.targets is None:
        return joint
    assert joint.cloze is not None
    return restricted(joint, targets_of(query, joint.cloze))


def _constructed(table: PairConditionals | TokenDistribution, query: Query) -> Joint:
    if isinstance(table, TokenDistribution):
        for name in query.options:
            raise UsageError(f"one blank needs no construction, so it has no option '{name}'")
        return table
    return construct(query.method, table, **query.options)
