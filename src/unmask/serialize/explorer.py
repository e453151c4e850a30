"""One joint looked at from several sides, as plain data: what the explorer draws."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.distributions import kl_divergence

from unmask.joints.fillings import Token
from unmask.joints.joint import Joint
from unmask.joints.pair import PairJoint
from unmask.joints.registry import construct
from unmask.joints.tree import TreeJoint
from unmask.models.masked_lm import MaskedLM
from unmask.serialize.basis import context, made_by, shape, shared_context, token_answer


def conditional_answer(
    joint: Joint, mlm: MaskedLM, blank: int, given_blank: int, given: Token, top: int
) -> dict[str, Any]:
    """Return one blank's distribution when another holds a token, and what it was before that was known."""
    after, before = joint.conditional(blank, {given_blank: given}), joint.marginal(blank)
    own = None
    if isinstance(joint, PairJoint):
        # the chain m(a) p(b|a) keeps the model's p(b|a) as it is, and its mirror p(a|b)
        chain = construct("l2r" if blank else "r2l", joint.conditionals)
        own = chain.conditional(blank, {given_blank: given})
    known_id = _id_of(joint, given_blank, given)
    return {
        **context(joint, mlm),
        "blank": blank,
        "given_blank": given_blank,
        "given": token_answer(mlm, known_id),
        "given_probability": float(joint.marginal(given_blank).log_prob(known_id).exp()),
        "entropy": float(after.entropy()),
        "marginal_entropy": float(before.entropy()),
        "information": max(0.0, float(kl_divergence(after, before))),
        "tokens": [
            {
                **token_answer(mlm, f.ids[0]),
                "probability": math.exp(f.log_prob),
                "log_prob": f.log_prob,
                "marginal_probability": float(before.log_prob(f.ids[0]).exp()),
                "model_probability": None if own is None else float(own.log_prob(f.ids[0]).exp()),
            }
            for f in after.top(top)
        ],
    }


def marginals_answer(joint: Joint, mlm: MaskedLM, given: Mapping[int, Token], top: int) -> dict[str, Any]:
    """Return every blank's distribution when some hold tokens, and what it was before they were known.

    A tree tells which blanks it joins, and the mutual informations by which it chose them.
    """
    for blank in given:
        joint.marginal(blank)  # raises if there is no such blank
    known = {blank: _id_of(joint, blank, token) for blank, token in given.items()}
    tree = joint if isinstance(joint, TreeJoint) else None
    return {
        **context(joint, mlm),
        "blanks": [_marginal_answer(joint, mlm, blank, known, top) for blank in range(joint.blanks)],
        "edges": None if tree is None else [list(edge) for edge in tree.edges],
        "information": None if tree is None or tree.information is None else tree.information.tolist(),
    }


def _marginal_answer(
    joint: Joint, mlm: MaskedLM, blank: int, known: Mapping[int, int], top: int
) -> dict[str, Any]:
    before = joint.marginal(blank)
    others = {other: token for other, token in known.items() if other != blank}
    held = known.get(blank)
    after = joint.conditional(blank, others) if others and held is None else before
    rows = [(f.ids[0], f.log_prob) for f in after.top(top)]
    if held is not None:
        rows = [(held, 0.0), *((token_id, -math.inf) for token_id, _ in rows if token_id != held)][:top]
    return {
        "given": None if held is None else token_answer(mlm, held),
        "entropy": 0.0 if held is not None else float(after.entropy()),
        "marginal_entropy": float(before.entropy()),
        "tokens": [
            {
                **token_answer(mlm, token_id),
                "probability": math.exp(log_prob),
                "marginal_probability": float(before.log_prob(token_id).exp()),
            }
            for token_id, log_prob in rows
        ],
    }


def map_answer(
    joints: Mapping[str, Joint], mlm: MaskedLM, size: int, blanks: tuple[int, int] = (0, 1)
) -> dict[str, Any]:
    """Return the joint probabilities of the likeliest tokens of two blanks, the same ones for every joint.

    The tokens are those whose marginals, averaged over the joints, are the largest.
    """
    first = next(iter(joints.values()))
    marginals = {name: [joint.marginal(blank) for blank in blanks] for name, joint in joints.items()}
    shown = []
    for side, blank in enumerate(blanks):
        support = first.supports[blank]
        mean = torch.stack([m[side].log_probs.exp() for m in marginals.values()]).mean(0)
        shown.append(support.ids[mean.topk(min(size, len(support))).indices.cpu()])
    rows, columns = shown
    parts = {}
    for name, joint in joints.items():
        block = _block(joint, blanks, rows, columns)
        parts[name] = {
            "probabilities": block.tolist(),
            "row_marginals": marginals[name][0].log_prob(rows[:, None]).exp().tolist(),
            "column_marginals": marginals[name][1].log_prob(columns[:, None]).exp().tolist(),
            "mass_shown": float(block.sum()),
            **shape(joint),
            **made_by(joint),
        }
    return {
        **shared_context(first, mlm),
        "blanks": list(blanks),
        "rows": [token_answer(mlm, i) for i in rows.tolist()],
        "columns": [token_answer(mlm, i) for i in columns.tolist()],
        "methods": parts,
    }


def _block(joint: Joint, blanks: tuple[int, int], rows: Tensor, columns: Tensor) -> Tensor:
    """Return the probabilities of two blanks' tokens together, whatever the others hold, [rows, columns]."""
    if joint.blanks == 2:
        pairs = torch.cartesian_prod(*((rows, columns) if blanks == (0, 1) else (columns, rows)))
        block = joint.log_prob(pairs).exp()
        return block.reshape(len(rows), -1) if blanks == (0, 1) else block.reshape(len(columns), -1).T
    row, column = blanks
    alone = joint.marginal(row).log_prob(rows[:, None])
    lines = [joint.conditional(column, {row: int(i)}).log_prob(columns[:, None]) for i in rows]
    return (alone[:, None] + torch.stack(lines)).exp()


def _id_of(joint: Joint, blank: int, token: Token) -> int:
    support = joint.supports[blank]
    return int(support.ids[support.index(token)])
