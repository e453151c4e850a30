"""Ask a model what a cloze needs, and make the cloze's joint: the middle of the way of the data.

`infer` goes all of it; `conditionals` and `joint_of` are its halves, for whoever asks once and constructs
several times.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from unmask.diagnostics import Diagnostics
from unmask.errors import UsageError
from unmask.inference.auto_method import joint_of_blanks
from unmask.inference.cross import cross_conditionals
from unmask.inference.exact import exact_conditionals
from unmask.inference.query import Query, SupportChoice
from unmask.inference.resolve import check_pair_tables, is_of_pairs, kept_tokens, supports_of, tokens_of
from unmask.inference.targets import restricted, target_joint, targets_of
from unmask.joints.joint import Joint
from unmask.joints.registry import construct
from unmask.joints.table import TokenDistribution
from unmask.joints.targets import TargetJoint
from unmask.models.masked_lm import MaskedLM
from unmask.progress import Progress, silent
from unmask.tables.pair_conditionals import PairConditionals
from unmask.text.cloze import Cloze
from unmask.text.support import Support

LARGEST_AUTO_EXACT = 512
"""`auto` asks about every token where there are no more than this, and about some of them otherwise."""


def infer(mlm: MaskedLM, cloze: Cloze, query: Query, progress: Progress = silent) -> Joint:
    """Return the joint of a cloze's blanks, however many, restricted to targets if any are given."""
    if query.targets is None:
        return _unrestricted(mlm, cloze, query, progress)
    return joint_of_targets(mlm, cloze, query, progress)


def joint_of_targets(mlm: MaskedLM, cloze: Cloze, query: Query, progress: Progress = silent) -> TargetJoint:
    """Return the joint of a cloze's blanks restricted to the query's targets."""
    return target_joint(
        cloze, query, mlm.window, lambda text, asked: _unrestricted(mlm, text, asked, progress)
    )


def _unrestricted(mlm: MaskedLM, cloze: Cloze, query: Query, progress: Progress) -> Joint:
    if is_of_pairs(query, cloze):
        return _constructed(conditionals(mlm, cloze, query, progress), query)
    return joint_of_blanks(mlm, cloze, query, progress)


def conditionals(
    mlm: MaskedLM, cloze: Cloze, query: Query, progress: Progress = silent
) -> PairConditionals | TokenDistribution:
    """Ask the model what a cloze with two blanks needs; with one blank its answer is the distribution."""
    tokens = tokens_of(query, mlm)
    check_pair_tables(cloze)
    kept = kept_tokens(query, cloze, tokens)
    if len(cloze.blanks) == 1:
        return _one_blank(mlm, cloze, tokens, query.support, kept[0])
    (a, b), outside = supports_of(mlm, cloze, query)
    supports = (a, b)
    most = max(len(tokens_of_blank) for tokens_of_blank in supports)
    if query.candidates == "all" or (query.candidates == "auto" and most <= LARGEST_AUTO_EXACT):
        table = exact_conditionals(mlm, cloze, supports, progress)
    else:
        table = cross_conditionals(
            mlm,
            cloze,
            supports,
            query.candidates,
            completion=query.completion,
            include=(kept[0], kept[1]),
            seed=query.seed,
            progress=progress,
        )
    choosing = isinstance(query.support, int) and query.support < len(tokens)  # one pass more
    known = table.diagnostics
    known = replace(known, mass_outside_support=outside, passes=known.passes + choosing)
    return replace(table, diagnostics=known)


def _one_blank(
    mlm: MaskedLM, cloze: Cloze, tokens: Support, support: SupportChoice, include: tuple[int, ...]
) -> TokenDistribution:
    """Return the plain model's answer, over the likeliest tokens alone if a number of them is asked for."""
    state = mlm.states(torch.tensor([cloze.ids]), cloze.blanks[0])[0]
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


def joint_of(table: PairConditionals | TokenDistribution | TargetJoint, query: Query) -> Joint:
    """Make the joint of a cloze from what the model said, restricted to targets of one token each."""
    if isinstance(table, TargetJoint):
        return table
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
