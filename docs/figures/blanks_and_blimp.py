"""Draw the benchmarks of meaning from blanks_and_blimp.json, which `recipes/blanks_and_blimp.py` measures.

python docs/figures/blanks_and_blimp.py
"""

from __future__ import annotations

import json
from typing import Any

from drawing import HERE, bars, pyplot, save

METHODS = {
    "independent": "#8a8f98",
    "greedy": "#b7a15a",
    "beam": "#1f6fb4",
    "grid-ag": "#7a9a3a",
    "chain-ag": "#c1571f",
}
SCORES = {"pll": "#8a8f98", "pll-word": "#b7a15a", "chain": "#1f6fb4", "ag-chain": "#c1571f"}
NAMES = {"snli": "SNLI", "xsum": "XSum"}


def draw_blanks(rows: list[dict[str, Any]]) -> None:
    """Draw recall@1 and the mean log-probability by the number of blanks, a panel a data set."""
    plt = pyplot("blanks")
    data = list(dict.fromkeys(row["data"] for row in rows))
    figure, axes = plt.subplots(2, len(data), figsize=(4.4 * len(data), 5.4), squeeze=False, sharex=True)
    for column, name in enumerate(data):
        for line, (metric, label, scale) in enumerate(
            (("recall@1", "recall@1, %", 100), ("log_prob", "mean log-probability, nats", 1))
        ):
            axis = axes[line][column]
            shown = [m for m in METHODS if any(r["method"] == m and r[metric] for r in rows)]
            for place, method in enumerate(shown):
                here = [r for r in rows if (r["data"], r["method"]) == (name, method) and r[metric]]
                at = [row["blanks"] + 0.11 * (place - (len(shown) - 1) / 2) for row in here]
                value, ends = bars([row[metric] for row in here], scale)
                axis.errorbar(at, value, ends, fmt="o", ms=4, lw=1.5, color=METHODS[method], label=method)
            axis.set_xticks(sorted({row["blanks"] for row in rows}))
            axis.grid(axis="y", alpha=0.3)
            axis.set_title(NAMES.get(name, name) if line == 0 else "")
            if column == 0:
                axis.set_ylabel(label)
            if line == 1:
                axis.set_xlabel("neighbouring blanks")
    axes[0][-1].legend(frameon=False, fontsize=8)
    save(figure, "blanks")


def draw_blimp(accuracy: dict[str, Any]) -> None:
    """Draw the accuracy of every score by phenomenon, the easiest on top."""
    plt = pyplot("blimp")
    terms = sorted((t for t in accuracy if t != "all"), key=lambda t: accuracy[t]["chain"]["value"])
    terms = ["all", *terms]
    figure, axis = plt.subplots(figsize=(7, 0.42 * len(terms) + 1))
    for place, (score, colour) in enumerate(SCORES.items()):
        at = [i + 0.17 * (1.5 - place) for i in range(len(terms))]
        value, ends = bars([accuracy[term][score] for term in terms], 100)
        axis.errorbar(value, at, xerr=ends, fmt="o", ms=4, lw=1.5, color=colour, label=score)
    axis.axvline(50, color="#444", lw=0.8, ls=":")
    axis.set_yticks(range(len(terms)), [term.replace("_", " ") for term in terms])
    axis.set_xlabel("accuracy, %")
    axis.grid(axis="x", alpha=0.3)
    axis.legend(frameon=False, fontsize=8)
    save(figure, "blimp")


if __name__ == "__main__" and (HERE / "blanks_and_blimp.json").exists():
    found = json.loads((HERE / "blanks_and_blimp.json").read_text(encoding="utf-8"))
    rows = [row for name, run in found.items() if name.startswith("blanks-") for row in run["rows"]]
    if rows:
        draw_blanks(rows)
    if "blimp" in found:
        draw_blimp(found["blimp"]["accuracy"])
