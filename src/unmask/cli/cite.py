"""`unmask cite`: whom to cite for what was used."""

from __future__ import annotations

from typing import Annotated

import typer

from unmask.citations import citations
from unmask.cli.terminal import say

Which = Annotated[str | None, typer.Option("--method", help="Only for this construction.")]


def cite(method: Which = None) -> None:
    """Print the BibTeX entries of the methods."""
    say(citations(method))


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command()(cite)
