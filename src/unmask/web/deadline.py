"""Watch: the patience of whoever waits for an answer.

Work runs in threads, which can't be ended from outside. So it looks up by itself: the library reports
progress between batches, and the model calls `check` before each of its modules, which is every few
milliseconds even inside a large batch. When the client has left or the time is over, `check` raises, and the
worker is free.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from unmask.progress import Progress

BETWEEN_REPORTS = 0.1
LOOK_UP = 0.05


class Abandoned(Exception):
    """Nobody waits for the answer any more."""


class OutOfTime(Exception):
    """The time limit of a request has passed."""


class Watch(Progress):
    """Passes progress on, and raises in the midst of work that nobody waits for.

    Args:
        seconds: how long the answer may take, from now on.
        report: told of the stage, the units done and their total, at most ten times a second.
    """

    def __init__(self, seconds: float, report: Callable[[str, int, int], None] | None = None) -> None:
        self.seconds = seconds
        self.deadline = time.monotonic() + seconds
        self._report = report
        self._abandoned = threading.Event()
        self._stage, self._done, self._total = "", 0, 0
        self._last = 0.0

    def abandon(self) -> None:
        """Say that nobody waits any more; from any thread."""
        self._abandoned.set()

    def check(self) -> None:
        """Raise if nobody waits any more, or if the time is over."""
        if time.monotonic() > self.deadline:
            raise OutOfTime
        if self._abandoned.is_set():
            raise Abandoned

    @property
    def remaining(self) -> float:
        """Seconds left."""
        return max(0.0, self.deadline - time.monotonic())

    def started(self, stage: str, total: int) -> None:
        """Begin a stage."""
        self.check()
        self._stage, self._done, self._total = stage, 0, total
        self._tell(at_once=True)

    def advanced(self, units: int) -> None:
        """Go on with it."""
        self.check()
        self._done += units
        self._tell(at_once=self._done >= self._total)

    def _tell(self, *, at_once: bool) -> None:
        now = time.monotonic()
        if self._report is not None and (at_once or now - self._last >= BETWEEN_REPORTS):
            self._last = now
            self._report(self._stage, self._done, self._total)

    @contextmanager
    def holding(self, lock: threading.Lock) -> Iterator[None]:
        """Hold a lock, looking up while waiting for it."""
        while not lock.acquire(timeout=LOOK_UP):
            self.check()
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def inside(self, model: Any) -> Iterator[None]:
        """Let a torch module check before each of its parts runs; for one caller at a time."""
        handles = [part.register_forward_pre_hook(lambda *_: self.check()) for part in model.modules()]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
