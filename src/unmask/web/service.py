"""Service: answers requests within their deadline, and notices when a client disconnects.

A known request is answered from the cache. Another goes to the pool, or gets 503 if the queue is full.
Whoever accepts `text/event-stream` is told of the progress on the way.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from unmask.errors import UnmaskError
from unmask.kernels.preload import load_loops
from unmask.memory import is_out_of_memory
from unmask.web.conditionals_cache import ConditionalsCache
from unmask.web.deadline import ClientDisconnected, Deadline, DeadlineExceeded
from unmask.web.errors import UnknownModel, exception_response, message_of, status_of
from unmask.web.handlers import handle
from unmask.web.lru_cache import LRUCache
from unmask.web.metrics import Metrics
from unmask.web.pool import Pool
from unmask.web.request_schemas import BLANKS, FillRequest, TextRequest, check_limits
from unmask.web.settings import Settings

log = logging.getLogger("unmask.web")
EVENTS = "text/event-stream"
HEARTBEAT = 5.0
FIRST = asyncio.FIRST_COMPLETED
WARM_UP_SECONDS = 3600.0
EXIT_SECONDS = 3.0


class Service:
    """Answers requests, in the pool or from the cache."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.conditionals = ConditionalsCache(settings)
        self.pool = Pool(settings.limits.workers, settings.limits.queue)
        self.answers: LRUCache[bytes] = LRUCache(settings.limits.answers)
        self.metrics = Metrics()
        self.metrics.observe(self)
        self.ready = False
        self.startup_error: UnmaskError | None = None
        self.on_startup_error: Callable[[], None] = lambda: None
        self._deadlines: set[Deadline] = set()

    def open(self) -> None:
        """Take requests, while the first model is loaded and answers the page's first one.

        From then on torch's oneDNN is off in this process: it keeps a compiled loop for every shape that it
        meets, and where there is no memory for one it can end the process.
        """
        torch.backends.mkldnn.enabled = False  # type: ignore[assignment]
        self.pool.open()
        self.warm_up()

    def warm_up(self) -> None:
        """Load the first model and answer the page's first request, beside whatever comes in."""
        thread = threading.Thread(target=self._warm_up, name="unmask-warm-up", daemon=True)
        thread.start()
        # torch aborts where a process ends in the midst of it
        atexit.register(thread.join, EXIT_SECONDS)

    def close(self) -> None:
        """Take no more requests, and let the workers drop theirs."""
        self.pool.close()
        for deadline in list(self._deadlines):
            deadline.cancel()

    async def answer(self, body: TextRequest, request: Request) -> Response:
        """Answer a request over HTTP, with an error line if it fails."""
        seconds = self.settings.limits.seconds
        try:
            body = self._validated(body)
            key = (type(body).__name__, body.model_dump_json())
            known = self.answers.get(key)
            wants_events = EVENTS in request.headers.get("accept", "")
            if known is not None:
                self.metrics.answers_found.inc()
                return Response(_answer_event(known), media_type=EVENTS) if wants_events else _json(known)
            loop, reports = asyncio.get_running_loop(), asyncio.Queue[dict[str, Any]]()

            def report(stage: str, done: int, total: int) -> None:
                told = {"stage": stage, "done": done, "total": total}
                with suppress(RuntimeError):  # the loop has closed meanwhile
                    loop.call_soon_threadsafe(reports.put_nowait, told)

            deadline = Deadline(seconds, report if wants_events else None)
            self._deadlines.add(deadline)
            try:
                future = self.pool.submit(lambda deadline: self._work(body, key, deadline), deadline)
            except BaseException:
                self._deadlines.discard(deadline)
                raise
            work = asyncio.wrap_future(future)
            work.add_done_callback(lambda done: self._on_done(deadline, done))
            if wants_events:
                events = self._events(work, deadline, request, reports)
                return StreamingResponse(events, media_type=EVENTS, headers={"X-Accel-Buffering": "no"})
            with self._cancelling_on_exit(deadline):
                return _json(await self._wait(work, deadline, request))
        except Exception as error:
            self._log_error(error)
            return exception_response(error, seconds)

    def _validated(self, body: TextRequest) -> TextRequest:
        name = body.model or self.settings.default
        if name not in self.settings.models:
            names = ", ".join(self.settings.models)
            raise UnknownModel(f"there is no model of that name here: expected one of {names}")
        check_limits(body, self.settings.limits)
        return body.model_copy(update={"model": name})

    def _work(self, body: TextRequest, key: tuple[str, str], deadline: Deadline) -> bytes:
        try:
            answer = handle(body, self.conditionals, deadline)
        finally:
            self.conditionals.recount()
        encoded = json.dumps(answer, ensure_ascii=False, allow_nan=False).encode()
        self.answers.put(key, encoded, len(encoded))
        return encoded

    async def _wait(self, work: asyncio.Future[bytes], deadline: Deadline, request: Request) -> bytes:
        """Wait for the work, as long as there is time and the client is there."""
        left: asyncio.Future[None] = asyncio.ensure_future(_disconnected(request))
        try:
            await asyncio.wait((work, left), timeout=deadline.remaining, return_when=FIRST)
            if work.done():
                return work.result()
            raise ClientDisconnected if left.done() else DeadlineExceeded
        finally:
            left.cancel()

    async def _events(
        self,
        work: asyncio.Future[bytes],
        deadline: Deadline,
        request: Request,
        reports: asyncio.Queue[dict[str, Any]],
    ) -> AsyncIterator[bytes]:
        """Tell of the progress, then the answer or the error."""
        answer = asyncio.ensure_future(self._wait(work, deadline, request))
        report = asyncio.ensure_future(reports.get())
        with self._cancelling_on_exit(deadline):
            try:
                if self.pool.waiting:
                    yield _event("progress", {"stage": "waiting", "done": 0, "total": 0})
                while True:
                    await asyncio.wait((answer, report), timeout=HEARTBEAT, return_when=FIRST)
                    if report.done():
                        yield _event("progress", report.result())
                        report = asyncio.ensure_future(reports.get())
                    elif answer.done():
                        yield _answer_event(answer.result())
                        return
                    else:
                        yield b": still at work\n\n"
            except Exception as error:
                self._log_error(error)
                told = {"status": status_of(error), "error": message_of(error, deadline.seconds)}
                yield _event("error", told)
            finally:
                report.cancel()
                answer.cancel()

    @contextmanager
    def _cancelling_on_exit(self, deadline: Deadline) -> Iterator[None]:
        """Stop the worker when the handler ends, for whatever reason."""
        try:
            yield
        finally:
            deadline.cancel()

    def _on_done(self, deadline: Deadline, work: asyncio.Future[bytes]) -> None:
        self._deadlines.discard(deadline)
        if not work.cancelled() and isinstance(work.exception(), ClientDisconnected):
            self.metrics.abandoned.inc()

    def _log_error(self, error: Exception) -> None:
        if status_of(error) == 500:
            log.error("a request failed that should not have", exc_info=error)
        elif is_out_of_memory(error):
            log.error("out of memory: %s", error.__cause__ or error)
        elif error.__cause__ is not None:
            log.error("%s", error.__cause__)

    def _warm_up(self) -> None:
        deadline = Deadline(WARM_UP_SECONDS)
        self._deadlines.add(deadline)
        try:
            self.conditionals.models.take(self.settings.default, deadline)
            self.ready = True
            # this model may not know such a text
            with suppress(UnmaskError, ClientDisconnected, DeadlineExceeded):
                body = self._validated(FillRequest.model_validate({"text": BLANKS}))
                self._work(body, (type(body).__name__, body.model_dump_json()), deadline)
            load_loops()
        except UnmaskError as error:
            self.startup_error = error.__cause__ if isinstance(error.__cause__, UnmaskError) else error
            self.on_startup_error()
        except ClientDisconnected:
            pass
        finally:
            self._deadlines.discard(deadline)


async def _disconnected(request: Request) -> None:
    """Return when the client has left."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json")


def _answer_event(body: bytes) -> bytes:
    return b"event: answer\ndata: " + body + b"\n\n"


def _event(kind: str, told: dict[str, Any]) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(told, ensure_ascii=False)}\n\n".encode()
