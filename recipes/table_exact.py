"""How far `auto` is from exact, and which construction leads exactly: pairs of `table.py`, done exactly.

The first examples of each of its four runs, at `auto` and with every conditional from a forward pass (about a
minute per pair). Most of them are neighbours of XSum, where `auto` is furthest from exact.

    python recipes/table_exact.py --data ../shared/data --work RUNS [--only xsum-contiguous]
    python recipes/table_exact.py --tables                            rewrite the pages only

The runs are resumable, and each is a part of its own. The measures of every pair go to
docs/figures/table_exact.json; means, intervals and sentences are made of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from command import ROOT, show
from pages import markdown
from provenance import MADE, OTHER, Stamp, read, shown, stamp, write
from table import BASE, PAGES, RUNS, estimates, evaluated, options_of, settings_of
from table_text import clear, signed

from unmask.evaluation.summary import COLUMNS

RESULTS = ROOT / "docs" / "figures" / "table_exact.json"
EXAMPLES = {"snli-random": 19, "snli-contiguous": 19, "xsum-random": 6, "xsum-contiguous": 100}
METHODS = ("ag", "gibbs", "l2r", "mrf-prob")
"""The default, a Markov chain, a single order, and a field."""
RIVAL = "gibbs"
LOSS = "log P-PPL"
MEASURES: dict[str, Callable[[dict[str, float]], float]] = {
    LOSS: COLUMNS["p_ppl"],
    "log U-PPL": COLUMNS["u_ppl"],
    "A-KL": lambda found: found["a_kl"],
    "G-KL": lambda found: found["g_kl"],
}
DIGITS = 6


def measure(args: argparse.Namespace, run: str) -> dict[str, Any]:
    """Return every measure of every pair of a run, at `auto` and exact."""
    count, shared = EXAMPLES[run], args.work / run
    auto = evaluated(args, shared.with_name(f"{run}-auto"), settings_of(args, run, count, methods=METHODS))
    settings = settings_of(args, run, count, methods=METHODS, candidates="all")
    exact = evaluated(args, shared.with_name(f"{run}-exact"), settings)
    return pairs_of(auto, exact)


def pairs_of(auto: list[dict[str, Any]], exact: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the measures at `auto` and exact, [pair, 2] for each method, of examples that both have."""
    known = {record["key"]: record["metrics"] for record in auto}
    both = [(known[r["key"]], r["metrics"]) for r in exact if r["key"] in known]
    return {
        "examples": len(both),
        "pairs": {
            method: {
                name: [[round(of(a[method]), DIGITS), round(of(e[method]), DIGITS)] for a, e in both]
                for name, of in MEASURES.items()
            }
            for method in METHODS
        },
    }


def tables(found: dict[str, Any]) -> dict[str, str]:
    """Return what the pages show, of the runs that there are."""
    runs = of_one_model(found)
    if not runs:
        return {}
    every = {
        m: {name: [pair for run in runs.values() for pair in run["pairs"][m][name]] for name in MEASURES}
        for m in METHODS
    }
    compared = {run: differences(said["pairs"]) for run, said in runs.items()}
    heads = ["run", "examples", "method", *MEASURES]
    return {
        "exact": markdown(heads, [row for run, said in runs.items() for row in measures_of(run, said)]),
        "bias": bias_table(compared | {"all": differences(every)}),
        "leader": leader(compared, {run: said["examples"] for run, said in runs.items()}),
        "source": source(found, runs),
    }


def of_one_model(found: dict[str, Any]) -> dict[str, Any]:
    """Return the runs that were made with the model of the last one."""
    made = {run: found[MADE].get(run, {}) for run in RUNS if run in found}
    last: Stamp = max(made.values(), key=lambda stamp: stamp["date"], default={})
    return {
        run: found[run] for run, by in made.items() if all(by.get(name) == last.get(name) for name in OTHER)
    }


def differences(pairs: dict[str, dict[str, list[list[float]]]]) -> dict[str, Any]:
    """Return, in log P-PPL: `auto` less exact of each method, and each less the base, both exact."""
    auto, exact = np.moveaxis(np.array([pairs[m][LOSS] for m in METHODS]), [0, 2], [2, 0])
    base = METHODS.index(BASE)
    return {"bias": estimates(auto - exact, METHODS), "less": estimates(exact - exact[:, [base]], METHODS)}


def measures_of(run: str, said: dict[str, Any]) -> list[list[str]]:
    """Return a row for each method: means at `auto` and exact, and the mean distance of the two."""
    rows = []
    for method in METHODS:
        cells = []
        for name in MEASURES:
            both = np.array(said["pairs"][method][name])
            auto, exact = both.mean(0)
            cells.append(f"{auto:.3f}, {exact:.3f} ({np.abs(both[:, 0] - both[:, 1]).mean():.3f})")
        rows.append([run, str(said["examples"]), f"`{method}`", *cells])
    return rows


def bias_table(compared: dict[str, Any]) -> str:
    """Return `auto` less exact of each method in every run, and over all runs each less the base."""
    rows = [
        [
            f"`{m}`",
            *(signed(numbers["bias"][m]) for numbers in compared.values()),
            signed(compared["all"]["less"][m]),
        ]
        for m in METHODS
    ]
    heads = ["method", *(run.replace("-", ", ") for run in compared), f"less {BASE}, exact, all"]
    return markdown(heads, rows)


def leader(compared: dict[str, Any], examples: dict[str, int]) -> str:
    """Say how far `auto` is from exact for the base, and who leads exactly, run by run."""
    lines = []
    for run, numbers in compared.items():
        bias, less = numbers["bias"][BASE], numbers["less"][RIVAL]
        ahead = "neither leads" if not clear(less) else f"`{BASE if less['value'] > 0 else RIVAL}` leads"
        lines.append(
            f"- {run.replace('-', ', ')}, {examples[run]} pairs: `{BASE}` at `auto` less exact "
            f"{signed(bias)}; `{RIVAL}` less `{BASE}`, both exact, {signed(less)}: {ahead}."
        )
    return "\n".join(lines)


def source(found: dict[str, Any], runs: dict[str, Any]) -> str:
    """Say what each run was made with."""
    told = [
        f"{said['examples']} of {run.replace('-', ' ')} ({shown(found[MADE][run])})"
        for run, said in runs.items()
    ]
    return f"`python recipes/table_exact.py`: {'; '.join(told)}."


def main() -> None:
    """Do the runs that are asked for, and rewrite the pages."""
    parser = options_of(__doc__, "table_exact", RUNS)
    args = parser.parse_args()
    out = args.out or RESULTS
    args.work.mkdir(parents=True, exist_ok=True)
    for run in () if args.tables else args.only:
        made = stamp(pair_head=True, model=args.model)
        write(out, read(out) | {run: measure(args, run)}, {run: made})
    show(tables(read(out)), PAGES[:2], "table_exact", args.out)


if __name__ == "__main__":
    main()
