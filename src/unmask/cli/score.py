"""`unmask score`: the log-probability of the words in braces, or of every line of a file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from unmask.cli import options as o
from unmask.cli import score_file as files
from unmask.cli.query_options import query_options
from unmask.cli.terminal import Bar, basis, percent, present, print_table, say
from unmask.errors import UsageError
from unmask.inference.query import SPECS, Query
from unmask.runs.cluster import check_workers
from unmask.text.lines import open_bytes

Braced = Annotated[
    str,
    typer.Argument(
        help="A text with braces around what is scored, 'The {man} {is} here.', or a file of lines, - a pipe."
    ),
]


@query_options(*[name for name in SPECS if name != "text"])
def score(
    ctx: typer.Context,
    text: Braced,
    source: o.ModelOptions,
    scores: files.Scores = None,
    orders: files.Orders = 1,
    lengths: files.Lengths = None,
    out: files.Out = None,
    ray: o.Ray = None,
    workers: files.Workers = None,
    json: o.Json = False,
    **query: Any,
) -> None:
    """Score the words in braces under the joint of their blanks, or every line of a file."""
    path = None if "{" in text else _file(ctx, text)
    if path is not None:
        o.refuse_given(
            ctx,
            ("method", "options", "completion", "include", "targets", "seed"),
            f"is for words in braces, and {text} is a file",
        )
        check_workers(workers, ray)
        where: dict[str, Any] = {"out": out, "ray": ray, "workers": workers}
        files.score_file(path, source, scores, orders, lengths, Query(**query), json=json, **where)
        return
    o.refuse_given(
        ctx,
        ("scores", "orders", "lengths", "out", "ray", "workers"),
        f"is for a file of sentences, and '{text}' is no file: check its name",
    )
    if text.strip() and not {"{", "}"} & set(text):
        _refuse_path(text)
        raise UsageError(
            "nothing is marked to be scored: put braces around it, as in 'The {man} {is} here.', or name a "
            "file that exists"
        )
    question, bar = Query(text, **query), Bar()
    mlm = source.open(bar)
    from unmask import api
    from unmask.serialize import score_answer

    present(score_answer(api.score(question, mlm=mlm, progress=bar), mlm), json, show)


def _file(ctx: typer.Context, text: str) -> Path | None:
    """Return the file that is meant (a pipe is kept in one: it is read twice), or None for a text."""
    try:
        if Path(text).is_file():
            return Path(text)
        pipe = text == "-" or Path(text).is_fifo()
    except (OSError, ValueError):  # a text that can't be the name of a file
        return None
    if not pipe:
        return None
    kept = Path(ctx.with_resource(tempfile.TemporaryDirectory())) / "lines.txt"
    with kept.open("wb") as file, open_bytes(text) as coming:
        file.writelines(coming)
    return kept


def _refuse_path(text: str) -> None:
    """Raise if a text without braces is a path that leads to no file: a word with a slash or an ending."""
    if len(text.split()) > 1 or not ("/" in text or len(Path(text).suffix) > 1):
        return
    try:
        directory = Path(text).is_dir()
    except (OSError, ValueError):
        return
    fault = "is a directory: name a file in it" if directory else "does not exist: check the path"
    raise UsageError(f"{text} {fault}; a text to score has braces, as in 'The {{man}} {{is}} here.'")


def show(answer: dict[str, Any]) -> None:
    """Print the joint log-probability and each token's share in it."""
    say(f"log-probability {answer['log_prob']:.4f} ({percent(answer['log_prob'])}) under {answer['method']}")
    if "blocks" in answer:  # of a chain
        columns = ["block", "log-prob. given the blocks above"]
        rows = [["  ".join(b["tokens"]), f"{b['log_prob']:.4f}"] for b in answer["blocks"]]
    else:
        other = "other" if len(answer["blanks"]) < 3 else "others"
        columns = ["token", "marginal log-prob.", f"log-prob. given the {other}"]
        numbers = ("marginal_log_prob", "log_prob_given_others")
        rows = [[b["token"], *(f"{b[name]:.4f}" for name in numbers)] for b in answer["blanks"]]
    print_table(answer["text"], columns, rows, numbers={1, 2})
    say(basis(answer))
