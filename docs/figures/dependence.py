"""Draw how well proxies tell the dependence of two tokens, from dependence.json (of recipes/dependence.py).

python docs/figures/dependence.py
"""

from __future__ import annotations

import json
from typing import Any

from drawing import HERE, bars, pyplot, save

COLOURS = {
    "distance": "#8a8f98",
    "confidence": "#b7a15a",
    "entropy bound": "#7a9a3a",
    "KL of steps": "#8f5fa8",
    "KL of filling": "#1f6fb4",
    "attention": "#3aa6a0",
    "pair head": "#c1571f",
}


def draw(found: dict[str, Any]) -> None:
    """Draw rank correlations by distance, and mutual information by tenths of each proxy."""
    plt = pyplot("dependence")
    groups = found["groups"]
    here = ["all", *(name for name in groups if name.startswith("distance "))]
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2))
    for place, (proxy, colour) in enumerate(COLOURS.items()):
        at = [i + 0.1 * (place - (len(COLOURS) - 1) / 2) for i in range(len(here))]
        value, ends = bars([groups[name]["spearman"][proxy] for name in here])
        left.errorbar(at, value, ends, fmt="o", ms=3.5, lw=1.3, color=colour, label=proxy)
        means = [tenth["mean"] for tenth in found["predicted"][proxy]["bins"]]
        right.plot(range(1, len(means) + 1), means, "o-", ms=3.5, lw=1.3, color=colour, label=proxy)
    left.axhline(0, color="#444", lw=0.8)
    left.set_xticks(range(len(here)), [name.removeprefix("distance ") for name in here])
    left.set(xlabel="distance, tokens", ylabel="rank correlation with mutual information")
    right.set(xlabel="tenth of the pairs by the proxy", ylabel="mean mutual information, nats")
    for axis in (left, right):
        axis.grid(axis="y", alpha=0.3)
    right.legend(frameon=False, fontsize=8, loc="upper left")
    save(figure, "dependence")


if __name__ == "__main__" and (HERE / "dependence.json").exists():
    draw(json.loads((HERE / "dependence.json").read_text(encoding="utf-8")))
