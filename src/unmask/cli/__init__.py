"""The command line: one file a command, no logic of its own.

Only typer is imported here; each command imports what it needs when it runs, so that `unmask --help`
answers at once. Errors that unmask raises on purpose become one line on standard error and an exit code
(2 for misuse, 1 for a failure at work); `--debug` shows the traceback instead.
"""

from __future__ import annotations

import sys

import typer

from unmask.errors import UnmaskError

app = typer.Typer(
    name="unmask",
    help="Explicit joint distributions from any masked language model.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def root(debug: bool = typer.Option(False, "--debug", help="Show a traceback when something fails.")) -> None:
    """Hold the options that come before the command's name."""


def main() -> None:
    """Run the command line, and turn errors into one line and an exit code."""
    try:
        app()
    except UnmaskError as error:
        if "--debug" in sys.argv:
            raise
        typer.echo(f"unmask: {error}", err=True)
        raise SystemExit(error.exit_code) from None
