"""`unmask score FILE`: the log-probability of every line of a file."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from unmask.cli import options as o
from unmask.cli.terminal import Ticker, print_json, say, tell
from unmask.errors import UsageError
from unmask.inference.query import Query
from unmask.progress import Progress
from unmask.values import plural

Scores = Annotated[
    str | None,
    typer.Option(
        "--scores",
        help="Of a file: pll, pll-word, chain, ag-chain (commas between), or all [default: pll; chain with "
        "--lengths, --orders or a causal model].",
        show_default=False,
    ),
]
Orders = Annotated[
    int, typer.Option("--orders", min=1, help="Of a file: orders of the tokens that chain is averaged over.")
]
Lengths = Annotated[
    str | None,
    typer.Option(
        "--lengths",
        help="Of a file: lengths of texts, empirical, uniform:M, geometric:M, a file of sentences or .json.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="Of a file: keep the records here; a killed run is resumed."),
]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="Of a file: workers on the Ray cluster.")
]
NOTHING = "there is nothing to score: the file has no lines"


def score_file(
    path: Path,
    source: o.ModelOptions,
    scores: str | None,
    orders: int,
    lengths: str | None,
    query: Query,
    *,
    ray: str | None,
    json: bool,
    **where: Any,
) -> None:
    """Score every line and print a row or a JSON object for each; `where` goes to the run: out, workers."""
    from unmask.evaluation.score_file import LineScorer, ScoreSettings, count_lengths
    from unmask.evaluation.score_file import score_file as run
    from unmask.inference.lengths import parse_lengths
    from unmask.inference.model_conditionals import PAIR_CANDIDATES
    from unmask.inference.sentence_scores import DISTRIBUTIONS, SCORES
    from unmask.inference.sentences import SentenceReader

    if query.candidates == "all":
        raise UsageError("a file's pairs are joined on a number of candidates per blank: give one, or auto")
    settings = ScoreSettings(
        model=source.model,
        scores=SCORES
        if scores == "all"
        else o.parse_names(scores or _usual_score(source.model, lengths, orders)),
        support="all" if query.support == "auto" else query.support,
        candidates=PAIR_CANDIDATES if query.candidates == "auto" else query.candidates,
        orders=orders,
        truncate=query.truncate,
        **source.loading,
    )
    settings.check()
    if lengths is not None and not set(settings.scores) & set(DISTRIBUTIONS):
        raise UsageError(
            f"--lengths is for distributions ({', '.join(DISTRIBUTIONS)}), and --scores names none of them: "
            f"leave it out, or add one"
        )
    # a bar and rows on one terminal would mix
    bar = Progress() if sys.stdout.isatty() else Ticker("lines", closing=False)
    scorer, known = None, None
    if ray is None or lengths is not None:
        mlm = source.open_language_model(bar)
        scorer = LineScorer(mlm, settings)
        if lengths is not None:
            read, most = SentenceReader(mlm), mlm.window if query.truncate else None
            known = parse_lengths(lengths, lambda file: count_lengths(file, read, most), path)
    records = run(path, settings, lengths=known, scorer=scorer, ray=ray, progress=bar, **where)
    if json:
        last = None
        for last in records:
            print_json(last)
        if last is None:
            tell([NOTHING])
        return
    columns = {name: (name, "log_prob") for name in settings.scores}
    if known is not None:
        columns |= {
            name: (f"{name}, any length", "log_prob_of_text")
            for name in settings.scores
            if name in DISTRIBUTIONS
        }
    show(records, columns)


def _usual_score(model: str, lengths: str | None, orders: int) -> str:
    """Return the score if none is asked for: pll, unless only a chain will do."""
    if lengths is not None or orders > 1:
        return "chain"
    from unmask.models.checkpoint import is_causal
    from unmask.models.embedded import locate

    return "chain" if is_causal(locate(model)) else "pll"


def show(records: Any, columns: dict[str, tuple[str, str]]) -> None:
    """Print a row for each line as it comes, tabs between the columns, and the sums at the end.

    `columns` gives each score's head, and which of its numbers stands below it, in total and per token.
    """
    heads = [head for head, _ in columns.values()]
    both = [name for head in heads for name in (head, f"{head} per token")]
    head = "\t".join(["line", "tokens", *both, "text"])
    tokens, lines, missing, size = 0, 0, 0, 0
    bits = dict.fromkeys(columns, 0.0)
    sums = [0.0] * len(columns)
    for number, record in enumerate(records):
        if number == 0:  # what is refused is refused before
            say(head)
        found = record["scores"]
        cells = ["null"] * len(both)
        if found:
            given = [found[name][key] for name, (_, key) in columns.items()]
            totals = [-math.inf if total is None else total for total in given]
            cells = [f"{value:.4f}" for total in totals for value in (total, total / record["length"])]
            tokens, lines = tokens + record["length"], lines + 1
            of_text = len(record["text"].encode())
            size += of_text
            for name, values in found.items():
                bits[name] += values.get("bits_per_byte", math.nan) * of_text
            sums = [a + b for a, b in zip(sums, totals, strict=True)]
        else:
            missing += 1
        if "note" in record:
            tell([f"line {record['key']}: {'' if found else 'not scored: '}{record['note']}"])
        say("\t".join([str(record["key"]), str(record["length"]), *cells, record["text"]]))
    if not lines + missing:
        say(head)
        tell([NOTHING])
    if tokens:
        means = "; ".join(f"{head} {total / tokens:.4f}" for head, total in zip(heads, sums, strict=True))
        empty = f", {missing} without a score" if missing else ""
        per_byte = [f"{name} {total / size:.4f}" for name, total in bits.items() if total == total]
        shown = f"; bits per byte: {'; '.join(per_byte)}" if per_byte else ""
        of = f"{plural(lines, 'sentence')} of {plural(tokens, 'token')}"
        tell([f"{of}{empty}; nats per token: {means}{shown}"])
