"""The explorer: an HTTP API and a page over the library.

A request goes one way: `middleware` (size, origin, token) -> `app` (routes, typed by `request_schemas` and
`response_schemas`) -> `service` (known answers, queue, deadline, disconnected clients) -> `pool` (worker
threads) -> `handlers` (the library's functions) -> `conditionals_cache` and `model_cache` (what the models
have computed so far). The answers are the dictionaries of `unmask.serialize`: the JSON of the command line.

    from unmask.web import Settings, create_app

    app = create_app(Settings(models={"english": "english"}))        # any ASGI server runs it
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unmask.web.settings import Limits, Settings

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["Limits", "Settings", "create_app"]


def create_app(settings: Settings | None = None) -> FastAPI:
    """Make the application; its models are loaded when it starts."""
    from unmask.web.app import build

    return build(settings or Settings())
