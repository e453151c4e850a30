"""The figures of a report, as SVG or HTML text that goes into the page: it opens with no network.

- a bar a method with its interval, P-PPL and U-PPL side by side, on a logarithmic scale;
- P-PPL and U-PPL by the distance of the blanks, a line a method, all but the leading ones in grey;
- the joint table of one example under two constructions, side by side.
"""

from __future__ import annotations

import html
import io
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

TITLES = {"p_ppl": "P-PPL", "u_ppl": "U-PPL"}
GREY, INK = "#9aa0a6", "#202124"
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "unmask",  # the same records give the same bytes
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "figure.facecolor": "white",
}


def bars(summary: dict[str, Any]) -> str:
    """Draw the perplexities of all methods, best first, with their intervals."""
    methods = summary["methods"]
    order = sorted(methods, key=lambda m: methods[m]["p_ppl"]["value"], reverse=True)
    with _panels(0.36 * len(order) + 1.2, sharey=True) as (figure, axes):
        for axis, metric in zip(axes, TITLES, strict=True):
            entries = [methods[m][metric] for m in order]
            values = [e["value"] for e in entries]
            axis.barh(
                order,
                values,
                xerr=_around(entries),
                color=[_colour(m, order) for m in order],
                height=0.7,
                error_kw={"ecolor": INK, "elinewidth": 1.2, "capsize": 2.5},
            )
            start = min(1.0, *(e["low"] for e in entries))  # 1 is certainty: bars grow from it
            end = max(e["high"] for e in entries)
            for i, e in enumerate(entries):
                axis.text(e["high"] * 1.02, i, f"{e['value']:.4g}", va="center", fontsize=9, color=INK)
            axis.set_xscale("log")
            axis.set_xlim(start, end * (end / start) ** 0.18)
            _plain_ticks(axis.xaxis, start, end)
            axis.set_title(f"{TITLES[metric]} (lower is better, 95% interval)", fontsize=10, loc="left")
            axis.grid(axis="x", color="#e8eaed", zorder=0)
            axis.set_axisbelow(True)
        return _svg(figure)


def by_distance(summary: dict[str, Any]) -> str | None:
    """Draw the perplexities by distance; None if the sample has one distance only."""
    groups = summary["breakdowns"]["distance"]
    if len(groups) < 2:
        return None
    methods = list(summary["methods"])
    leading = _leading(summary)
    colours = told_apart(leading)
    with _panels(4.4) as (figure, axes):
        names = [f"{g['group']}\n({g['examples']})" for g in groups]
        for axis, metric in zip(axes, TITLES, strict=True):
            everything = []
            shown = [i for i, g in enumerate(groups) if g["examples"] >= FEW] or range(len(groups))
            for method in (m for m in methods if m not in leading):
                values = [g["methods"][method][metric]["value"] for g in groups]
                axis.plot(range(len(groups)), values, color="#dadce0", linewidth=1.2, label="others")
                everything += [values[i] for i in shown]
            for i, method in enumerate(leading):
                entries = [g["methods"][method][metric] for g in groups]
                # a little apart, so that intervals don't hide each other
                at = [x + 0.3 * (i / max(1, len(leading) - 1) - 0.5) for x in range(len(groups))]
                values = [e["value"] for e in entries]
                axis.errorbar(
                    at,
                    values,
                    yerr=_around(entries),
                    color=colours[method],
                    marker=MARKERS[i % len(MARKERS)],
                    markersize=5,
                    linewidth=1.4,
                    elinewidth=0.7,
                    label=method,
                )
                everything += [entries[i][end] for i in shown for end in ("low", "high")]
            axis.set_yscale("log")
            axis.set_ylim(min(everything) / 1.1, max(everything) * 1.1)
            _plain_ticks(axis.yaxis, min(everything), max(everything))
            axis.set_xticks(range(len(groups)), names)
            axis.set_xlabel("distance of the blanks in tokens (examples)")
            axis.set_title(TITLES[metric], fontsize=10, loc="left")
            axis.grid(axis="y", color="#e8eaed")
        handles, labels = axes[0].get_legend_handles_labels()
        known = dict(zip(labels, handles, strict=True))
        figure.legend(
            known.values(), known, loc="outside lower center", ncols=min(6, len(known)), frameon=False
        )
        return _svg(figure)


def _leading(summary: dict[str, Any]) -> list[str]:
    """Return the methods that are drawn in colour: all of a few, of many the ones that people ask about."""
    methods = summary["methods"]
    if len(methods) <= MOST_COLOURS:
        return list(methods)
    best = [min(methods, key=lambda m: float(methods[m][metric]["value"])) for metric in TITLES]
    return list(dict.fromkeys(m for m in ("product", "ag", "gibbs", *best) if m in methods))


def joint_tables(record: dict[str, Any], methods: tuple[str, str]) -> str:
    """Return the table of one example's likely tokens under two constructions, the true pair framed.

    As HTML, shaded by probability: it is text that can be searched and copied.
    """
    shown = record["table"]
    blocks = [[[math.exp(x) for x in row] for row in shown["log_probs"][m]] for m in methods]
    most = max(x for block in blocks for row in block for x in row)
    tables = []
    for method, block in zip(methods, blocks, strict=True):
        heads = "".join(f"<th>{html.escape(token)}</th>" for token in shown["b"])
        rows = []
        for a, row in zip(shown["a"], block, strict=True):
            cells = "".join(
                _shaded(p, most, [a, b] == record["tokens"]) for b, p in zip(shown["b"], row, strict=True)
            )
            rows.append(f"<tr><th>{html.escape(a)}</th>{cells}</tr>")
        head = f"<tr><td></td>{heads}</tr>"
        tables.append(
            f'<table class="joint"><caption>{html.escape(method)}</caption>{head}{"".join(rows)}</table>'
        )
    return f'<div class="joints">{"".join(tables)}</div>'


def _shaded(p: float, most: float, true: bool) -> str:
    depth = (p / most) ** 0.5
    colour = f"rgba(26,115,232,{0.85 * depth:.2f})"
    text = "#fff" if depth > 0.75 else INK
    return f'<td{" class=true" if true else ""} style="background:{colour};color:{text}">{_percent(p)}</td>'


MOST_COLOURS = 5
"""Lines of a figure that can be told apart."""
FEWEST_TICKS = 3
TICKS = (
    (1, 1.5, 2, 3, 5, 7),
    (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9),
    tuple(n / 10 for n in range(10, 100)),
)
"""First digits of the numbers on an axis, coarse ones first."""
MARKERS = "osD^vP*XhpdH"
FEW = 10
"""Groups of fewer examples are drawn, but have no say in how far an axis goes."""
SPARE_COLOURS = ("#e52592", "#f29900", "#9334e6", "#12b5cb", "#795548")
"""For methods with options, whose family's colour would be taken for that of `ag`."""
COLOURS = {
    "product": "#5f6368",
    "mrf-logit": "#f29900",
    "mrf-prob": "#c26401",
    "hcb": "#9334e6",
    "ag": "#1a73e8",
    "ag-published": "#8ab4f8",
    "ag-weighted": "#0b57d0",
    "gibbs": "#188038",
    "l2r": "#e52592",
    "r2l": "#b80672",
    "mixture": "#12b5cb",
}


def _colour(method: str, order: list[str]) -> Any:
    family = method.partition(":")[0]
    if family in COLOURS:
        return COLOURS[family]
    from matplotlib import colormaps

    return colormaps["tab20"](order.index(method) % 20)


def told_apart(methods: list[str]) -> dict[str, Any]:
    """Return a colour a method: its family's, unless another one has it or one that is much like it."""
    found: dict[str, Any] = {}
    spare = (c for c in SPARE_COLOURS if c not in found.values())
    for method in methods:
        colour = COLOURS.get(method)
        found[method] = next(spare) if colour is None or colour in found.values() else colour
    return found


def _percent(p: float) -> str:
    """Write a probability with as many digits as tell it, down to a thousandth of a percent."""
    percent = 100 * p
    return next(
        (f"{percent:.{digits}f}%" for digits in (1, 2, 3) if round(percent, digits) > 0), "&lt;0.001%"
    )


def few_ticks(low: float, high: float) -> list[float]:
    """Return from three to seven plain numbers between two, the steps as coarse as that allows."""
    ticks: list[float] = []
    for digits in TICKS:
        steps = [d * 10.0**e for e in range(-3, 8) for d in digits]
        ticks = [t for t in steps if low <= t <= high * 1.05]
        if len(ticks) >= FEWEST_TICKS:
            break
    while len(ticks) > 7:
        ticks = ticks[::2]
    return ticks


def _plain_ticks(axis: Any, low: float, high: float) -> None:
    """Write few, plain numbers on a logarithmic axis."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis.set_major_locator(FixedLocator(few_ticks(low, high)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


@contextmanager
def _panels(height: float, **options: Any) -> Iterator[tuple[Any, Any]]:
    """A figure in our look, which needs no window system, and its two panels."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9, height), layout="constrained")
        yield figure, figure.subplots(1, 2, **options)


def _around(entries: list[dict[str, float]]) -> list[list[float]]:
    """Return how far the ends of intervals are from their values, as error bars take it."""
    return [[e["value"] - e["low"] for e in entries], [e["high"] - e["value"] for e in entries]]


def _svg(figure: Any) -> str:
    page = io.StringIO()
    figure.savefig(page, format="svg", metadata={"Date": None})
    text = page.getvalue()
    return text[text.index("<svg") :]  # without the heading of a file of its own
