"""Pool: a `ThreadPoolExecutor` with a bounded queue, and an error with a retry time when it is full.

A request that can't be served soon is better refused at once, with the time after which to come again, than
kept until its client gives up. Workers are threads: torch and the compiled loops release the interpreter's
lock.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from unmask.memory import is_out_of_memory
from unmask.web.deadline import Deadline

Answer = TypeVar("Answer")
SMOOTHING = 0.2
MAX_RETRY_AFTER = 60


class QueueFull(Exception):
    """The queue is full; `retry_after` seconds are likely to free a place."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"the queue is full, come again in {retry_after} s")
        self.retry_after = retry_after


class Pool:
    """Runs work in `workers` threads, and lets `queue` pieces more wait for one."""

    def __init__(self, workers: int, queue: int) -> None:
        self.workers, self.queue = workers, queue
        self.open()
        self._lock = threading.Lock()
        self._admitted = self._busy = 0
        self._mean_seconds = 1.0

    @property
    def busy(self) -> int:
        """Workers at work."""
        return self._busy

    @property
    def waiting(self) -> int:
        """Pieces of work in the queue."""
        return max(0, self._admitted - self._busy)

    def submit(self, work: Callable[[Deadline], Answer], deadline: Deadline) -> Future[Answer]:
        """Queue a piece of work, which is given its deadline; raises `QueueFull`."""
        with self._lock:
            if self._admitted >= self.workers + self.queue:
                raise QueueFull(self._retry_after())
            self._admitted += 1
        try:
            future = self._executor.submit(self._run, work, deadline)
        except BaseException:
            self._leave()
            raise
        future.add_done_callback(lambda _: self._leave())
        return future

    def open(self) -> None:
        """Take work; after `close` too."""
        self._executor = ThreadPoolExecutor(self.workers, thread_name_prefix="unmask")

    def close(self) -> None:
        """Take no more work, and drop what waits."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _run(self, work: Callable[[Deadline], Answer], deadline: Deadline) -> Answer:
        deadline.check()  # whoever left while waiting costs nothing
        start = time.monotonic()
        with self._lock:
            self._busy += 1
        try:
            return work(deadline)
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise MemoryError from error
            raise
        finally:
            with self._lock:
                self._busy -= 1
                self._mean_seconds += SMOOTHING * (time.monotonic() - start - self._mean_seconds)

    def _leave(self) -> None:
        with self._lock:
            self._admitted -= 1

    def _retry_after(self) -> int:
        """Return in how many seconds half of the queue will have been served, by the recent pace."""
        seconds = self._mean_seconds * (self.queue / 2 + 1) / self.workers
        return max(1, min(MAX_RETRY_AFTER, math.ceil(seconds)))
