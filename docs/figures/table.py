"""Draw how the constructions differ, paired, from table.json (which `python recipes/table.py` measures).

python docs/figures/table.py
"""

from __future__ import annotations

import json
from typing import Any

from drawing import HERE, bars, pyplot, save

COLOURS = {
    "snli-random": "#1f6fb4",
    "snli-contiguous": "#7fb3dd",
    "xsum-random": "#c1571f",
    "xsum-contiguous": "#e5a57f",
}
LEFT = 0.1
"""Nothing is better than `ag` by more than this."""
CLIP = 0.6
"""Differences beyond this, in nats, are drawn at the edge: those of `product` and the like."""


def draw(found: dict[str, Any]) -> None:
    """Draw log P-PPL and log U-PPL of every method less that of `ag`, a dot a run, with intervals."""
    plt = pyplot("table")
    together = found["together"]["p_ppl"]
    order = sorted((m for m in together if m != "ag"), key=lambda m: -together[m]["value"])
    figure, axes = plt.subplots(1, 2, figsize=(10, 0.42 * len(order) + 1.3), sharey=True)
    for axis, (metric, name) in zip(axes, (("p_ppl", "P-PPL"), ("u_ppl", "U-PPL")), strict=True):
        for place, (run, colour) in enumerate(COLOURS.items()):
            rows = [found["runs"][run]["differences"][metric][m] for m in order]
            at = [i + 0.17 * (1.5 - place) for i in range(len(order))]
            clipped = [{k: min(max(v, -LEFT), CLIP) for k, v in row.items()} for row in rows]
            value, ends = bars(clipped)
            label = run.replace("-", ", ").replace("snli", "SNLI").replace("xsum", "XSum")
            axis.errorbar(value, at, xerr=ends, fmt="o", ms=3.5, lw=1.3, color=colour, label=label)
        axis.axvline(0, color="#444", lw=0.8)
        axis.set(xlabel=f"log {name} less that of ag, nats per token", xlim=(-LEFT, CLIP))
        axis.grid(axis="x", alpha=0.3)
    axes[0].set_yticks(range(len(order)), order)
    axes[1].legend(frameon=False, fontsize=8, loc="upper right")
    save(figure, "table")


if __name__ == "__main__" and (HERE / "table.json").exists():
    draw(json.loads((HERE / "table.json").read_text(encoding="utf-8")))
