"""`unmask evaluate`: every construction's perplexities and divergences on a data set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from unmask.cli import options as o
from unmask.cli.query_options import query_options
from unmask.cli.terminal import Ticker, print_json, print_table, say, tell

SHOWN = ("method", "P-PPL", "U-PPL", "A-KL", "G-KL", "JSD", "recall@1", "@10", "median rank")


@query_options("candidates", "completion", "support", "seed")
def evaluate(
    data: Annotated[
        str, typer.Option("--data", help="snli=DIR, xsum=FILE, text=FILE (.gz too), or hub:NAME[:SPLIT].")
    ],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="Directory of the run; one that holds the same run is resumed."),
    ],
    source: o.ModelOptions,
    pairs: Annotated[
        str,
        typer.Option("--pairs", help="Which two tokens are blanked: random, contiguous or distance=1..8."),
    ] = "random",
    examples: Annotated[
        str, typer.Option("--examples", help="How many sentences: a number, or all.")
    ] = "1000",
    methods: Annotated[
        str,
        typer.Option(
            "--methods", help="Constructions, separated by commas, with options as hcb:order=ba; or all."
        ),
    ] = "all",
    ray: o.Ray = None,
    workers: o.Workers = None,
    json: o.Json = False,
    **query: Any,
) -> None:
    """Measure every construction on a data set; a killed run is resumed."""
    from unmask.errors import UsageError
    from unmask.evaluation.sentences import check_data
    from unmask.runs.cluster import check_workers

    if examples != "all" and not examples.isdecimal():
        raise UsageError(f"expected a number of examples, or all, got '{examples}'")
    check_workers(workers, ray)
    check_data(data)
    from unmask.evaluation.run import evaluate as run
    from unmask.evaluation.settings import Settings

    settings = Settings(
        data=data,
        model=source.model,
        pairs=pairs,
        examples=None if examples == "all" else int(examples),
        methods=() if methods == "all" else o.parse_names(methods),
        **query,
    )
    summary = run(settings, out, **source.loading, ray=ray, workers=workers, progress=Ticker("examples"))
    if json:
        print_json(summary)
    else:
        show(summary, out)


def show(summary: dict[str, Any], out: Path) -> None:
    """Print what was measured in one table."""
    from unmask.evaluation.report import examples_told, facts, method_table

    tell(facts(summary))
    heads, rows = method_table(summary)
    kept = [heads.index(name) for name in SHOWN]
    for row in rows:
        row[3:] = [cell.partition(" [")[0] for cell in row[3:]]  # intervals of perplexities are enough here
    print_table(
        f"{summary['data']}, {summary['pairs']} pairs, {examples_told(summary)}",
        [heads[i] for i in kept],
        [[row[i] for i in kept] for row in rows],
        numbers=set(range(1, len(kept))),
    )
    say(f"report: {out / 'report.html'}")
