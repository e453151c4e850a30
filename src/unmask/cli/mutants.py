"""`unmask mutants`: score mutants of a sequence, and find the best of all combinations at some sites."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmask.cli import options as o
from unmask.cli.query_options import query_options
from unmask.cli.terminal import Ticker, print_json, tell
from unmask.errors import UsageError
from unmask.inference.mutations import SCORINGS, check_scoring, read_mutants

if TYPE_CHECKING:
    from unmask.inference.mutant_scores import MutantRow

app = typer.Typer(
    name="mutants",
    help="Mutants of a protein or of another sequence: scores, and the best of all combinations.",
    rich_markup_mode=None,
)
WildType = Annotated[str, typer.Option("--wild-type", help="The sequence, or a FASTA file that holds it.")]
First = Annotated[int, typer.Option("--first", help="The number of its first letter.")]
Scoring = Annotated[str, typer.Option("--scoring", help=f"{', '.join(SCORINGS)}.")]
Method = Annotated[str, typer.Option("--method", help="The construction that joins two sites.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Write the table here [standard output].")]
COLUMNS = ("mutant", "mutations", "score", "additive", "epistasis")


@app.command()
@query_options()
def score(
    file: Annotated[
        Path,
        typer.Argument(
            help=".csv or .tsv with a column mutant (A24G:K30R); DMS_score or fitness if measured."
        ),
    ],
    wild_type: WildType,
    source: o.ModelOptions,
    scoring: Scoring = "joint",
    first: First = 1,
    method: Method = "ag",
    out: Out = None,
    json: o.Json = False,
) -> None:
    """Score every mutant of a file against the wild type."""
    check_scoring(scoring, method)
    wild = read_sequence(wild_type)
    found, measured = read_mutants(file, wild, first)
    if out is not None:
        o.check_place(out)
    bar = Ticker("mutants", closing=False)
    mlm = source.open(bar)
    from unmask.inference.mutant_scores import score_mutants

    names = [mutant.name for mutant in found]
    options: Any = {"scoring": scoring, "first": first, "method": method}
    scores = score_mutants(wild, names, measured=measured, mlm=mlm, progress=bar, **options)
    if json:
        print_json(scores.to_dict())
        return
    write_table(scores, out, measured=measured is not None)
    if measured is not None:
        told = [
            f"{'all' if row['mutations'] is None else row['mutations']} ({row['mutants']} mutants) "
            + ("-" if row["spearman"] is None else f"{row['spearman']:.3f}")
            for row in scores.by_mutations()
        ]
        tell([f"Spearman's correlation with what was measured, by number of mutations: {', '.join(told)}"])


@app.command()
@query_options()
def scan(
    wild_type: WildType,
    sites: Annotated[str, typer.Option("--sites", help="The positions, as 39,40,41,54.")],
    source: o.ModelOptions,
    targets: Annotated[
        list[str] | None,
        typer.Option("--targets", help="Letters that are tried, as ACDE; once for all sites, or per site."),
    ] = None,
    scoring: Scoring = "joint",
    top: Annotated[int, typer.Option("--top", "-t", min=1, help="How many of the best to show.")] = 10,
    first: First = 1,
    method: Method = "ag",
    out: Out = None,
    json: o.Json = False,
) -> None:
    """Score all combinations of letters at some sites and show the best."""
    check_scoring(scoring, method)
    wild = read_sequence(wild_type)
    try:
        numbers = [int(site) for site in o.parse_names(sites)]
    except ValueError:
        raise UsageError(f"expected sites as 39,40,41,54, got '{sites}'") from None
    if out is not None:
        o.check_place(out)
    bar = Ticker("combinations", closing=False)
    mlm = source.open(bar)
    from unmask.inference.mutant_scan import scan_mutants

    letters = targets[0] if targets and len(targets) == 1 else targets or None
    options: Any = {"scoring": scoring, "first": first, "method": method}
    best = scan_mutants(wild, numbers, targets=letters, mlm=mlm, progress=bar, **options).top(top)
    if json:
        print_json(best.to_dict())
        return
    write_table(best, out)


def write_table(rows: Iterable[MutantRow], out: Path | None, *, measured: bool = False) -> None:
    """Write a row per mutant, commas between the columns."""
    with nullcontext(sys.stdout) if out is None else out.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow([*COLUMNS, *(["DMS_score"] if measured else [])])
        for row in rows:
            numbers = [f"{value:.6f}" for value in (row.score, row.additive, row.epistasis)]
            table.writerow([row.mutant, row.mutations, *numbers, *([row.measured] if measured else [])])


def read_sequence(given: str) -> str:
    """Return the wild type: letters, or those of a FASTA file."""
    path = Path(given)
    if len(given) < 256 and path.is_file():
        from unmask.text.lines import read_lines

        lines = [line.strip() for _, line in read_lines(path)]
        names = [line for line in lines if line.startswith(">")]
        if len(names) > 1:
            raise UsageError(
                f"{path} holds {len(names)} sequences: expected a FASTA file of the wild type alone"
            )
        given = "".join(line for line in lines if not line.startswith(">"))
    if not (given.isascii() and given.isalpha()):
        raise UsageError("expected the wild type as letters, or a FASTA file that holds one sequence")
    return given.upper()
