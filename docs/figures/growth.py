"""Draw how the time of a pair grows, from growth.json (which `python benchmarks/growth.py` measures).

python docs/figures/growth.py
"""

from __future__ import annotations

import json
from typing import Any

from drawing import HERE, pyplot, save

STAGES = {"forward": "#1f6fb4", "tables": "#7a9a3a", "ag": "#c1571f"}
LABELS = {"forward": "forward passes", "tables": "tables", "ag": "ag"}
PANELS = {
    "exact": ("tokens of the vocabulary", "exact"),
    "candidates": ("candidates per blank", "cross"),
    "length": ("tokens of the text", "cross, 256 candidates per blank"),
}


def draw(found: dict[str, Any]) -> None:
    """Draw one panel for each thing that grows; both axes logarithmic, so that a slope is a power."""
    plt = pyplot("growth")
    panels = [name for name in PANELS if found[name]]
    figure, axes = plt.subplots(1, len(panels), figsize=(4 * len(panels), 3.2), squeeze=False)
    for axis, name in zip(axes[0], panels, strict=True):
        sizes = sorted(found[name], key=int)
        for stage, colour in STAGES.items():
            seconds = [found[name][size][stage] for size in sizes]
            axis.plot([int(size) for size in sizes], seconds, "o-", color=colour, label=LABELS[stage])
        axis.set(xscale="log", yscale="log", xlabel=PANELS[name][0], title=PANELS[name][1])
        axis.set_xticks([int(size) for size in sizes], sizes, fontsize=7)
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("seconds")
    axes[0][0].legend(frameon=False)
    save(figure, "growth")


if __name__ == "__main__":
    draw(json.loads((HERE / "growth.json").read_text(encoding="utf-8")))
