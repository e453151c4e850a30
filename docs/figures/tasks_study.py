"""Draw what joints give tasks over independent answers, from tasks_study.json (of recipes/tasks_study.py).

python docs/figures/tasks_study.py
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from drawing import HERE, bars, pyplot, save

FILLERS = {
    "l2r": ("chain", "#1f6fb4"),
    "ag": ("chain of ag pairs", "#7fb3dd"),
    "tree": ("tree", "#c1571f"),
    "tree-0": ("tree (one pass)", "#e5a57f"),
}
SCORERS = {
    "l2r": ("l2r", "#1f6fb4"),
    "r2l": ("r2l", "#7fb3dd"),
    "ag": ("ag", "#c1571f"),
    "ag-0": ("ag (one pass)", "#e5a57f"),
}
LONG = 25
"""Characters of a line beside the axis."""
Gains = dict[str, dict[str, Any]]


def draw(found: dict[str, Any]) -> None:
    """Draw gains with their intervals: of names by their number of tokens, of labels by prompt."""
    plt = pyplot("tasks_study")
    blanks = found.get("entities", {}).get("blanks", {})
    labels = {
        _short(part, prompt, name): said["auc"]
        for part in ("sentiment", "rte")
        for prompt, by in found.get(part, {}).get("prompts", {}).items()
        for name, said in by.items()
    }
    panels: list[tuple[str, Gains, Mapping[str, tuple[str, str]], float]] = [
        ("gain in log-probability of the name, nats", _of(blanks, "log_prob"), FILLERS, 1),
        ("gain in recall@1, points", _of(blanks, "recall@1"), FILLERS, 100),
        ("gain in AUC", labels, SCORERS, 1),
    ]
    figure, axes = plt.subplots(1, len(panels), figsize=(11, 4.2), width_ratios=(1, 1, 1.1))
    for axis, (what, groups, methods, scale) in zip(axes, panels, strict=True):
        for place, (method, (label, colour)) in enumerate(methods.items()):
            value, ends = bars([said[method]["gain"] for said in groups.values()], scale)
            at = [i + 0.16 * (place - (len(methods) - 1) / 2) for i in range(len(groups))]
            axis.errorbar(value, at, xerr=ends, fmt="o", ms=3.5, lw=1.3, color=colour, label=label)
        axis.axvline(0, color="#444", lw=0.8)
        axis.set_yticks(range(len(groups)), list(groups), fontsize=8)
        axis.invert_yaxis()
        axis.set(xlabel=what)
        axis.grid(axis="x", alpha=0.3)
    for axis in (axes[0], axes[2]):
        axis.legend(frameon=False, fontsize=7, ncols=2, loc="lower left", bbox_to_anchor=(0, 1))
    save(figure, "tasks_study")


def _of(blanks: Gains, measure: str) -> Gains:
    return {"all" if name == "all" else f"{name} tokens": said[measure] for name, said in blanks.items()}


def _short(part: str, prompt: str, labels: str) -> str:
    """Name a prompt by where its blanks stand."""
    where = {"sentiment": "SST, after" if prompt.startswith("{0}") else "SST, before", "rte": "RTE"}[part]
    broken = labels.replace(" / ", "\n/ ") if len(labels) > LONG else labels
    return f"{where}\n{broken}"


if __name__ == "__main__" and (HERE / "tasks_study.json").exists():
    draw(json.loads((HERE / "tasks_study.json").read_text(encoding="utf-8")))
