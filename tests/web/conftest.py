"""The explorer over tiny models: in this process for most tests, on a real socket where that matters."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="FastAPI is not installed: pip install 'unmask[serve]'")

from browser import SETTLED, chromium, find, until
from fastapi import FastAPI
from fastapi.testclient import TestClient
from live import listening, soon

from unmask.web import Limits, Settings, create_app
from unmask.web.service import Service

TEXT = "The [MASK] [MASK] at the casino."
MakeSettings = Callable[..., Settings]


@pytest.fixture(scope="session")
def settings(checkpoint: Callable[[str], Path]) -> MakeSettings:
    """Settings of a server with two tiny models, by default without a check of the host's name."""

    def make(**changes: object) -> Settings:
        models = {"tiny": str(checkpoint("bert")), "other": str(checkpoint("roberta"))}
        return Settings(**{"models": models, "hosts": None, "device": "cpu", **changes})

    return make


@pytest.fixture(scope="module")
def app(settings: MakeSettings) -> FastAPI:
    return create_app(settings(limits=Limits(candidates=100, support=1000, top=200, body=8000)))


@pytest.fixture(scope="module")
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app) as found:
        yield found


@pytest.fixture(scope="module")
def service(app: FastAPI) -> Service:
    return app.state.service


@pytest.fixture(scope="module")
def server(settings: MakeSettings) -> Iterator[tuple[FastAPI, str]]:
    """A server on a real socket, and its address."""
    app = create_app(settings(limits=Limits(seconds=30)))
    with listening(app) as address:
        soon(lambda: app.state.service.ready, 30)
        yield app, address


@pytest.fixture(scope="module")
def session(server: tuple[FastAPI, str]) -> Iterator[Any]:
    """A browser."""
    with chromium(*find()) as found:
        yield found


@pytest.fixture
def at(session: Any, server: tuple[FastAPI, str]) -> Callable[..., Any]:
    """Open the page with a state, and wait until all of it is shown."""

    def open_at(fragment: str = "", settled: bool = True) -> Any:
        session.get("about:blank")
        session.get(f"{server[1]}/{fragment}")
        if settled:
            until(session, lambda: session.execute_script(SETTLED))
        return session

    return open_at
