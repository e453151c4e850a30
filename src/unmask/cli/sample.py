"""`unmask sample`: fillings drawn from the joint."""

from __future__ import annotations

from typing import Annotated

import typer

from unmask.cli import options as o
from unmask.cli.terminal import basis, percent, print_json, print_table, say, tell

Number = Annotated[int, typer.Option("--number", "-n", min=1, help="How many fillings to draw.")]


def sample(
    text: o.Text,
    number: Number = 10,
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
    """Draw fillings from the joint distribution of a text's blanks."""
    joint, mlm = o.ask(
        "fill",
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
    from unmask.answers import sample_answer

    answer = sample_answer(joint, mlm, number, seed)
    if json:
        print_json(answer)
        return
    tell(answer["notes"])
    rows = [[percent(f["log_prob"]), "  ".join(f["tokens"]), f["text"]] for f in answer["samples"]]
    print_table(
        f"{number} samples from {answer['method']}, seed {seed}", ["probability", "tokens", "text"], rows, {0}
    )
    say(basis(answer))


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command()(sample)
