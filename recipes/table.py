"""The results of docs/background/results-*.md: every construction on SNLI and XSum.

Four runs of 1,000 pairs at `auto`, which also settle which construction is best (the family of `ag-weighted`
is among the methods). There are 500 summaries of XSum at hand, so each gives two pairs. `table_exact.py` says
how far `auto` is from exact.

    python recipes/table.py --data ../shared/data --work RUNS [--examples 1000]
    python recipes/table.py --tables                                  rewrite the pages only

The runs are resumable: a killed recipe goes on where it was, and what is finished is not done again. The
numbers go to docs/figures/table.json, from which the tables of the pages are written and `python
docs/figures/table.py` draws its figure.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from command import ROOT, parser_of, show
from pages import markdown
from provenance import read, stamp, write
from table_text import against_paper, answer, lead, readme_table, signed, source

from unmask.cli.terminal import Ticker
from unmask.evaluation.intervals import intervals
from unmask.evaluation.report import with_interval
from unmask.evaluation.run import evaluate
from unmask.evaluation.settings import Settings
from unmask.evaluation.summary import COLUMNS
from unmask.joints.registry import CONSTRUCTIONS

pair_loss, token_loss = COLUMNS["p_ppl"], COLUMNS["u_ppl"]

RESULTS = ROOT / "docs" / "figures" / "table.json"
PAGES = [
    *(ROOT / "docs" / "background" / f"results-{name}.md" for name in ("constructions", "full-tables")),
    ROOT / "README.md",
]
FAMILY = ("ag-weighted:power=0.25", "ag-weighted:power=0.5", "ag-weighted:power=0.75")
METHODS = (*CONSTRUCTIONS, *FAMILY)
DATA, PAIRS = ("snli", "xsum"), ("random", "contiguous")
RUNS = tuple(f"{data}-{pairs}" for data in DATA for pairs in PAIRS)
SHOWN = {
    "p_ppl": "P-PPL",
    "u_ppl": "U-PPL",
    "a_kl": "A-KL",
    "g_kl": "G-KL",
    "recall@1": "recall@1",
    "recall@10": "@10",
}
BASE = "ag"
"""The construction from which differences are told."""


def settings_of(args: argparse.Namespace, run: str, examples: int, **changed: Any) -> Settings:
    """Return the settings of a run at `auto`, or of one that differs in something."""
    data, pairs = run.split("-")
    summaries = (args.data / "xsum" / "summaries.txt").read_text(encoding="utf-8").splitlines()
    twice = args.work / "xsum-twice.txt"  # a text that occurs again gives another pair
    twice.write_text("\n".join(2 * summaries) + "\n", encoding="utf-8")
    common = {"model": args.model, "pairs": pairs, "examples": examples, "methods": METHODS}
    named = f"snli={args.data / 'snli'}" if data == "snli" else f"xsum={twice}"
    return Settings(data=named, **common | {"candidates": "auto"} | changed)


def evaluated(args: argparse.Namespace, out: Path, settings: Settings) -> list[dict[str, Any]]:
    """Do a run, or resume it; returns its records."""
    print(out.name, flush=True)
    evaluate(settings, out, memory=args.memory, ray=args.ray, progress=Ticker("examples"))
    return records_of(out)


def records_of(run: Path) -> list[dict[str, Any]]:
    """Return the records of a run."""
    lines = (run / "examples.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def collect(work: Path) -> dict[str, Any]:
    """Return what the page tells of the runs at `auto`, from their folders."""
    records = {run: records_of(work / f"{run}-auto") for run in RUNS}
    summaries = {run: json.loads((work / f"{run}-auto" / "summary.json").read_text()) for run in RUNS}
    return {
        "runs": {
            run: {
                "examples": summary["examples"],
                "passes": summary["passes"],
                "incompatibility": summary["incompatibility"],
                "methods": {
                    m: {metric: found[metric] for metric in SHOWN} for m, found in summary["methods"].items()
                },
                "differences": differences(records[run]),
                "by_distance": by_distance(records[run]),
                "cost": json.loads((work / f"{run}-auto" / "cost.json").read_text()),
            }
            for run, summary in summaries.items()
        },
        "together": differences([record for run in RUNS for record in records[run]]),
    }


def differences(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return every method's log P-PPL and log U-PPL less those of the base, paired, with intervals.

    The pairs of a sentence are not independent: they count as one observation, their mean.
    """
    found = {}
    for name, loss in (("p_ppl", pair_loss), ("u_ppl", token_loss)):
        groups: dict[Any, list[list[float]]] = {}
        for r in records:
            values = [loss(r["metrics"][m]) - loss(r["metrics"][BASE]) for m in METHODS]
            groups.setdefault(r["text"], []).append(values)
        means = [np.mean(group, axis=0) for group in groups.values()]
        found[name] = estimates(np.array(means), METHODS)
    return found


def by_distance(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the base's gain in log P-PPL over independent answers, by the distance of the blanks."""
    groups = []
    for least, most in ((1, 1), (2, 2), (3, 4), (5, 8), (9, math.inf)):
        here = [r["metrics"] for r in records if least <= r["distance"] <= most]
        if len(here) > 1:
            gains = np.array([[pair_loss(m["product"]) - pair_loss(m[BASE])] for m in here])
            label = (
                str(least)
                if least == most
                else f"{least} and more"
                if math.isinf(most)
                else f"{least}-{most}"
            )
            groups.append({"distance": label, "examples": len(here), **estimates(gains, ("gain",))})
    return groups


def estimates(values: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the mean of each column [examples, names], with its interval."""
    mean, low, high = intervals(values)
    return {
        name: {"value": float(mean[i]), "low": float(low[i]), "high": float(high[i])}
        for i, name in enumerate(names)
    }


def tables(found: dict[str, Any]) -> dict[str, str]:
    """Return the tables of the page."""
    if "runs" not in found:
        return {}
    made = {run: run_table(numbers) for run, numbers in found["runs"].items()}
    made["differences"] = difference_table(found)
    distances = []
    for run, numbers in found["runs"].items():
        if run.endswith("random"):
            distances += [
                [run.split("-")[0], g["distance"], str(g["examples"]), signed(g["gain"])]
                for g in numbers["by_distance"]
            ]
    made["distance"] = markdown(
        ["data", "distance", "examples", f"gain of {BASE}, nats per token"], distances
    )
    made["cost"] = cost_table(found)
    made |= {"readme": readme_table(found), "source": source(found), "answer": answer(found, BASE)}
    made |= {"paper": against_paper(found, BASE), "lead": lead(found, BASE)}
    return made


def run_table(numbers: dict[str, Any]) -> str:
    """Return a run's metrics, a row a method, the best P-PPL first."""
    order = sorted(numbers["methods"], key=lambda m: numbers["methods"][m]["p_ppl"]["value"])
    rows = [[f"`{m}`", *(with_interval(numbers["methods"][m][k]) for k in SHOWN)] for m in order]
    return markdown(["method", *SHOWN.values()], rows)


def cost_table(found: dict[str, Any]) -> str:
    """Return what the runs took."""
    rows = []
    for run, numbers in found["runs"].items():
        cost = numbers["cost"]
        cells = [
            f"{numbers['passes']:,.0f}",
            f"{cost['seconds'] / 60:.0f}",
            f"{cost['seconds_of_work'] / cost['examples']:.1f}",
            f"{cost['peak_memory'] / 1e9:.2f}",
        ]
        rows.append([run.replace("-", ", "), str(cost["examples"]), *cells])
    heads = [
        "run",
        "examples",
        "passes per example",
        "minutes",
        "seconds of work per example",
        "GB per process",
    ]
    return markdown(heads, rows)


def difference_table(found: dict[str, Any]) -> str:
    """Return the paired differences from the base, one row per method, one column per run."""
    measured = [m for m in METHODS if m in found["together"]["p_ppl"]]
    order = sorted(measured, key=lambda m: found["together"]["p_ppl"][m]["value"])
    rows = []
    for method in order:
        if method != BASE:
            cells = [signed(found["runs"][run]["differences"]["p_ppl"][method]) for run in RUNS]
            cells += [signed(found["together"][kind][method]) for kind in ("p_ppl", "u_ppl")]
            rows.append([f"`{method}`", *cells])
    heads = ["method", *(run.replace("-", ", ") for run in RUNS), "all, log P-PPL", "all, log U-PPL"]
    return markdown(heads, rows)


def options_of(about: str | None, name: str, parts: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Return a parser with the options that the runs at `auto` and the exact ones share."""
    parser = parser_of(about, name, parts)
    parser.add_argument("--model", default="english")
    parser.add_argument("--memory", default="4GB")
    return parser


def main() -> None:
    """Run everything and rewrite the page."""
    parser = options_of(__doc__, "table")
    parser.add_argument("--examples", type=int, default=1000)
    args = parser.parse_args()
    out = args.out or RESULTS
    args.work.mkdir(parents=True, exist_ok=True)
    if not args.tables:
        made = stamp(pair_head=True, model=args.model)  # an evaluation of other weights is not resumed
        for run in RUNS:
            evaluated(args, args.work / f"{run}-auto", settings_of(args, run, args.examples))
        write(out, read(out) | collect(args.work), {"runs": made})
    show(tables(read(out)), PAGES, "table", args.out)


if __name__ == "__main__":
    main()
