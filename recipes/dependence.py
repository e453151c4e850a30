"""The results of docs/background/results-dependence.md: how well proxies tell dependence.

    python recipes/dependence.py --data ../shared/data --work RUNS [--examples 500] [--exact 8] [--ray local]
    python recipes/dependence.py --tables                      rewrite the page only

The run is resumable: a killed recipe goes on with the pairs that it has not measured. Numbers go to
docs/figures/dependence.json, from which the tables of the page are written and `python
docs/figures/dependence.py` draws the figure.
"""

from __future__ import annotations

import argparse
from typing import Any

from command import ROOT, SENTENCES, parser_of, sentences_of, show
from pages import markdown
from provenance import ALL, MADE, read, shown, stamp, write

import unmask
from unmask.cli.terminal import Ticker
from unmask.evaluation.dependence import DependenceSettings, measure_dependence
from unmask.evaluation.dependence_summary import summarise_dependence
from unmask.evaluation.intervals import Estimate
from unmask.evaluation.intervals import shown as with_interval

RESULTS = ROOT / "docs" / "figures" / "dependence.json"
PAGE = ROOT / "docs" / "background" / "results-dependence.md"
FIGURE = """```{figure} ../figures/dependence.svg
:alt: Rank correlation of each proxy with mutual information by distance; the latter by tenths of the pairs.
:width: 100%
```"""
"""What `python docs/figures/dependence.py` draws."""
SOURCES = {
    "distance": "baseline",
    "confidence": "Fast-dLLM, MaskGIT",
    "entropy bound": "EB-Sampler",
    "KL of steps": "KLASS",
    "KL of filling": "PUNT",
    "attention": "DAPD",
    "pair head": "unmask",
}
OURS = "pair head"


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measure every pair, or resume, and sum it up."""
    settings = DependenceSettings(
        examples=options.examples, exact=options.exact, tokens=options.tokens, draws=options.draws
    )
    records = measure_dependence(
        unmask.load(options.model),
        sentences_of(options.data),
        settings,
        out=options.work / "pairs.jsonl",
        ray=options.ray,
        progress=Ticker("pairs"),
    )
    return {"tokens": options.tokens, "draws": options.draws, **summarise_dependence(records)}


def tables(found: dict[str, Any]) -> dict[str, str]:
    """Return the tables of the page."""
    return {
        "proxies": _proxies(found),
        "distances": _distances(found["groups"]),
        "reference": _reference(found),
        "answer": _answer(found),
        "figure": FIGURE,
        "source": f"`python recipes/dependence.py`: {found['pairs']:,} pairs, "
        f"{shown(found.get(MADE, {}).get(ALL))}.",
    }


def _proxies(found: dict[str, Any]) -> str:
    """A row a proxy, the best first: rank correlation overall and by data set, and what it explains."""
    groups, predicted = found["groups"], found["predicted"]
    data = [name for name in SENTENCES if name in groups]
    names = sorted(predicted, key=lambda name: -groups["all"]["spearman"][name]["value"])
    rows = [
        [
            name,
            SOURCES[name],
            str(predicted[name]["passes"]),
            *(_shown(groups[group]["spearman"][name]) for group in ("all", *data)),
            with_interval(Estimate(**predicted[name]["r2"]), 100, 0),
        ]
        for name in names
    ]
    heads = ["proxy", "as used by", "further passes", "rank correlation", *data, "variance explained, %"]
    return markdown(heads, rows, left=2)


def _distances(groups: dict[str, Any]) -> str:
    """A row a proxy, a column a distance."""
    here = [name for name in groups if name.startswith("distance ")]
    proxies = groups["all"]["spearman"]
    rows = [
        ["pairs", *(f"{groups[name]['pairs']:,}" for name in here)],
        ["mean mutual information, nats", *(f"{groups[name]['information']:.3f}" for name in here)],
        *([proxy, *(_shown(groups[name]["spearman"][proxy]) for name in here)] for proxy in proxies),
    ]
    return markdown(["", *here], rows)


def _reference(found: dict[str, Any]) -> str:
    """How good the reference is."""
    told = found["reference"]
    rows = [
        ["tokens with a pass of their own, draws of the others", f"{found['tokens']}, {found['draws']}"],
        ["mean probability of a token that is not among the former", f"{100 * told['left']:.1f} %"],
        ["mean estimate, which is no larger than the truth on average", f"{told['information']:.4f} nats"],
        ["mean of that which is no smaller", f"{told['upper']:.4f} nats"],
        ["standard error of an estimate by its draws (root mean square)", f"{told['noise']:.4f} nats"],
        [
            "rank correlation of the estimates by the even and by the odd draws",
            f"{told['halves_spearman']:.3f}",
        ],
    ]
    if told["exact_pairs"]:
        rows += [
            [
                "pairs computed exactly, too; their mean",
                f"{told['exact_pairs']}; {told['exact_information']:.4f} nats",
            ],
            ["error of the estimate there: mean", f"{told['mean_error']:+.4f} nats"],
            [
                "mean absolute, largest",
                f"{told['mean_absolute_error']:.4f}, {told['largest_error']:.4f} nats",
            ],
        ]
    return markdown(["reference", "measured"], rows)


def _answer(found: dict[str, Any]) -> str:
    """Ours against the best of the others, and which proxy ranks best where."""
    told, predicted = found["groups"]["all"], found["predicted"]
    gain, other = told["gain"], told["best_other"]
    apart = gain["low"] > 0 or gain["high"] < 0
    lines = [
        f"Over all pairs the rank correlation of the pair head is {_shown(told['spearman'][OURS])}, "
        f"that of the best other proxy, {other}, {_shown(told['spearman'][other])}: a difference of "
        f"{with_interval(Estimate(**gain), 1, 4)}, which {'is clear of' if apart else 'may be'} zero.",
        f"They explain {' and '.join(_explained(predicted[name]) for name in (OURS, other))}.",
    ]
    best: dict[str, list[str]] = {}
    for group, numbers in found["groups"].items():
        if group != "all":
            ranked = numbers["spearman"]
            best.setdefault(max(ranked, key=lambda name: ranked[name]["value"]), []).append(group)
    first = "; ".join(f"{name} in {', '.join(groups)}" for name, groups in best.items())
    return f"{' '.join(lines)} Highest rank correlation: {first}."


def _explained(predicted: dict[str, Any]) -> str:
    passes = "no further pass" if not predicted["passes"] else f"further passes: {predicted['passes']}"
    return f"{100 * predicted['r2']['value']:.0f} % of the variance ({passes})"


def _shown(entry: dict[str, float]) -> str:
    if not any(entry.values()):
        return "–"  # a proxy that is the same for all pairs ranks none
    return with_interval(Estimate(**entry), 1, 2)


def main() -> None:
    """Measure what is asked for, and rewrite the page."""
    parser = parser_of(__doc__, "dependence")
    parser.add_argument("--model", default="english")
    parser.add_argument("--examples", type=int, default=500, help="pairs per data set")
    parser.add_argument("--exact", type=int, default=8, help="of them computed exactly, too")
    parser.add_argument("--tokens", type=int, default=64, help="likeliest tokens with a pass of their own")
    parser.add_argument("--draws", type=int, default=64, help="passes for the others")
    options = parser.parse_args()
    out = options.out or RESULTS
    if not options.tables:
        options.work.mkdir(parents=True, exist_ok=True)
        made = stamp(pair_head=True, model=options.model)  # a run of other weights is not resumed
        write(out, measure(options), {ALL: made})
    show(tables(read(out)), [PAGE], "dependence", options.out)


if __name__ == "__main__":
    main()
