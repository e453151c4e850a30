"""The results table of the docs: every construction on SNLI and XSum, random and contiguous pairs.

Four runs of 500 examples at `auto`, which also settle which construction is best (the family of `ag-weighted`
is among the methods), and four of 13 exact ones, 52 in all, over the first of the same examples, which check
them (an exact example takes a minute or more).
Runs are resumable: a killed recipe goes on where it was, and what is finished is not done again.

    python recipes/table.py --data ../shared/data --work RUNS [--model english] [--examples 500] [--exact 13]

It ends by writing RUNS/table.md: the table, the paired differences from the best method, and how far `auto`
is from exact. docs/evaluation.md takes them from there.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from unmask.cli.terminal import Ticker
from unmask.constructions import CONSTRUCTIONS
from unmask.evaluation.report import comparison_table, method_table
from unmask.evaluation.run import evaluate
from unmask.evaluation.settings import Settings

FAMILY = ("ag-weighted:power=0.25", "ag-weighted:power=0.5", "ag-weighted:power=0.75")
METHODS = (*CONSTRUCTIONS, *FAMILY)
PAIRS = ("random", "contiguous")
SHOWN = ("method", "P-PPL", "U-PPL", "A-KL", "G-KL", "recall@1", "median rank")


def sources(data: Path) -> dict[str, str]:
    """The data sets, by the name that they have in the table."""
    return {"snli": f"snli={data / 'snli'}", "xsum": f"xsum={data / 'xsum' / 'summaries.txt'}"}


def run_all(args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Do every run, or go on with it; returns their summaries by name."""
    summaries = {}
    sizes = (("auto", args.examples), ("all", args.exact))
    for candidates, examples in sizes:
        for name, source in sources(args.data).items():
            for pairs in PAIRS:
                run = f"{name}-{pairs}-{'auto' if candidates == 'auto' else 'exact'}"
                print(run, flush=True)
                settings = Settings(
                    data=source,
                    model=args.model,
                    pairs=pairs,
                    examples=examples,
                    methods=METHODS if candidates == "auto" else tuple(CONSTRUCTIONS),
                    candidates=candidates,
                )
                summaries[run] = evaluate(
                    settings, args.work / run, memory=args.memory, ray=args.ray, progress=Ticker("examples")
                )
    return summaries


def table(heads: list[str], rows: list[list[str]]) -> list[str]:
    """Write a table in Markdown."""
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return ["| " + " | ".join(line) + " |" for line in lines] + [""]


def results(summaries: dict[str, dict[str, Any]]) -> list[str]:
    """Write each run's metrics, and the paired differences of P-PPL and U-PPL from its best method."""
    lines = []
    for run, summary in summaries.items():
        heads, rows = method_table(summary)
        kept = [heads.index(name) for name in SHOWN]
        lines += [f"## {run}, {summary['examples']} examples", ""]
        lines += table([heads[i] for i in kept], [[row[i] for i in kept] for row in rows])
        for metric, name in (("p_ppl", "P-PPL"), ("u_ppl", "U-PPL")):
            order, compared = comparison_table(summary, metric)
            best = order[1]
            lines += [f"Log {name} less that of {best} (the best by P-PPL), nats a token, paired:", ""]
            lines += table(["method", "difference"], [[row[0], row[1]] for row in compared if row[0] != best])
    return lines


def distance_from_exact(work: Path, examples: int) -> list[str]:
    """Write how far log q(true pair) at `auto` is from exact, over the examples that both runs have."""
    rows = []
    for name in ("snli", "xsum"):
        for pairs in PAIRS:
            auto, exact = (_log_probs(work / f"{name}-{pairs}-{kind}") for kind in ("auto", "exact"))
            for method in ("ag", "gibbs"):
                errors = [abs(auto[key][method] - exact[key][method]) for key in exact if key in auto]
                mean, worst = sum(errors) / len(errors), max(errors)
                rows.append([name, pairs, method, str(len(errors)), f"{mean:.4f}", f"{worst:.4f}"])
    heads = ["data", "pairs", "method", "examples", "mean error of log q", "worst"]
    return [f"## `auto` against exact, {examples} examples each", "", *table(heads, rows)]


def _log_probs(run: Path) -> dict[str, dict[str, float]]:
    lines = (run / "examples.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    return {r["key"]: {m: v["log_prob"] for m, v in r["metrics"].items()} for r in records}


def main() -> None:
    """Run everything and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="with snli/ and xsum/summaries.txt")
    parser.add_argument("--work", type=Path, required=True, help="where the runs go")
    parser.add_argument("--model", default="english")
    parser.add_argument("--examples", type=int, default=500)
    parser.add_argument("--exact", type=int, default=13)
    parser.add_argument("--memory", default="4GB")
    parser.add_argument("--ray", default=None, help="address of a Ray cluster, or local")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    summaries = run_all(args)
    lines = ["# Results", "", *results(summaries), *distance_from_exact(args.work, args.exact)]
    (args.work / "table.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(args.work / "table.md")


if __name__ == "__main__":
    main()
