"""`unmask benchmark`: what scores and joints are worth on grammar, on blanks and on mutants."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from unmask.cli import mutants as m
from unmask.cli import options as o
from unmask.cli.query_options import query_options
from unmask.cli.terminal import Ticker, present, print_json, print_table, tell
from unmask.errors import UsageError
from unmask.inference.mutations import SCORINGS, check_scorings, read_mutants
from unmask.runs.cluster import check_workers
from unmask.values import plural

app = typer.Typer(
    name="benchmark",
    help="Benchmarks of meaning: minimal pairs of grammar, several blanks, mutants.",
    rich_markup_mode=None,
)
Examples = Annotated[int | None, typer.Option("--examples", min=1, help="So many pairs of each file [all].")]
Scores = Annotated[str, typer.Option("--scores", help="pll, pll-word, chain, ag-chain, or all.")]
PairCandidates = Annotated[
    int, typer.Option("--candidates", "-k", min=1, help="Tokens per blank on which a pair is joined.")
]
Out = Annotated[
    Path | None, typer.Option("--out", "-o", help="Keep the records here; a killed run is resumed.")
]


@app.command(cls=o.SpreadCommand)
@query_options("seed")
def blimp(
    directory: Annotated[Path, typer.Argument(help="A directory of BLiMP's .jsonl or .jsonl.gz files.")],
    source: o.ModelOptions,
    examples: Examples = None,
    scores: Scores = "all",
    candidates: PairCandidates = 16,
    out: Out = None,
    ray: o.Ray = None,
    workers: o.Workers = None,
    json: o.Json = False,
    **query: Any,
) -> None:
    """Accuracy on minimal pairs of grammar, by phenomenon, for every score."""
    check_workers(workers, ray)
    if not directory.is_dir():
        raise UsageError(f"expected a directory with BLiMP's .jsonl files, and {directory} is none")
    from unmask.evaluation.benchmarks.blimp import run_blimp
    from unmask.evaluation.score_file import ScoreSettings
    from unmask.inference.sentence_scores import SCORES

    settings = ScoreSettings(
        model=source.model,
        scores=SCORES if scores == "all" else o.parse_names(scores),
        candidates=candidates,
        **source.loading,
    )
    where: dict[str, Any] = {"out": out, "ray": ray, "workers": workers}
    answer = run_blimp(directory, settings, examples=examples, progress=Ticker("pairs"), **query, **where)
    if json:
        print_json(answer)
        return
    rows = []
    for term, row in answer["accuracy"].items():
        rows.append([term, str(row["pairs"]), *(_interval(row[name], 100) for name in settings.scores)])
    if answer["not_scored"]:
        why = "with a sentence that can't be scored (empty, beyond the window, or with a blank)"
        tell([f"left out: {plural(answer['not_scored'], 'pair')} {why}"])
    counted = plural(answer["pairs"], "pair")
    title = f"BLiMP accuracy in % with 95 % intervals, {counted}, model {source.model}"
    print_table(
        title, ["phenomenon", "pairs", *settings.scores], rows, set(range(1, 2 + len(settings.scores)))
    )


@app.command(cls=o.SpreadCommand)
@query_options("seed")
def blanks(
    data: Annotated[
        list[str],
        typer.Option(
            "--data", help="snli=DIR, xsum=FILE, text=FILE or hub:NAME, as in evaluate. Repeatable."
        ),
    ],
    source: o.ModelOptions,
    counts: Annotated[str, typer.Option("--blanks", help="Lengths of the runs of blanks.")] = "2,3,4",
    sentences: Annotated[int, typer.Option("--sentences", help="Sentences per row of the table.")] = 300,
    methods: Annotated[
        str,
        typer.Option(
            "--methods",
            help="independent, greedy, beam, grid-ag, chain-ag (or chain- and another construction), or all.",
        ),
    ] = "all",
    passes: Annotated[int, typer.Option("--passes", help="Forward passes of a grid at the most.")] = 256,
    candidates: PairCandidates = 16,
    out: Out = None,
    ray: o.Ray = None,
    workers: o.Workers = None,
    json: o.Json = False,
    **query: Any,
) -> None:
    """Recall and log-probability of the true filling of neighbouring blanks, for five methods."""
    from unmask.evaluation.sentences import check_data

    check_workers(workers, ray)
    try:
        lengths = tuple(int(n) for n in counts.split(","))
    except ValueError:
        raise UsageError(f"expected numbers of blanks as 2,3,4, got '{counts}'") from None
    for one in data:
        check_data(one)
    from unmask.evaluation.benchmarks.blanks import METHODS, BlanksSettings, run_blanks
    from unmask.models.embedded import absolute
    from unmask.models.masked_lm import MaskedLM

    settings = BlanksSettings(
        blanks=lengths,
        sentences=sentences,
        methods=METHODS if methods == "all" else o.parse_names(methods),
        passes=passes,
        candidates=candidates,
        **query,
    )
    settings.check()
    bar = Ticker("answers")
    mlm = source.open(bar)
    there = partial(MaskedLM.load, absolute(source.model), **source.loading)
    answer = run_blanks(mlm, data, settings, out=out, ray=ray, workers=workers, load=there, progress=bar)
    present(answer, json, show_blanks)


def show_blanks(answer: dict[str, Any]) -> None:
    """Print a row for each data set, number of blanks and method.

    Intervals stand at the gains, which compare methods on the same texts; --json has all of them.
    """
    from unmask.evaluation.benchmarks.blanks import RECALLS

    rows = []
    for row in answer["rows"]:
        cells = [row["data"], str(row["blanks"]), row["method"], str(row["sentences"])]
        cells += [f"{100 * row[f'recall@{k}']['value']:.1f}" for k in RECALLS]
        cells.append("-" if row["log_prob"] is None else f"{row['log_prob']['value']:.2f}")
        for name, scale, digits in (("recall_gain", 100, 1), ("gain", 1, 2)):
            told = "-" if row[name] is None else _interval(row[name], scale, digits)
            cells.append("" if row["method"] == "independent" else told)
        rows.append(cells)
    recalls = ["recall@1, %", *(f"@{k}" for k in RECALLS[1:])]
    columns = ["data", "blanks", "method", "texts", *recalls, "log-prob.", "gain in recall@1", "in log-prob."]
    gains = any(row["recall_gain"] is not None for row in answer["rows"])
    told = (
        "with 95 % intervals of the gain over independent"
        if gains
        else "no independent answers to compare with"
    )
    title = f"several blanks, {told}, model {answer['model']}"
    print_table(title, columns, rows, {1, *range(3, len(columns))})


@app.command()
@query_options()
def mutants(
    file: Annotated[
        Path, typer.Argument(help="Columns mutant (A24G:K30R) and DMS_score or fitness, .csv or .tsv.")
    ],
    wild_type: m.WildType,
    source: o.ModelOptions,
    first: m.First = 1,
    scorings: Annotated[
        str, typer.Option("--scoring", help=f"{', '.join(SCORINGS)} (commas between), or all.")
    ] = "wt-context,masked-marginals,joint",
    method: m.Method = "ag",
    json: o.Json = False,
) -> None:
    """Rank correlation with measured fitness, for every way to score mutants."""
    asked: Any = SCORINGS if scorings == "all" else o.parse_names(scorings)
    check_scorings(asked, method)
    wild = m.read_sequence(wild_type)
    found, fitness = read_mutants(file, wild, first)
    if fitness is None:
        raise UsageError(f"{file}: expected a column DMS_score or fitness: name it so in the first line")
    bar = Ticker("mutants")
    mlm = source.open(bar)
    from unmask.evaluation.benchmarks.mutants import run_mutants

    names = [mutant.name for mutant in found]
    answer = run_mutants(mlm, wild, names, fitness, asked, first=first, method=method, progress=bar)
    if json:
        print_json(answer)
        return
    rows = [
        [
            "all" if row["mutations"] is None else str(row["mutations"]),
            str(row["mutants"]),
            *("-" if row[name] is None else f"{row[name]:.3f}" for name in asked),
        ]
        for row in answer["spearman"]
    ]
    title = f"Spearman's correlation with fitness, model {source.model}"
    print_table(title, ["mutations", "mutants", *asked], rows, set(range(2 + len(asked))))


def _interval(row: dict[str, Any], scale: float, digits: int = 1) -> str:
    from unmask.evaluation.intervals import Estimate, shown

    return shown(Estimate(**row), scale, digits)
