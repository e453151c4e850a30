"""The sentences of the page on encoders that say what encoders.json says, and no more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

MOST_FREQUENT = "most frequent"


def pretraining_gains(found: dict[str, Any], tasks: Sequence[str]) -> str:
    """Say by how many points the embedded model is ahead of its twin, the largest gain first."""
    gains = {}
    for task in tasks:
        if {"english", "twin"} <= found[task].keys():
            model, twin = (found[task][name]["test"]["overall"] for name in ("english", "twin"))
            name = next(iter(model))
            gains[f"{task} ({name.replace('_', ' ')})"] = 100 * (model[name] - twin[name])
    ordered = sorted(gains.items(), key=lambda gain: -gain[1])
    return f"Pretraining gives, in points: {', '.join(f'{task} {gain:+.1f}' for task, gain in ordered)}."


def sense_gains(found: dict[str, Any]) -> str:
    """Say by how many points of F1 sense vectors are ahead of the most frequent sense, by model."""
    lines = []
    for corpus in ("senseval2", "semeval2007"):
        for model in (model for model in ("english", "twin") if model in found):
            scores = {method: 100 * by_pos["all"]["f1"] for method, by_pos in found[model][corpus].items()}
            base = scores.pop(MOST_FREQUENT)
            told = ", ".join(f"{method} {score - base:+.1f}" for method, score in scores.items())
            lines.append(f"- {corpus}, {model}: {told}")
    return "Points of F1 above the most frequent sense:\n\n" + "\n".join(lines)
