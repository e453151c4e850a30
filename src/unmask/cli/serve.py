"""`unmask serve`: the explorer, a web page and an HTTP API."""

from __future__ import annotations

from typing import Annotated

import typer

from unmask.cli import options as o
from unmask.cli.terminal import say, tell
from unmask.errors import RunError, UsageError
from unmask.memory import parse_bytes

Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "-m",
        help="A model that may be asked, NAME or NAME=DIRECTORY; can be repeated, the first is the default.",
    ),
]
Host = Annotated[
    str, typer.Option("--host", help="The address to listen on; loopback unless told otherwise.")
]
Port = Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="The port; 0 for any free one.")]
Token = Annotated[
    str | None,
    typer.Option("--token", envvar="UNMASK_TOKEN", help="Answer only who sends this as a bearer token."),
]
Workers = Annotated[int, typer.Option("--workers", min=1, help="Requests worked on at once.")]
Queue = Annotated[int, typer.Option("--queue", min=0, help="Requests that may wait; further ones get 503.")]
Seconds = Annotated[float, typer.Option("--time-limit", min=0.1, help="Seconds that a request may take.")]
Most = Annotated[
    int, typer.Option("--candidates", "-k", min=1, help="The most candidates that may be asked for.")
]
Keep = Annotated[int, typer.Option("--keep", min=1, help="Models held in memory at once.")]
Cache = Annotated[str, typer.Option("--cache", help="Memory for computed conditionals, as in 500MB.")]


def serve(
    model: Models = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    token: Token = None,
    workers: Workers = 2,
    queue: Queue = 16,
    time_limit: Seconds = 60.0,
    candidates: Most = 1024,
    keep: Keep = 2,
    cache: Cache = "500MB",
    device: o.Device = "auto",
    memory: o.Memory = "4GB",
    allow_pickle: o.AllowPickle = False,
) -> None:
    """Serve the explorer: a page to look at joints, and the HTTP API behind it."""
    models = parse_models(model or ["english"])
    budget = parse_bytes(cache)
    parse_bytes(memory)
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise RunError(f"the explorer needs '{error.name}': pip install 'unmask[serve]'") from None
    from unmask.web.server import serve as run
    from unmask.web.settings import LOOPBACK, Limits, Settings

    local = host in LOOPBACK
    if not local and token is None:
        tell([f"listening on {host} without a token: whoever reaches it may use it (see --token)"])
    limits = Limits(
        workers=workers, queue=queue, seconds=time_limit, candidates=candidates, models=keep, tables=budget
    )
    settings = Settings(
        models=models,
        limits=limits,
        token=token,
        hosts=LOOPBACK if local else None,
        device=device,
        memory=memory,
        allow_pickle=allow_pickle,
    )
    run(settings, host, port, lambda address: say_now(f"the explorer is at {address} (Ctrl+C stops it)"))


def parse_models(given: list[str]) -> dict[str, str]:
    """Return the name of each model that clients may ask for, and what it opens."""
    models: dict[str, str] = {}
    for one in given:
        name, sign, source = one.partition("=")
        if not name or (sign and not source):
            raise UsageError(f"expected a model as NAME or NAME=DIRECTORY, got '{one}'")
        if name in models:
            raise UsageError(f"two models are named '{name}': name them apart, as NAME=DIRECTORY")
        models[name] = source or name
    return models


def say_now(line: str) -> None:
    """Print a line at once, also into a pipe."""
    import sys

    say(line)
    sys.stdout.flush()
