"""Draw what decoding in fewer passes loses, from decoding.json (`python recipes/decoding.py`).

python docs/figures/decoding.py
"""

from __future__ import annotations

import json
from typing import Any

from drawing import HERE, bars, pyplot, save

COLOURS = {
    "independent": "#8a8f98",
    "entropy bound": "#7a9a3a",
    "tree": "#c1571f",
    "tree bound": "#e5a57f",
    "pairs": "#1f6fb4",
}
LAST = "one by one"
MEASURES = {"less_one_by_one": ("truth", "passes"), "sample_less_one_by_one": ("samples", "sample_passes")}
"""What is drawn, a row each, and the passes that it took: differences over the same texts."""
NAMES = {"snli": "SNLI", "xsum": "XSum"}


def draw(runs: list[dict[str, Any]]) -> None:
    """Draw log-probabilities per blank by the number of passes: a column a data set and share."""
    plt = pyplot("decoding")
    figure, axes = plt.subplots(
        len(MEASURES), len(runs), figsize=(2.1 * len(runs), 5.4), squeeze=False, sharex="col"
    )
    for column, run in enumerate(runs):
        for line, (measure, (what, passes)) in enumerate(MEASURES.items()):
            axis = axes[line][column]
            for family, colour in COLOURS.items():
                points = [p for name, p in run["points"].items() if name.rpartition(":")[0] == family]
                points.append(run["points"][LAST])
                points.sort(key=lambda point: point[passes]["value"])
                value, ends = bars([point[measure] for point in points])
                at = [point[passes]["value"] for point in points]
                axis.errorbar(at, value, ends, fmt="o-", ms=3, lw=1.1, color=colour, label=family)
            axis.axhline(0, color="#444", lw=0.8)
            axis.grid(alpha=0.3)
            if line == 0:
                name = NAMES.get(run["data"], run["data"])
                axis.set_title(f"{name}, {100 * run['rate']:g} % masked", fontsize=9)
            else:
                axis.set_xlabel("passes")
            if column == 0:
                axis.set_ylabel(f"{what} less one by one,\nnats per blank")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.suptitle(" ")  # room for the legend
    figure.legend(handles, labels, frameon=False, ncols=len(labels), loc="upper center")
    save(figure, "decoding")


if __name__ == "__main__" and (HERE / "decoding.json").exists():
    draw(json.loads((HERE / "decoding.json").read_text(encoding="utf-8"))["runs"])
