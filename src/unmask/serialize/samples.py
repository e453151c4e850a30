"""Texts drawn from a model as plain data."""

from __future__ import annotations

import math
from typing import Any

import torch

from unmask.inference.generation import Generated, InPasses
from unmask.inference.markov_chains import settled_below
from unmask.joints.joint import Joint
from unmask.models.masked_lm import MaskedLM
from unmask.serialize.basis import context, filling_answer


def sample_answer(joint: Joint, mlm: MaskedLM, n: int, seed: int) -> dict[str, Any]:
    """Return n fillings drawn from a joint."""
    drawn = joint.describe(joint.sample(n, torch.Generator().manual_seed(seed)))
    return {**context(joint, mlm), "sampling_seed": seed, "samples": [filling_answer(f) for f in drawn]}


def passes_answer(found: InPasses, mlm: MaskedLM, seed: int) -> dict[str, Any]:
    """Return fillings drawn in a few passes as plain data."""
    return {
        "model": mlm.name,
        "backend": mlm.backend,
        **found.settings,
        "length": len(found.cloze.ids),
        "blank_positions": list(found.cloze.blanks),
        "conditionals": "tree",
        "passes": found.passes,
        "sampling_seed": seed,
        "notes": list(found.cloze.notes),
        "samples": [
            {
                "text": text,
                "ids": list(filling.ids),
                "tokens": [mlm.vocabulary.token(i) for i in filling.ids],
                "log_prob": filling.log_prob,
                "probability": math.exp(filling.log_prob),
            }
            for text, filling in zip(found.texts, found.fillings, strict=True)
        ],
    }


def markov_chains_answer(
    generated: Generated, mlm: MaskedLM, sampler: str, settings: dict[str, Any]
) -> dict[str, Any]:
    """Return the draws of Markov chains as plain data."""
    draws = generated.draws
    accepted, sweeps = draws.accepted, draws.sweeps.ids.shape[1]
    rows = [
        {
            "chain": chain,
            "text": generated.cloze.filled(ids),
            "ids": ids,
            "tokens": [mlm.vocabulary.token(i) for i in ids],
            "log_weight": float(draws.log_weights[chain, n]),
        }
        for chain, drawn in enumerate(draws.ids.tolist())
        for n, ids in enumerate(drawn)
    ]
    return {
        "model": mlm.name,
        "backend": mlm.backend,
        "sampler": sampler,
        **settings,
        **generated.settings,
        "length": len(generated.cloze.ids),
        "blank_positions": list(generated.cloze.blanks),
        "passes": generated.passes,
        "sweeps": sweeps,
        "accept_rates": None if accepted is None else accepted.tolist(),
        "diagnostics": {
            name: {
                "ess": row["ess"],
                "rhat": None if row["rhat"] == math.inf else row["rhat"],  # JSON has no infinity
                "settled": None if row["rhat"] is None else row["rhat"] <= settled_below(sweeps),
            }
            for name, row in generated.diagnostics.items()
        },
        "notes": [*generated.cloze.notes, *generated.notes],
        "samples": rows,
    }
