"""Pool: worker threads with a bounded queue, and an error with a retry time when it is full.

A request that can't be served soon is better refused at once, with the time after which to come again, than
kept until its client gives up. Workers are threads: torch and the compiled loops release the interpreter's
lock.

Not a `ThreadPoolExecutor`, for two reasons. It starts its threads when they are needed, when there may be no
memory for them any more. And it keeps a thread for good, but one in which a library once had no memory may
not work from then on (OpenMP has not started its threads, a compiler keeps its error): here a new thread
takes its place.

Work does not begin without some free memory. Where the smallest objects can't be had, Python itself fails in
ways that it does not recover from.
"""

from __future__ import annotations

import atexit
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar

import torch

from unmask.memory import is_out_of_memory
from unmask.web.deadline import Deadline
from unmask.web.free_memory import FreedMemory, check_room

Answer = TypeVar("Answer")
SMOOTHING = 0.2
MAX_RETRY_AFTER = 60
ROOM_FOR_WORK = 2**25
"""Bytes that are free before a piece of work is begun."""
ROOM_FOR_A_THREAD = 2**26
"""Bytes that are free before another thread is started: its stack and those of its OpenMP threads, and some.
OpenMP ends the process where it can't start a thread."""
LARGE_ENOUGH = 2**18
"""Elements that torch shares out among its threads."""


class QueueFull(Exception):
    """The queue is full; `retry_after` seconds are likely to free a place."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"the queue is full, come again in {retry_after} s")
        self.retry_after = retry_after


class _Piece(NamedTuple):
    """A piece of work, and where its answer goes."""

    work: Callable[[Deadline], Any]
    deadline: Deadline
    future: Future[Any]


_Pieces = SimpleQueue[_Piece | None]


class Pool:
    """Runs work in `workers` threads, and lets `queue` pieces more wait for one."""

    def __init__(self, workers: int, queue: int) -> None:
        self.workers, self.queue = workers, queue
        self._freed_memory = FreedMemory()
        self._lock = threading.Lock()
        self._admitted = self._busy = 0
        self._mean_seconds = 1.0
        self._pieces: _Pieces | None = None
        self._threads: set[threading.Thread] = set()
        self.open()
        atexit.register(self._finish)

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
            if self._pieces is None or self._admitted >= self.workers + self.queue:
                raise QueueFull(self._retry_after())
            self._admitted += 1
            pieces = self._pieces
        try:
            future: Future[Answer] = Future()
            future.add_done_callback(lambda _: self._leave())
            pieces.put(_Piece(work, deadline, future))
        except BaseException:
            self._leave()
            raise
        return future

    def open(self) -> None:
        """Take work; after `close` too."""
        if self._pieces is None:
            self._pieces = SimpleQueue()
            for _ in range(self.workers):
                self._start(self._pieces)

    def close(self) -> None:
        """Take no more work, and drop what waits."""
        with self._lock:
            pieces, self._pieces = self._pieces, None
        if pieces is None:
            return
        with suppress(Empty):
            while (waiting := pieces.get_nowait()) is not None:
                waiting.future.cancel()
        for _ in range(self.workers):
            pieces.put(None)

    def _finish(self) -> None:
        """Wait for the threads at the end of the process: torch aborts where one ends in the midst of it."""
        self.close()
        for thread in list(self._threads):
            thread.join()

    def _start(self, pieces: _Pieces, piece: _Piece | None = None) -> None:
        """Start a thread, which does not keep the process alive while it has nothing to do."""
        thread = threading.Thread(target=self._serve, args=(pieces, piece), name="unmask-worker", daemon=True)
        thread.start()
        self._threads.add(thread)

    def _serve(self, pieces: _Pieces, piece: _Piece | None) -> None:
        """Do piece after piece, beginning with one that is given; after a shortage a new thread goes on."""
        fit = _is_openmp_started()
        while piece is not None or (piece := pieces.get()) is not None:
            if not fit and self._is_replaced(pieces, piece):
                self._threads.discard(threading.current_thread())
                return
            try:
                fit = self._run(piece) and fit
            except MemoryError as error:  # there was not even enough to tell so
                fit = False
                if not piece.future.done():
                    piece.future.set_exception(error)
            piece = None  # it holds the answer, or the frames of an error
            self._freed_memory.give_back()

    def _is_replaced(self, pieces: _Pieces, piece: _Piece) -> bool:
        """Start a thread that does this piece and all further ones, if there is memory for one."""
        try:
            check_room(ROOM_FOR_A_THREAD)
            self._start(pieces, piece)
        except (RuntimeError, MemoryError):
            return False
        return True

    def _run(self, piece: _Piece) -> bool:
        """Do a piece of work; return whether there was memory enough."""
        work, deadline, future = piece
        if not future.set_running_or_notify_cancel():
            return True
        start = time.monotonic()
        try:
            deadline.check()  # whoever left while waiting costs nothing
            check_room(ROOM_FOR_WORK)
            with self._lock:
                self._busy += 1
            try:
                answer = work(deadline)
            finally:
                with self._lock:
                    self._busy -= 1
                    self._mean_seconds += SMOOTHING * (time.monotonic() - start - self._mean_seconds)
        except BaseException as error:
            if enough := not is_out_of_memory(error):
                future.set_exception(error)
            else:
                _forget_frames(error)
                future.set_exception(error if isinstance(error, MemoryError) else _memory_error(error))
            del work, future, piece  # the error holds this frame, and must not hold itself by it
            return enough
        future.set_result(answer)
        return True

    def _leave(self) -> None:
        with self._lock:
            self._admitted -= 1

    def _retry_after(self) -> int:
        """Return in how many seconds half of the queue will have been served, by the recent pace."""
        seconds = self._mean_seconds * (self.queue / 2 + 1) / self.workers
        return max(1, min(MAX_RETRY_AFTER, math.ceil(seconds)))


def _is_openmp_started() -> bool:
    """Let OpenMP start its threads for this one, if there is memory: later there may be none for them."""
    try:
        torch.zeros(LARGE_ENOUGH).exp_()
    except RuntimeError:
        return False
    return True


def _forget_frames(error: BaseException | None) -> None:
    """Drop the frames in which an error came, for they hold what has just become too much."""
    while error is not None:
        error.__traceback__ = None
        error = error.__context__


def _memory_error(cause: BaseException) -> MemoryError:
    error = MemoryError()
    error.__cause__ = cause
    return error
