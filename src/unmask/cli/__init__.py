"""The command line: one file a command, no logic of its own.

Only typer is imported to start with; each command imports what it needs when it runs, so that `unmask
--help` answers at once. Errors that unmask raises on purpose become one line on standard error and an
exit code (2 for misuse, 1 for a failure at work); `--debug` before the command's name shows the traceback
instead.
"""

from __future__ import annotations

import io
import sys
from importlib import import_module
from inspect import signature
from typing import Annotated

import typer

from unmask import __version__
from unmask.cli.options import SpreadCommand
from unmask.errors import UnmaskError, one_line
from unmask.kernels import compiling
from unmask.memory import is_out_of_memory

app = typer.Typer(
    name="unmask",
    help="Explicit joint distributions from any masked language model.",
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


COMMANDS = (
    "fill",
    "score",
    "sample",
    "compare",
    "explain",
    "evaluate",
    "report",
    "benchmark",
    "mutants",
    "train",
    "distill",
    "finetune",
    "embed",
    "isotropy",
    "wsd",
    "serve",
    "models",
    "cite",
)
"""The modules of this package that have a command, in the order in which help shows them."""


def _register() -> None:
    """Add the commands: a module's group of them, `app`, or its function of the module's own name."""
    for name in COMMANDS:
        module = import_module(f"unmask.cli.{name}")
        if hasattr(module, "app"):
            app.add_typer(module.app)
            continue
        command = getattr(module, name)
        app.command(cls=SpreadCommand if "ray" in signature(command).parameters else None)(command)


_register()


STOPPED = 130
"""The exit code of a command that was interrupted from the keyboard."""


def main() -> None:
    """Run the command line, and turn errors into one line and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that is not Unicode fails no command
    compiling.tell = _note
    try:
        code = app(sys.argv[1:] or ["--help"], prog_name="unmask", standalone_mode=False)
    except typer.Abort:
        code = STOPPED
    except Exception as error:
        if "--debug" in sys.argv and not hasattr(error, "format_message"):
            raise
        sys.stderr.write(f"unmask: {one_line(_explain(error))}\n")
        code = getattr(error, "exit_code", 1)
    if code == STOPPED:
        sys.stderr.write("unmask: stopped\n")
    raise SystemExit(code)


def _note(line: str) -> None:
    """Say on a terminal what takes a while; a log of errors stays clean."""
    if sys.stderr.isatty():
        sys.stderr.write(f"{line}\n")


def _explain(error: Exception) -> str:
    """Say what went wrong: in our words, in typer's, or, where nobody foresaw it, in the error's own."""
    if isinstance(error, UnmaskError):
        return str(error)
    if hasattr(error, "format_message"):  # typer's own errors: unknown options, values of the wrong kind
        command = getattr(getattr(error, "ctx", None), "command_path", "unmask")
        told = error.format_message().rstrip(".")
        return f"{told} See '{command} --help'" if told.endswith("?") else f"{told}: see '{command} --help'"
    if isinstance(error, OSError) and error.filename is not None:  # a name too long, a directory that is none
        return f"{error.filename}: {error.strerror}: check the path and its permissions"
    if is_out_of_memory(error):
        return "the machine is out of memory: lower --memory, cut the support, or ask about fewer candidates"
    return (
        f"something failed that should not have ({type(error).__name__}: {error}): 'unmask --debug ...' "
        f"shows where, please report it"
    )
