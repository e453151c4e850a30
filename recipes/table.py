"""The results of docs/background/results-*.md: every construction on SNLI and XSum.

Four runs of 1,000 pairs at `auto`, which also settle which construction is best (the family of `ag-weighted`
is among the methods), and four of exact ones over the first of the same pairs, which check four of the
constructions (an exact pair takes a minute or so). Most exact ones are neighbours of XSum, where `auto` is
furthest from exact. There are 500 summaries of XSum at hand, so each gives two pairs.

    python recipes/table.py --data ../shared/data --work RUNS [--examples 1000] [--only runs]
    python recipes/table.py --tables                                  rewrite the pages only

The parts are `runs` and `exact`. Both are resumable: a killed recipe goes on where it was, and what is
finished is not done again. After each part the numbers go to docs/figures/table.json, from which the tables
of the pages are written (between `% table: NAME` and `% end`) and `python docs/figures/table.py` draws its
figure. Exact examples that were made with other weights than the runs are not shown.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pages import markdown, renew
from provenance import MADE, OTHER, read, stamp, write
from table_text import against_paper, answer, exact_answer, lead, readme_table, signed, source

from unmask.cli.terminal import Ticker
from unmask.evaluation.intervals import intervals
from unmask.evaluation.report import with_interval
from unmask.evaluation.run import evaluate
from unmask.evaluation.settings import Settings
from unmask.evaluation.summary import COLUMNS
from unmask.joints.registry import CONSTRUCTIONS

pair_loss, token_loss = COLUMNS["p_ppl"], COLUMNS["u_ppl"]

ROOT = Path(__file__).parents[1]
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
EXACT = {"snli-random": 19, "snli-contiguous": 19, "xsum-random": 6, "xsum-contiguous": 100}
"""Exact examples of each run."""
CHECKED = ("ag", "gibbs", "l2r", "mrf-prob")
"""The constructions of the exact runs: the default, a Markov chain, a single order, and a field."""
Metrics = dict[str, dict[str, float]]
BASE = "ag"
"""The construction from which differences are told."""


def run_all(args: argparse.Namespace) -> None:
    """Do the four runs at `auto`, or go on with them."""
    for run in RUNS:
        _run(args, run, "auto", examples=args.examples)


def run_exact(args: argparse.Namespace) -> None:
    """Do the exact examples, and the same ones at `auto` if the runs of them are not at hand."""
    for run in RUNS:
        if not (args.work / f"{run}-auto" / "summary.json").exists():
            _run(args, run, "few", examples=EXACT[run])
        _run(args, run, "exact", examples=EXACT[run])


def _run(args: argparse.Namespace, run: str, kind: str, *, examples: int) -> None:
    data, pairs = run.split("-")
    summaries = (args.data / "xsum" / "summaries.txt").read_text(encoding="utf-8").splitlines()
    twice = args.work / "xsum-twice.txt"  # a text that occurs again gives another pair
    twice.write_text("\n".join(2 * summaries) + "\n", encoding="utf-8")
    exact = kind == "exact"
    settings = Settings(
        data=f"snli={args.data / 'snli'}" if data == "snli" else f"xsum={twice}",
        model=args.model,
        pairs=pairs,
        examples=examples,
        methods=CHECKED if exact else METHODS,
        candidates="all" if exact else "auto",
    )
    print(f"{run}-{kind}", flush=True)
    out = args.work / f"{run}-{kind}"
    evaluate(settings, out, memory=args.memory, ray=args.ray, progress=Ticker("examples"))


def collect(work: Path) -> dict[str, Any]:
    """Return what the page tells of the runs at `auto`, from their folders."""
    records = {run: _records(work / f"{run}-auto") for run in RUNS}
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


def collect_exact(work: Path) -> dict[str, Any]:
    """Return what the page tells of the exact examples."""
    exact = {}
    for run in RUNS:
        auto = next(work / f"{run}-{kind}" for kind in ("auto", "few") if (work / f"{run}-{kind}").exists())
        exact[run] = in_both(_records(auto), _records(work / f"{run}-exact"))
    groups = exact | {"all": [pair for both in exact.values() for pair in both]}
    return {
        "exact": {run: against_exact(both) for run, both in exact.items()},
        "exact_differences": {name: exact_differences(both) for name, both in groups.items()},
    }


PARTS = {"runs": (run_all, collect), "exact": (run_exact, collect_exact)}


def _records(run: Path) -> list[dict[str, Any]]:
    lines = (run / "examples.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


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
        found[name] = _estimates(np.array(means), METHODS)
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
            groups.append({"distance": label, "examples": len(here), **_estimates(gains, ("gain",))})
    return groups


def in_both(auto: list[dict[str, Any]], exact: list[dict[str, Any]]) -> list[tuple[Metrics, Metrics]]:
    """Return the metrics at `auto` and exact of the examples that both runs have."""
    known = {record["key"]: record["metrics"] for record in auto}
    return [(known[r["key"]], r["metrics"]) for r in exact if r["key"] in known]


def against_exact(both: list[tuple[Metrics, Metrics]]) -> dict[str, Any]:
    """Return how far what is told at `auto` is from exact, over the examples that both runs have."""
    found: dict[str, Any] = {"examples": len(both)}
    for method in CHECKED:
        found[method] = {}
        for name, of in CHECKS.items():
            pairs = [(of(a[method]), of(e[method])) for a, e in both]
            errors = [abs(a - e) for a, e in pairs]
            found[method][name] = {
                "auto": sum(a for a, _ in pairs) / len(pairs),
                "exact": sum(e for _, e in pairs) / len(pairs),
                "mean": sum(errors) / len(errors),
                "worst": max(errors),
            }
    return found


def exact_differences(both: list[tuple[Metrics, Metrics]]) -> dict[str, Any]:
    """Return, in log P-PPL: what was told at `auto` less exact, and each method less the base, both exact."""
    bias = np.array([[pair_loss(a[m]) - pair_loss(e[m]) for m in CHECKED] for a, e in both])
    less = np.array([[pair_loss(e[m]) - pair_loss(e[BASE]) for m in CHECKED] for _, e in both])
    return {"bias": _estimates(bias, CHECKED), "less": _estimates(less, CHECKED)}


CHECKS: dict[str, Callable[[dict[str, float]], float]] = {
    "log P-PPL": pair_loss,
    "log U-PPL": token_loss,
    "A-KL": lambda found: found["a_kl"],
    "G-KL": lambda found: found["g_kl"],
}
"""What the exact runs check, an example at a time."""


def _estimates(values: Any, names: tuple[str, ...]) -> dict[str, Any]:
    mean, low, high = intervals(values)
    return {
        name: {"value": float(mean[i]), "low": float(low[i]), "high": float(high[i])}
        for i, name in enumerate(names)
    }


def tables(found: dict[str, Any]) -> dict[str, str]:
    """Return the tables of the page."""
    if "runs" not in found:
        return {}
    if not of_one_model(found):
        found = {name: value for name, value in found.items() if name not in ("exact", "exact_differences")}
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
    rows = []
    for run, e in found.get("exact", {}).items():
        for method in CHECKED:
            checks = (e[method][name] for name in CHECKS)
            cells = [f"{c['auto']:.3f}, {c['exact']:.3f} ({c['mean']:.3f})" for c in checks]
            rows.append([run, str(e["examples"]), f"`{method}`", *cells])
    if rows:
        made["exact"] = markdown(["run", "examples", "method", *CHECKS], rows)
        made["bias"] = bias_table(found["exact_differences"])
        made["leader"] = exact_answer(found, BASE)
    made["cost"] = cost_table(found)
    made |= {"readme": readme_table(found), "source": source(found), "answer": answer(found, BASE)}
    made |= {"paper": against_paper(found, BASE), "lead": lead(found, BASE)}
    return made


def of_one_model(found: dict[str, Any]) -> bool:
    """Whether the exact examples were made with the weights of the runs."""
    runs, exact = (found.get(MADE, {}).get(part, {}) for part in PARTS)
    return all(runs.get(name) == exact.get(name) for name in OTHER)


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


def bias_table(found: dict[str, Any]) -> str:
    """Return, over the exact examples, `auto` less exact of each method, and it less the base exactly."""
    rows = [
        [
            f"`{m}`",
            *(signed(numbers["bias"][m]) for numbers in found.values()),
            signed(found["all"]["less"][m]),
        ]
        for m in CHECKED
    ]
    heads = ["method", *(run.replace("-", ", ") for run in found), f"less {BASE}, exact, all"]
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


def main() -> None:
    """Run everything and rewrite the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="snli/ and xsum/")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "table", help="where the runs go")
    parser.add_argument("--model", default="english")
    parser.add_argument("--examples", type=int, default=1000)
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--memory", default="4GB")
    parser.add_argument("--ray", default=None, help="address of a Ray cluster, or local")
    parser.add_argument("--tables", action="store_true", help="rewrite the pages only")
    parser.add_argument("--out", type=Path, help="another file of numbers; the page stays as it is")
    args = parser.parse_args()
    out = args.out or RESULTS
    args.work.mkdir(parents=True, exist_ok=True)
    for part in () if args.tables else args.only:
        made = stamp(pair_head=True, model=args.model)  # an evaluation of other weights is not resumed
        run, gather = PARTS[part]
        run(args)
        write(out, read(out) | gather(args.work), {part: made})
    found = read(out)
    if args.out is None:
        for page in PAGES:
            renew(page, "table", tables(found))
    else:
        print("\n\n".join(f"{name}\n\n{table}" for name, table in tables(found).items()))


if __name__ == "__main__":
    main()
