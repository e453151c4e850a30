"""`unmask score`: the log-probability of the words in braces, or of every line of a file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from unmask.cli import options as o
from unmask.cli import score_file as files
from unmask.cli.query_options import query_options
from unmask.cli.terminal import Bar, basis, percent, print_json, print_table, say, tell
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
    model: o.Model = "english",
    device: o.Device = "auto",
    memory: o.Memory = "4GB",
    allow_pickle: o.AllowPickle = False,
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
            ("method", "options", "completion", "include", "seed"),
            f"is for words in braces, and {text} is a file",
        )
        check_workers(workers, ray)
        files.score_file(
            path,
            model=model,
            scores=scores,
            orders=orders,
            lengths=lengths,
            query=Query(**query),
            out=out,
            ray=ray,
            workers=workers,
            device=device,
            memory=memory,
            allow_pickle=allow_pickle,
            json=json,
        )
        return
    o.refuse_given(
        ctx,
        ("scores", "orders", "lengths", "out", "ray", "workers"),
        f"is for a file of sentences, and '{text}' is no file: check its name",
    )
    if text.strip() and not {"{", "}"} & set(text):
        raise UsageError(
            "nothing is marked to be scored: put braces around it, as in 'The {man} {is} here.', or name a "
            "file that exists"
        )
    question, bar = Query(text, **query), Bar()
    mlm = o.open_model(model, device, memory, allow_pickle, bar)
    from unmask import api
    from unmask.serialize import score_answer

    answer = score_answer(api.score(question, mlm=mlm, progress=bar), mlm)
    if json:
        print_json(answer)
        return
    tell(answer["notes"])
    show(answer)


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


def show(answer: dict[str, Any]) -> None:
    """Print the joint log-probability and each token's share in it."""
    say(f"log-probability {answer['log_prob']:.4f} ({percent(answer['log_prob'])}) under {answer['method']}")
    if "blanks" not in answer:
        show_blocks(answer)
        return
    rows = [
        [b["token"], f"{b['log_prob_alone']:.4f}", f"{b['log_prob_given_others']:.4f}"]
        for b in answer["blanks"]
    ]
    other = "other" if len(rows) < 3 else "others"
    columns = ["token", "marginal log-prob.", f"log-prob. given the {other}"]
    print_table(answer["text"], columns, rows, numbers={1, 2})
    say(basis(answer))


def show_blocks(answer: dict[str, Any]) -> None:
    """Print what each block of a chain adds."""
    rows = [["  ".join(b["tokens"]), f"{b['log_prob']:.4f}"] for b in answer["blocks"]]
    print_table(answer["text"], ["block", "log-prob. given the blocks above"], rows, numbers={1})
    say(basis(answer))


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(cls=o.SpreadCommand)(score)
