"""`unmask report`: the report of a run made anew, or several runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unmask.cli import options as o
from unmask.cli.terminal import print_json, print_table, say, tell


def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders that 'unmask evaluate --out' made.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Page to write the comparison of several runs to, as .html."),
    ] = None,
    json: o.Json = False,
) -> None:
    """Make the report of a run anew, finished or not, or compare several runs."""
    from unmask.errors import UsageError

    if len({run.resolve() for run in runs}) < len(runs):
        raise UsageError("a run is named twice: give each directory once")
    if len(runs) == 1 and out is not None:
        raise UsageError("--out is for the comparison of several runs: name two or more, or leave it away")
    for run in runs:
        if not run.is_dir():
            raise UsageError(f"{run} holds no evaluation: give a directory that 'unmask evaluate --out' made")
    from unmask.evaluation.report import (
        compare_runs,
        comparison_page,
        examples_told,
        runs_table,
        side_by_side,
    )
    from unmask.evaluation.run import conclude, open_run
    from unmask.evaluation.summary import summarise
    from unmask.lazy import require
    from unmask.runs.disk import write_whole

    require("the report", "evaluate", "matplotlib")
    short = len({run.resolve().name for run in runs}) == len(runs)
    names = [run.resolve().name if short else str(run) for run in runs]
    if len(runs) == 1:
        from unmask.cli.evaluate import show

        summary = conclude(runs[0], *open_run(runs[0]))
        if json:
            print_json(summary)
        else:
            show(summary, runs[0])
        return
    summaries = {}
    for name, run in zip(names, runs, strict=True):
        settings, records = open_run(run)
        summaries[name] = summarise(records, settings)
    tell([f"{n}: {examples_told(s)}" for n, s in summaries.items() if s["examples"] < s["drawn"]])
    if out is not None:
        write_whole(out, comparison_page(summaries))
    if json:
        print_json(compare_runs(summaries))
        return
    print_table("Runs", *runs_table(summaries))
    for metric, (heads, rows) in side_by_side(summaries).items():
        print_table(metric, heads, rows, numbers=set(range(1, len(heads))))
    if out is not None:
        say(f"report: {out}")
