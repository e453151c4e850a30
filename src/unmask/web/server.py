"""Running the application with uvicorn, from the command line."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable

import torch
import uvicorn

from unmask.errors import RunError
from unmask.web import create_app
from unmask.web.service import Service
from unmask.web.settings import Settings

SHUTDOWN_SECONDS = 3
EXIT_INTERRUPTED = 130


def serve(settings: Settings, host: str, port: int, on_start: Callable[[str], None]) -> None:
    """Serve until interrupted; `on_start` is told the address once it is open (port 0 takes a free one)."""
    listening = _listen(host, port)
    # OpenMP's threads of one worker would wait for those of another: together they were slower than alone
    torch.set_num_threads(max(1, torch.get_num_threads() // settings.limits.workers))
    app = create_app(settings)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    server = uvicorn.Server(config)
    service = app.state.service

    def stop() -> None:
        server.should_exit = True

    service.on_startup_error = stop
    shown = f"[{host}]" if ":" in host else host
    on_start(f"http://{shown}:{listening.getsockname()[1]}")
    try:
        server.run(sockets=[listening])
    finally:
        _wait_for_workers(service)
    if service.startup_error is not None:
        raise service.startup_error


def _wait_for_workers(service: Service) -> None:
    """Give the workers a moment to drop their work; one inside a solver is not waited for."""
    end = time.monotonic() + SHUTDOWN_SECONDS
    while service.pool.busy and time.monotonic() < end:
        time.sleep(0.05)
    if service.pool.busy:
        sys.stderr.write("unmask: stopped in the midst of work\n")
        sys.stderr.flush()
        os._exit(EXIT_INTERRUPTED)  # the interpreter would wait for its threads


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        reason = error.strerror or str(error)
        raise RunError(
            f"can't listen on {host}, port {port} ({reason}): choose another --port, or 0 for any free one"
        ) from error
    listening.listen(128)
    return listening
