"""What the figures of the docs share: a quiet matplotlib, intervals as bars, and files that stay the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def pyplot(name: str) -> Any:
    """Return matplotlib's pyplot, drawing to files that are the same for the same picture."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams["svg.hashsalt"] = name
    return plt


def bars(numbers: Sequence[dict[str, float]], scale: float = 1) -> tuple[list[float], list[list[float]]]:
    """Return values, and how far their intervals go below and above, as `errorbar` takes them."""
    values = [scale * number["value"] for number in numbers]
    below = [scale * (number["value"] - number["low"]) for number in numbers]
    above = [scale * (number["high"] - number["value"]) for number in numbers]
    return values, [below, above]


def save(figure: Any, name: str) -> None:
    """Write a figure as SVG and as PNG."""
    figure.tight_layout()
    for ending in ("svg", "png"):
        metadata = {"Date": None} if ending == "svg" else {"Software": None}
        figure.savefig(HERE / f"{name}.{ending}", dpi=120, metadata=metadata)
