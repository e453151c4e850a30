"""A server on a real socket, a slowed model, and patience."""

import contextlib
import math
import socket
import threading
import time
from collections.abc import Callable, Iterator

import uvicorn
from fastapi import FastAPI

from unmask.models.masked_lm import MaskedLM


@contextlib.contextmanager
def listening(app: FastAPI) -> Iterator[str]:
    """Serve an application on a free port of loopback, in a thread of its own."""
    bound = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        deadline = time.monotonic() + 20
        while not server.started and time.monotonic() < deadline:
            time.sleep(0.02)
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
    assert not thread.is_alive()


def slowed(mlm: MaskedLM, seconds: float) -> None:
    """Let each part of a model take so much longer, as the parts of a large one do."""
    for part in mlm.model.modules():
        part.register_forward_pre_hook(lambda *_: time.sleep(seconds))


def soon(condition: Callable[[], bool], seconds: float) -> float:
    """Wait until something holds, and return how long that took; fails if it takes longer than allowed."""
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < seconds, f"still not so after {seconds} s"
        time.sleep(0.01)
    return time.monotonic() - start


def agree(got: object, want: object) -> bool:
    """Whether two answers say the same, but for the order in which another thread summed."""
    if isinstance(got, dict) and isinstance(want, dict):
        keys = [k for k in got if k != "gradient_norm"]  # as small as a rounding error, and made of them
        return got.keys() == want.keys() and all(agree(got[k], want[k]) for k in keys)
    if isinstance(got, list) and isinstance(want, list):
        return len(got) == len(want) and all(map(agree, got, want))
    if isinstance(got, float) and isinstance(want, float):
        return math.isclose(got, want, rel_tol=1e-5, abs_tol=1e-6)
    return got == want
