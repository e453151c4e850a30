"""Draw the compatibility study from compatibility.json (which `python recipes/compatibility.py` measures).

python docs/figures/compatibility.py
"""

from __future__ import annotations

import json
from typing import Any

from drawing import HERE, bars, pyplot, save

METHODS = {"product": "#8a8f98", "l2r": "#1f6fb4", "ag": "#c1571f"}
DOMAINS = {"wikipedia": "#1f6fb4", "novels": "#7a9a3a", "snli-dev": "#c1571f"}


def draw(found: dict[str, Any]) -> None:
    """Draw held-out losses, incompatibility and paired differences in P-PPL and U-PPL, by weight."""
    plt = pyplot("compatibility")
    weights = [arm for arm in found if "," not in arm]
    lines = [found[weight] for weight in weights]
    at = range(len(weights))
    figure, axes = plt.subplots(1, 4, figsize=(14, 3.2))
    for name, colour in DOMAINS.items():
        change = [line["loss"][name] - lines[0]["loss"][name] for line in lines]
        axes[0].plot(at, change, "o-", ms=4, lw=1.5, color=colour, label=name)
    axes[0].set_title("held-out loss less that of weight 0, nats", fontsize=9)
    value, ends = bars([line["incompatibility"]["difference"] for line in lines], 1000)
    axes[1].errorbar(at, value, ends, fmt="o-", ms=4, lw=1.5, color="#444")
    base = 1000 * lines[0]["incompatibility"]["value"]
    axes[1].set_title(f"incompatibility less that of weight 0 ({base:.2f}), nats²/1000", fontsize=9)
    for axis, (metric, label) in zip(axes[2:], (("p_ppl", "P-PPL"), ("u_ppl", "U-PPL")), strict=True):
        for place, (method, colour) in enumerate(METHODS.items()):
            value, ends = bars([line["methods"][method][metric]["difference"] for line in lines])
            beside = [x + 0.1 * (place - 1) for x in at]
            axis.errorbar(beside, value, ends, fmt="o", ms=4, lw=1.5, color=colour, label=method)
        axis.set_title(f"log {label} less that of weight 0, nats per token", fontsize=9)
    for axis in axes:
        axis.set_xticks(at, weights)
        axis.set_xlabel("weight of the penalty")
        axis.axhline(0, color="#444", lw=0.8)
        axis.grid(axis="y", alpha=0.3)
    for axis in (axes[0], axes[2]):
        axis.legend(frameon=False, fontsize=8, loc="upper left")
    save(figure, "compatibility")


if __name__ == "__main__" and (HERE / "compatibility.json").exists():
    draw(json.loads((HERE / "compatibility.json").read_text(encoding="utf-8")))
