"""Joints of a text's blanks as plain data: their likeliest fillings, a score, one beside another."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch.distributions import kl_divergence

from unmask.api import Score
from unmask.inference.words import WordFillings
from unmask.joints.joint import Filling, Joint
from unmask.joints.metrics import average_kl, incompatibility
from unmask.joints.pair import PairJoint
from unmask.joints.registry import construct
from unmask.joints.targets import TargetJoint
from unmask.models.masked_lm import MaskedLM
from unmask.progress import Progress, silent
from unmask.serialize.basis import context, filling_answer, made_by, shape, shared_context


def fill_answer(joint: Joint, mlm: MaskedLM, top: int) -> dict[str, Any]:
    """Return the likeliest fillings of a joint."""
    fillings = [filling_answer(f) for f in joint.top(top)]  # before the passes are told: a chain makes some
    return {
        **context(joint, mlm),
        **shape(joint),
        "mass_outside_candidates": joint.mass_outside_candidates(),
        **({"targets_log_prob": joint.targets_log_prob} if isinstance(joint, TargetJoint) else {}),
        "fillings": fillings,
    }


def words_answer(found: WordFillings, mlm: MaskedLM) -> dict[str, Any]:
    """Return the likeliest words of a text's blanks."""
    return {
        "model": mlm.name,
        "backend": mlm.backend,
        "method": "chain",
        "length": len(found.cloze.ids),
        "blank_positions": list(found.cloze.blanks),
        "prior": list(found.prior),
        "passes": found.passes,
        "notes": list(found.cloze.notes),
        "fillings": [
            {
                "words": list(f.words),
                "ids": [list(part) for part in f.ids],
                "tokens": [[mlm.vocabulary.token(i) for i in part] for part in f.ids],
                "text": f.text,
                "log_prob": f.log_prob,
                "probability": math.exp(f.log_prob),
            }
            for f in found.fillings
        ],
    }


def score_answer(score: Score, mlm: MaskedLM) -> dict[str, Any]:
    """Return what the true tokens are worth."""
    filling = score.filling
    told = {**context(score.joint, mlm), **filling_answer(filling)}
    if score.blocks:  # of a chain
        return told | {
            "blocks": [
                {"blanks": list(block), "tokens": [filling.tokens[b] for b in block], "log_prob": log_prob}
                for block, log_prob in score.blocks
            ]
        }
    tokens = zip(filling.tokens, filling.ids, score.conditional_log_probs, strict=True)
    return told | {
        "blanks": [
            {
                "token": t,
                "id": i,
                "log_prob_given_others": c,
                "marginal_log_prob": float(score.joint.marginal(n).log_prob(i)),
            }
            for n, (t, i, c) in enumerate(tokens)
        ],
    }


def compare_answer(
    joints: Mapping[str, PairJoint | TargetJoint], mlm: MaskedLM, top: int, progress: Progress = silent
) -> dict[str, Any]:
    """Return every construction's answer, and how far each is from the independent one."""
    product = joints["product"]
    independent = product.top(1)[0]
    rows = {}
    for name, joint in progress.over(list(joints.items()), total=len(joints), stage="comparing"):
        fillings = joint.top(top)
        rows[name] = {
            **shape(joint),
            "kl_from_product": float(kl_divergence(joint, product)),
            "average_kl": average_kl(_of_all_tokens(joint)),
            "mass_outside_candidates": joint.mass_outside_candidates(),
            "agrees_with_product": fillings[0].ids == independent.ids,
            **made_by(joint),
            "fillings": [filling_answer(f) for f in fillings],
        }
    return {
        **shared_context(product, mlm),
        "incompatibility": incompatibility(_of_all_tokens(product).conditionals),
        "methods": rows,
    }


def explain_answer(joint: PairJoint, mlm: MaskedLM) -> dict[str, Any]:
    """Return the independent and the joint answer, and what the model's own conditionals say of both."""
    independent = construct("product", joint.conditionals).top(1)[0]
    best = joint.top(1)[0]
    table = joint.conditionals

    def told(filling: Filling) -> dict[str, Any]:
        tokens = [s.index(i) for s, i in zip(joint.supports, filling.ids, strict=True)]
        (a, b), (a_within, b_within) = joint.place(*tokens)
        first, second = float(table.a_given_b(a, b)) + a_within, float(table.b_given_a(a, b)) + b_within
        (described,) = joint.describe(torch.tensor([filling.ids]))
        return {
            **filling_answer(described),
            "first_given_second": first,
            "second_given_first": second,
            "first_alone": float(table.a_alone[a]) + a_within,
            "second_alone": float(table.b_alone[b]) + b_within,
            "model_log_score": first + second,
        }

    return {**context(joint, mlm), **shape(joint), "independent": told(independent), "joint": told(best)}


def compatibility_answer(joint: PairJoint, mlm: MaskedLM) -> dict[str, Any]:
    """Return how well the model's conditionals fit together, and the joint to them."""
    return {
        **context(joint, mlm),
        "incompatibility": incompatibility(joint.conditionals),
        "average_kl": average_kl(joint),
    }


def _of_all_tokens(joint: PairJoint | TargetJoint) -> PairJoint:
    """Return a pair's joint as it was before it was restricted to targets."""
    pair = joint.source if isinstance(joint, TargetJoint) else joint
    assert isinstance(pair, PairJoint)
    return pair
