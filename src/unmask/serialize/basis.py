"""What an answer rests on, as plain data: the model, the method, the tokens, the errors."""

from __future__ import annotations

import math
from typing import Any

from unmask.joints.joint import Filling, Joint
from unmask.models.masked_lm import MaskedLM


def context(joint: Joint, mlm: MaskedLM) -> dict[str, Any]:
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


def shared_context(joint: Joint, mlm: MaskedLM) -> dict[str, Any]:
    """Return what the answers of several constructions rest on in common."""
    own = ("method", "solver", "options")
    return {name: value for name, value in context(joint, mlm).items() if name not in own}


def made_by(joint: Joint) -> dict[str, Any]:
    """Return what a construction's solver did, and its options as they were resolved."""
    told = joint.diagnostics.to_dict()
    return {"solver": told["solver"], "options": told["options"]}


def shape(joint: Joint) -> dict[str, Any]:
    """Return a joint's entropy and mutual information, if they can be computed."""
    if not joint.tractable:  # every filling would have to be scored
        return {"entropy": None, "mutual_information": None}
    return {
        "entropy": float(joint.entropy()),
        "mutual_information": float(joint.mutual_information()),
    }


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


def token_answer(mlm: MaskedLM, token_id: int) -> dict[str, Any]:
    """Return one token, as the tokenizer spells it and as it looks in a text."""
    vocabulary = mlm.vocabulary
    return {"token": vocabulary.token(token_id), "id": token_id, "text": vocabulary.surface(token_id)}
