"""The sentences of the page on constructions that say what the numbers of table.json say, and no more."""

from __future__ import annotations

from typing import Any

from pages import markdown
from provenance import MADE, shown

ON_THE_FRONT_PAGE = {
    "product": "independent predictions (`product`)",
    "mrf-logit": "raw logits added (`mrf-logit`)",
    "ag-published": "Arnold-Gokhale as published (`ag-published`)",
    "ag": "Arnold-Gokhale, solved to convergence (`ag`, the default)",
}
LEAST = 0.0005
"""A difference that is written as zero is none."""


def signed(entry: dict[str, float]) -> str:
    """Write a difference with its interval; a star marks one that is clear of zero."""
    star = "*" if clear(entry) else ""
    return f"{entry['value']:+.3f}{star} [{entry['low']:+.3f}, {entry['high']:+.3f}]"


def clear(entry: dict[str, float]) -> bool:
    """Whether a difference is clear of zero, and of what is written as zero."""
    return abs(entry["value"]) >= LEAST and (entry["low"] > 0 or entry["high"] < 0)


def source(found: dict[str, Any]) -> str:
    """Say how many pairs there were, and what they were made with."""
    total = sum(numbers["examples"] for numbers in found["runs"].values())
    return f"{_each(found)} pairs per run, {total:,} in all. {_made(found)}"


def readme_table(found: dict[str, Any]) -> str:
    """Return P-PPL of the methods that the front page names, and how it was made."""
    values = {
        m: [numbers["methods"][m]["p_ppl"]["value"] for numbers in found["runs"].values()]
        for m in ON_THE_FRONT_PAGE
    }
    rows = [
        [what, *(f"{v:#.3g}".rstrip(".") for v in values[method])]
        for method, what in ON_THE_FRONT_PAGE.items()
    ]
    heads = [f"{data}, {pairs}" for data in ("SNLI", "XSum") for pairs in ("any two", "neighbours")]
    return f"{markdown(['method', *heads], rows)}\n\n{_each(found)} pairs per column. {_made(found)}"


def lead(found: dict[str, Any], base: str) -> str:
    """Say which constructions beat the base, where, and by how much."""
    ahead: dict[str, list[str]] = {}
    for run, numbers in found["runs"].items():
        for method, entry in numbers["differences"]["p_ppl"].items():
            if method != base and clear(entry) and entry["value"] < 0:
                ahead.setdefault(method, []).append(f"{-entry['value']:.3f} in {run.replace('-', ', ')}")
    leaders = [f"`{method}` ({'; '.join(runs)})" for method, runs in ahead.items()]
    if not leaders:
        return f"No construction beats `{base}` clear of zero in any run."
    return f"Ahead of `{base}`, clear of zero, in nats of log P-PPL: {', '.join(leaders)}."


def answer(found: dict[str, Any], base: str) -> str:
    """Say which constructions beat the base, are level with it, and fall behind."""
    together = {m: entry for m, entry in found["together"]["p_ppl"].items() if m != base}
    level = [f"`{m}`" for m, entry in together.items() if not clear(entry)]
    behind = [f"`{m}`" for m, entry in together.items() if clear(entry) and entry["value"] > 0]
    return (
        f"**{lead(found, base)}** Over all runs level with it: {', '.join(level) or 'none'}; behind it: "
        f"{', '.join(behind) or 'none'}."
    )


def against_paper(found: dict[str, Any], base: str) -> str:
    """Return what the authors report beside what these runs say."""
    runs = found["runs"].values()

    def behind(method: str, metric: str = "p_ppl") -> str:
        entries = [numbers["differences"][metric][method] for numbers in runs]
        count = sum(clear(entry) and entry["value"] > 0 for entry in entries)
        return f"{count} of {len(entries)} runs"

    by_distance = {
        run.split("-")[0]: numbers["by_distance"]
        for run, numbers in found["runs"].items()
        if run.endswith("random")
    }
    ends = [
        f"{groups[0]['gain']['value']:.3f} and {groups[-1]['gain']['value']:.3f} nats ({data})"
        for data, groups in by_distance.items()
    ]
    farthest = next(iter(by_distance.values()))[-1]["distance"]
    rows = [
        [
            "AG outperforms Markov random fields",
            f"`mrf-logit` is behind `{base}` in {behind('mrf-logit')}, `mrf-prob` in {behind('mrf-prob')}",
        ],
        [
            "the joint's conditionals occasionally predict a token better than the model's own",
            f"U-PPL of `product`, the model's own, is above that of `{base}` in {behind('product', 'u_ppl')}",
        ],
        [
            "the gain over independent predictions comes from blanks that are close",
            f"at distances 1 and {farthest} it is {', '.join(ends)}",
        ],
        [
            "AG as published, 40 rounds",
            f"is behind `{base}` in P-PPL in {behind('ag-published')}, in U-PPL in "
            f"{behind('ag-published', 'u_ppl')}",
        ],
    ]
    return markdown(["the authors", "here (in runs where the difference is clear of zero)"], rows, left=2)


def _each(found: dict[str, Any]) -> str:
    counts = sorted({numbers["examples"] for numbers in found["runs"].values()})
    return " or ".join(f"{count:,}" for count in counts)


def _made(found: dict[str, Any]) -> str:
    return f"`python recipes/table.py`: {shown(found.get(MADE, {}).get('runs'))}."
