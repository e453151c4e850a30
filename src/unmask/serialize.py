"""Joints as plain data: what `--json` prints, and what the server answers.

Each function returns one dictionary of strings, numbers and lists that tells the whole story: the answer,
and the model, method, candidates, seed and errors that it rests on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.distributions import kl_divergence

from unmask.api import Score
from unmask.inference.words import WordFillings
from unmask.joints.fillings import Token
from unmask.joints.joint import Filling, Joint
from unmask.joints.metrics import average_kl, incompatibility
from unmask.joints.pair import PairJoint
from unmask.joints.registry import construct
from unmask.joints.targets import TargetJoint
from unmask.joints.tree import TreeJoint
from unmask.models.masked_lm import MaskedLM
from unmask.progress import Progress, silent


def fill_answer(joint: Joint, mlm: MaskedLM, top: int) -> dict[str, Any]:
    """Return the likeliest fillings of a joint."""
    fillings = [filling_answer(f) for f in joint.top(top)]  # before the passes are told: a chain makes some
    return {
        **_context(joint, mlm),
        **_shape(joint),
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
    context = {**_context(score.joint, mlm), **filling_answer(filling)}
    if score.blocks:  # of a chain
        return context | {
            "blocks": [
                {"blanks": list(block), "tokens": [filling.tokens[b] for b in block], "log_prob": log_prob}
                for block, log_prob in score.blocks
            ]
        }
    tokens = zip(filling.tokens, filling.ids, score.conditional_log_probs, strict=True)
    return context | {
        "blanks": [
            {
                "token": t,
                "id": i,
                "log_prob_given_others": c,
                "log_prob_alone": float(score.joint.marginal(n).log_prob(i)),
            }
            for n, (t, i, c) in enumerate(tokens)
        ],
    }


def sample_answer(joint: Joint, mlm: MaskedLM, n: int, seed: int) -> dict[str, Any]:
    """Return n fillings drawn from a joint."""
    drawn = joint.describe(joint.sample(n, torch.Generator().manual_seed(seed)))
    return {**_context(joint, mlm), "sampling_seed": seed, "samples": [filling_answer(f) for f in drawn]}


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
            **_shape(joint),
            "kl_from_product": float(kl_divergence(joint, product)),
            "average_kl": average_kl(_of_all_tokens(joint)),
            "mass_outside_candidates": joint.mass_outside_candidates(),
            "agrees_with_product": fillings[0].ids == independent.ids,
            **_made_by(joint),
            "fillings": [filling_answer(f) for f in fillings],
        }
    return {
        **_shared_context(product, mlm),
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

    return {**_context(joint, mlm), **_shape(joint), "independent": told(independent), "joint": told(best)}


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
        **_context(joint, mlm),
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
        **_context(joint, mlm),
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


def _id_of(joint: Joint, blank: int, token: Token) -> int:
    support = joint.supports[blank]
    return int(support.ids[support.index(token)])


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
            **_shape(joint),
            **_made_by(joint),
        }
    return {
        **_shared_context(first, mlm),
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


def compatibility_answer(joint: PairJoint, mlm: MaskedLM) -> dict[str, Any]:
    """Return how well the model's conditionals fit together, and the joint to them."""
    return {
        **_context(joint, mlm),
        "incompatibility": incompatibility(joint.conditionals),
        "average_kl": average_kl(joint),
    }


def token_answer(mlm: MaskedLM, token_id: int) -> dict[str, Any]:
    """Return one token, as the tokenizer spells it and as it looks in a text."""
    vocabulary = mlm.vocabulary
    return {"token": vocabulary.token(token_id), "id": token_id, "text": vocabulary.surface(token_id)}


def filling_answer(filling: Filling) -> dict[str, Any]:
    """Return one filling."""
    beside = filling.unrestricted_log_prob
    return {
        "tokens": list(filling.tokens),
        "ids": list(filling.ids),
        "text": filling.text,
        "log_prob": filling.log_prob,
        "probability": math.exp(filling.log_prob),
        **({} if beside is None else {"unrestricted_log_prob": beside}),
    }


def _of_all_tokens(joint: PairJoint | TargetJoint) -> PairJoint:
    """Return a pair's joint as it was before it was restricted to targets."""
    pair = joint.source if isinstance(joint, TargetJoint) else joint
    assert isinstance(pair, PairJoint)
    return pair


def _shape(joint: Joint) -> dict[str, Any]:
    if not joint.tractable:  # every filling would have to be scored
        return {"entropy": None, "mutual_information": None}
    return {
        "entropy": float(joint.entropy()),
        "mutual_information": float(joint.mutual_information()),
    }


def _shared_context(joint: Joint, mlm: MaskedLM) -> dict[str, Any]:
    """Return what the answers of several constructions rest on in common."""
    context = _context(joint, mlm)
    del context["method"], context["solver"], context["options"]
    return context


def _context(joint: Joint, mlm: MaskedLM) -> dict[str, Any]:
    """Return what the answer rests on."""
    cloze = joint.cloze
    assert cloze is not None
    return {
        "model": mlm.name,
        "backend": mlm.backend,
        "method": joint.method,
        "length": len(cloze.ids),
        "blank_positions": list(cloze.blanks),
        "support": joint.supports[0].name,
        "support_sizes": [len(support) for support in joint.supports],
        **joint.diagnostics.to_dict(),
        "notes": list(cloze.notes),
    }


def _made_by(joint: Joint) -> dict[str, Any]:
    """Return what a construction's solver did, and its options as they were resolved."""
    told = joint.diagnostics.to_dict()
    return {"solver": told["solver"], "options": told["options"]}
