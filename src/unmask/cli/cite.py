"""`unmask cite`: whom to cite for what was used."""

from __future__ import annotations

from typing import Annotated

import typer

from unmask.citations import citations
from unmask.cli.terminal import say

Which = Annotated[
    str | None,
    typer.Argument(help="A construction, score, sampler, command or embedded model [default: all]."),
]


def cite(what: Which = None) -> None:
    """Print whom to cite for what was used, as BibTeX."""
    say(citations(what))
