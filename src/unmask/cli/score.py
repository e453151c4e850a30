"""`unmask score`: the log-probability of the words in braces."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from unmask.cli import options as o
from unmask.cli.terminal import basis, percent, print_json, print_table, say, tell

Braced = Annotated[
    str, typer.Argument(help="A text with braces around what is scored: 'The {man} {is} here.'")
]


def score(
    text: Braced,
    model: o.Model = "english",
    method: o.Method = "ag",
    options: o.Options = None,
    candidates: o.Candidates = "auto",
    completion: o.Completion = "learned",
    support: o.SupportName = "auto",
    seed: o.Seed = 0,
    truncate: o.Truncate = False,
    device: o.Device = "auto",
    memory: o.Memory = "4GB",
    allow_pickle: o.AllowPickle = False,
    json: o.Json = False,
) -> None:
    """Score the words in braces under the joint of their blanks."""
    result, mlm = o.ask(
        "score",
        text,
        model=model,
        device=device,
        memory=memory,
        allow_pickle=allow_pickle,
        candidates=candidates,
        support=support,
        method=method,
        options=options,
        completion=completion,
        seed=seed,
        truncate=truncate,
    )
    from unmask.answers import score_answer

    answer = score_answer(result, mlm)
    if json:
        print_json(answer)
        return
    tell(answer["notes"])
    show(answer)


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
    columns = ["token", "log-prob., the other unknown", "log-prob., the other given"]
    print_table(answer["text"], columns, rows, numbers={1, 2})
    say(basis(answer))


def show_blocks(answer: dict[str, Any]) -> None:
    """Print what each block of a chain adds."""
    rows = [["  ".join(b["tokens"]), f"{b['log_prob']:.4f}"] for b in answer.get("blocks", [])]
    if rows:
        print_table(answer["text"], ["block", "log-prob., given the blocks above"], rows, numbers={1})
    say(basis(answer))


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command()(score)
