"""The command line: one file a command, no logic of its own.

Only typer is imported to start with; each command imports what it needs when it runs, so that `unmask
--help` answers at once. Errors that unmask raises on purpose become one line on standard error and an
exit code (2 for misuse, 1 for a failure at work); `--debug` before the command's name shows the traceback
instead.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from unmask import __version__
from unmask.errors import UnmaskError

app = typer.Typer(
    name="unmask",
    help="Explicit joint distributions from any masked language model.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"unmask {__version__}")
        raise typer.Exit


@app.callback()
def root(
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback when something fails.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Explicit joint distributions from any masked language model."""


def _register() -> None:
    from unmask.cli import cite, compare, fill, models, sample, score

    for command in (fill, score, sample, compare, models, cite):
        command.register(app)


_register()


def main() -> None:
    """Run the command line, and turn errors into one line and an exit code."""
    try:
        app()
    except UnmaskError as error:
        if "--debug" in sys.argv:
            raise
        line = " ".join(str(error).split())
        sys.stderr.write(f"unmask: {line}\n")
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        sys.stderr.write("unmask: stopped\n")
        raise SystemExit(130) from None
