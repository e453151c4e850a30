"""The results of docs/background/results-decoding.md: what decoding in fewer passes loses, by scheme.

    python recipes/decoding.py --data ../shared/data --work RUNS [--texts 100] [--ray local]
    python recipes/decoding.py --tables                      rewrite the page only

The run is resumable: a killed recipe goes on with the texts that it has not decoded. Numbers go to
docs/figures/decoding.json, from which the tables of the page are written and `python
docs/figures/decoding.py` draws the figure.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

from command import ROOT, parser_of, sentences_of, show
from pages import markdown
from provenance import ALL, MADE, read, shown, stamp, write

import unmask
from unmask.cli.terminal import Ticker
from unmask.evaluation.decoding import ONE_BY_ONE, DecodingSettings, measure_decoding
from unmask.evaluation.decoding_summary import TARGET, summarise_decoding
from unmask.evaluation.intervals import Estimate
from unmask.evaluation.intervals import shown as with_interval

RESULTS = ROOT / "docs" / "figures" / "decoding.json"
PAGE = ROOT / "docs" / "background" / "results-decoding.md"
FIGURE = """```{figure} ../figures/decoding.svg
:alt: Log-probability of the truth and of samples per blank by the number of passes, for each scheme.
:width: 100%
```"""
"""What `python docs/figures/decoding.py` draws."""
CLAIMED = (0.15, 0.3)
"""The shares of masked tokens at which the claim is tested."""
TOLD = 0.3
"""The share whose schemes are told one by one."""


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Decode every text by every scheme, or resume, and sum it up."""
    records = measure_decoding(
        unmask.load(options.model),
        sentences_of(options.data),
        DecodingSettings(texts=options.texts),
        out=options.work / "texts.jsonl",
        ray=options.ray,
        progress=Ticker("texts"),
    )
    return {"runs": summarise_decoding(records)}


def tables(found: dict[str, Any]) -> dict[str, str]:
    """Return the tables of the page."""
    return {
        "answer": _answer(found),
        "savings": _savings(found),
        "figure": FIGURE,
        "schemes": _schemes(found["runs"]),
        "source": f"`python recipes/decoding.py`: {sum(run['texts'] for run in found['runs']):,} texts, "
        f"{shown(found.get(MADE, {}).get(ALL))}.",
    }


def _answer(found: dict[str, Any]) -> str:
    """Whether the claim holds, counted over data sets, shares and levels, and where it can't."""
    tested, others = (
        [s for run in found["runs"] if (run["rate"] in CLAIMED) == claimed for s in run["savings"].values()]
        for claimed in (True, False)
    )
    ratios = [saving["ratio"]["value"] for saving in tested]
    missed = [saving for saving in tested if saving["ratio"]["value"] > TARGET]
    least = sum(saving["ours"]["value"] == 1 for saving in missed)
    further = sum(saving["ratio"]["value"] <= TARGET for saving in others)
    return (
        f"Filling by trees or by pairs, the joint schemes, takes {min(ratios):.2f} to {max(ratios):.2f} "
        f"times the passes of the best independent scheme at equal log-probability of the truth, 15 and "
        f"30 % masked; the median is {statistics.median(ratios):.2f}. It is at most two thirds "
        f"in {len(tested) - len(missed)} of {len(tested)} cases. In {least} of the {len(missed)} others the "
        f"joint schemes take one pass, the fewest there can be. At 50 % masked it is {further} of "
        f"{len(others)} cases."
    )


def _savings(found: dict[str, Any]) -> str:
    """A row a data set, a share and a level: the passes of both sides, their ratio, and the tree's."""
    rows = [
        [
            _named(run),
            f"{100 * float(level):g} %",
            *(_shown(saving[side]) for side in ("independent", "ours", "ratio", "tree")),
        ]
        for run in found["runs"]
        for level, saving in run["savings"].items()
    ]
    heads = [
        *("data, masked, blanks", "of the way to one by one", "best independent, passes"),
        *("best joint scheme", "ratio", "tree alone"),
    ]
    return markdown(heads, rows, left=2)


def _schemes(runs: list[dict[str, Any]]) -> str:
    """A row a scheme of a given number of passes at one share; bounds and other shares are in the figure."""
    rows = []
    for run in (run for run in runs if run["rate"] == TOLD):
        for name, point in run["points"].items():
            if name != ONE_BY_ONE and ("bound" in name or int(name.rpartition(":")[2]) not in (1, 2, 4)):
                continue
            rows.append(
                [
                    _named(run),
                    name.partition(":")[0],
                    f"{point['passes']['value']:.1f}",
                    f"{point['log_prob']['value']:.2f}",
                    "" if name == ONE_BY_ONE else _shown(point["less_one_by_one"]),
                    f"{100 * point['hits']['value']:.1f}",
                    f"{point['sample_log_prob']['value']:.2f}",
                    f"{point['seconds']['value']:.2f}",
                ]
            )
    heads = [
        *("data, masked, blanks", "scheme", "passes", "log-prob. of the truth per blank"),
        *("less one by one's", "recall, %", "log-prob. of samples", "seconds per sample"),
    ]
    return markdown(heads, rows, left=2)


def _named(run: dict[str, Any]) -> str:
    return f"{run['data']}, {100 * run['rate']:g} %, {run['blanks']:.1f}"


def _shown(entry: dict[str, float]) -> str:
    return with_interval(Estimate(**entry), 1, 2)


def main() -> None:
    """Measure what is asked for, and rewrite the page."""
    parser = parser_of(__doc__, "decoding")
    parser.add_argument("--model", default="english")
    parser.add_argument("--texts", type=int, default=100, help="texts per data set and share masked")
    options = parser.parse_args()
    out = options.out or RESULTS
    if not options.tables:
        options.work.mkdir(parents=True, exist_ok=True)
        made = stamp(pair_head=True, model=options.model)  # a run of other weights is not resumed
        write(out, measure(options), {ALL: made})
    show(tables(read(out)), [PAGE], "decoding", options.out)


if __name__ == "__main__":
    main()
