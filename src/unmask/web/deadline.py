"""Deadline: how long a request may take, and whether its client still waits.

Work runs in threads, which can't be ended from outside. So it checks by itself: the library reports
progress between batches, and the model calls `check` before each of its modules, which is every few
milliseconds even inside a large batch. When the client has left or the time is over, `check` raises, and the
worker is free.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, Queue
from typing import Any, TypeVar

from unmask.progress import Progress

REPORT_INTERVAL = 0.1
POLL_INTERVAL = 0.05
Item = TypeVar("Item")


class ClientDisconnected(Exception):
    """The client has left before the answer."""


class DeadlineExceeded(Exception):
    """The time limit of a request has passed."""


class Deadline(Progress):
    """Passes progress on, and raises during work that is late or that nobody waits for.

    Args:
        seconds: how long the answer may take, from now on.
        report: told of the stage, the units done and their total, at most ten times per second.
    """

    def __init__(self, seconds: float, report: Callable[[str, int, int], None] | None = None) -> None:
        self.seconds = seconds
        self.ends = time.monotonic() + seconds
        self._report = report
        self._cancelled = threading.Event()
        self._stage, self._done, self._total = "", 0, 0
        self._last = 0.0

    def cancel(self) -> None:
        """Mark the client as gone; from any thread."""
        self._cancelled.set()

    def check(self) -> None:
        """Raise if the client is gone, or if the time is over."""
        if time.monotonic() > self.ends:
            raise DeadlineExceeded
        if self._cancelled.is_set():
            raise ClientDisconnected

    @property
    def remaining(self) -> float:
        """Seconds left."""
        return max(0.0, self.ends - time.monotonic())

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
        if self._report is not None and (at_once or now - self._last >= REPORT_INTERVAL):
            self._last = now
            self._report(self._stage, self._done, self._total)

    @contextmanager
    def holding(self, lock: threading.Lock) -> Iterator[None]:
        """Hold a lock, checking while waiting for it."""
        while not lock.acquire(timeout=POLL_INTERVAL):
            self.check()
        try:
            yield
        finally:
            lock.release()

    def waiting_for(self, queue: Queue[Item]) -> Item:
        """Return the next of a queue, checking while waiting for it."""
        while True:
            self.check()
            with suppress(Empty):
                return queue.get(timeout=POLL_INTERVAL)

    @contextmanager
    def checked_during(self, model: Any) -> Iterator[None]:
        """Let a torch module check before each of its parts runs; for one caller at a time."""
        handles = [part.register_forward_pre_hook(lambda *_: self.check()) for part in model.modules()]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
