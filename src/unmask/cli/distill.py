"""`unmask distill`: train the pair head of a model, which gives joints from one forward pass."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from unmask.cli import options as o
from unmask.cli.settings_options import with_settings
from unmask.cli.terminal import Bar, print_json, say
from unmask.runs.kept_memory import keep_freed_memory
from unmask.text.lines import check_file
from unmask.training.distill import DistillSettings

HELP = {entry.name: entry.metadata["help"] for entry in fields(DistillSettings)}


@with_settings(DistillSettings, leave_out=("corpora",))
def distill(
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="Directory of the run; one that holds the same run is resumed."),
    ],
    corpus: Annotated[list[str], typer.Option(help=HELP["corpora"])],
    ray: o.Ray = None,
    json: o.Json = False,
    **given: Any,
) -> None:
    """Train the pair head of a model from plain text; a killed run is resumed."""
    from unmask.training.distill import distill as run

    settings = DistillSettings(corpora=tuple(corpus), **given)
    for one in settings.read_corpora():
        check_file(one.path)
    keep_freed_memory()
    made = run(settings, out, ray=ray, progress=Bar())
    if json:
        print_json({"head": str(made.head), "card": made.card.to_dict(), "history": made.history})
        return
    for error in made.card.held_out:
        if error.distance in (1, 2, 4, 8, 16, 32):
            say(f"distance {error.distance:>2}: KL {error.kl:.3f}, without the head {error.kl_without:.3f}")
    say(f"pair head: {made.head}")
