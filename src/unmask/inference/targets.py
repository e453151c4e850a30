"""The joint of a text's blanks restricted to allowed words (`unmask.joints.targets`).

The model is asked about every target, whatever else it is asked about. Where all targets are single tokens
there is one joint to restrict. Words of several tokens take as many blanks, so each combination of lengths
is a text of its own with a joint of its own, the one by which `unmask.score` scores it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from unmask.diagnostics import Diagnostics
from unmask.errors import UsageError
from unmask.inference.query import Query
from unmask.joints.joint import Joint
from unmask.joints.targets import TargetJoint
from unmask.text.cloze import Cloze, expanded
from unmask.text.support import Support
from unmask.text.targets import Target, spell_targets

MOST_FILLINGS = 10_000
"""Combinations of targets that are scored."""
Words = Sequence[Sequence[Target]]


def targets_of(query: Query, cloze: Cloze) -> Words:
    """Return the targets of each blank, spelled; none if the query has none."""
    if query.targets is None:
        return ((),) * len(cloze.blanks)
    found = spell_targets(query.targets, cloze, Support.by_kind(cloze.vocabulary, query.support))  # type: ignore[arg-type]
    fillings = math.prod(len(words) for words in found)
    if fillings > MOST_FILLINGS:
        raise UsageError(
            f"targets: the lists make {fillings:,} fillings, and at most {MOST_FILLINGS:,} are scored: give "
            f"fewer words"
        )
    return found


def are_single_tokens(targets: Words) -> bool:
    """Whether every target is one token."""
    return all(len(target.ids) == 1 for words in targets for target in words)


def restricted(joint: Joint, targets: Words) -> TargetJoint:
    """Return a joint restricted to targets, each of a single token."""
    assert joint.cloze is not None
    if not are_single_tokens(targets):
        long = next(target.word for words in targets for target in words if len(target.ids) > 1)
        raise UsageError(
            f"targets: '{long}' is several tokens for this model, and here each is one: use fill"
        )
    fillings = torch.tensor(list(itertools.product(*([t.ids[0] for t in words] for words in targets))))
    log_q = joint.log_prob(fillings).double().cpu().reshape([len(words) for words in targets])
    return TargetJoint(
        log_q, targets, method=joint.method, cloze=joint.cloze, source=joint, diagnostics=joint.diagnostics
    )


def target_joint(
    cloze: Cloze, query: Query, window: int, unrestricted: Callable[[Cloze, Query], Joint]
) -> TargetJoint:
    """Return the joint restricted to a query's targets; `unrestricted` makes the joint of a text."""
    targets = targets_of(query, cloze)
    if are_single_tokens(targets):
        return restricted(unrestricted(cloze, query), targets)
    if cloze.truth is not None:
        raise UsageError("targets: words in braces have targets of one token each: use fill for longer ones")
    longest = len(cloze.ids) + sum(max(len(t.ids) for t in words) - 1 for words in targets)
    if longest > window:
        raise UsageError(
            f"targets: with the longest words the text has {longest} tokens, but the model's window holds "
            f"{window}: shorten it, or give shorter words"
        )
    log_q = torch.empty([len(words) for words in targets], dtype=torch.float64)
    joints: list[Joint] = []
    for lengths in itertools.product(*(sorted({len(t.ids) for t in words}) for words in targets)):
        where = [
            [n for n, target in enumerate(words) if len(target.ids) == length]
            for words, length in zip(targets, lengths, strict=True)
        ]
        ids = [[words[n].ids for n in chosen] for words, chosen in zip(targets, where, strict=True)]
        asked = [list(dict.fromkeys(at)) for same in ids for at in zip(*same, strict=True)]
        joints.append(unrestricted(expanded(cloze, lengths), replace(query, targets=asked)))
        fillings = torch.tensor([list(itertools.chain(*parts)) for parts in itertools.product(*ids)])
        found = joints[-1].log_prob(fillings).double().cpu().reshape([len(chosen) for chosen in where])
        log_q[torch.meshgrid(*map(torch.tensor, where), indexing="ij")] = found
    methods = list(dict.fromkeys(joint.method for joint in joints))
    return TargetJoint(
        log_q,
        targets,
        method=methods[0] if len(methods) == 1 else query.method,
        cloze=cloze,
        source=joints[0] if len(joints) == 1 else None,
        diagnostics=_summed([joint.diagnostics for joint in joints]),
    )


def _summed(parts: list[Diagnostics]) -> Diagnostics:
    """Return what several joints rest on together: the passes of all, and the worst of their errors."""
    if len(parts) == 1:
        return parts[0]
    errors = [part.estimated_error for part in parts if part.estimated_error is not None]
    return Diagnostics(
        conditionals="targets",
        passes=sum(part.passes for part in parts),
        estimated_error=max(errors, default=None),
        mass_outside_support=(max(max(part.mass_outside_support) for part in parts),),
        reason=f"targets of different lengths: {len(parts)} joints, one per combination of lengths",
    )
