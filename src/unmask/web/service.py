"""Desk: takes a question in, sees that it is answered in time, and notices when the client leaves.

A question that was answered before is answered from the cache. Another goes to the pool, or is refused if
the queue is full. Whoever accepts `text/event-stream` is told of the progress on the way.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import contextmanager, suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from unmask.errors import UnmaskError
from unmask.web.conditionals_cache import Library
from unmask.web.deadline import Abandoned, OutOfTime, Watch
from unmask.web.errors import UnknownModel, message_of, refused, status_of
from unmask.web.handlers import ask
from unmask.web.lru_cache import Store
from unmask.web.metrics import Metrics
from unmask.web.pool import Full, Pool
from unmask.web.request_schemas import BLANKS, FillQuestion, Question, check
from unmask.web.settings import Settings

log = logging.getLogger("unmask.web")
EVENTS = "text/event-stream"
HEARTBEAT = 5.0
FIRST = asyncio.FIRST_COMPLETED
WARMING_SECONDS = 3600.0


class Desk:
    """Answers questions over the library, in the pool, from the cache."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.library = Library(settings)
        self.pool = Pool(settings.limits.workers, settings.limits.queue)
        self.answers: Store[bytes] = Store(settings.limits.answers)
        self.metrics = Metrics()
        self.metrics.watch(self)
        self.ready = False
        self.broken: UnmaskError | None = None
        self.on_broken: Callable[[], None] = lambda: None
        self._watches: set[Watch] = set()

    def open(self) -> None:
        """Take questions, while the first model is loaded and answers the page's first one."""
        self.pool.open()
        self.warm_up()

    def warm_up(self) -> None:
        """Load the first model and answer the page's first question, beside whatever comes in."""
        threading.Thread(target=self._warm_up, name="unmask-warm-up", daemon=True).start()

    def close(self) -> None:
        """Take no more questions, and let the workers drop theirs."""
        self.pool.close()
        for watch in list(self._watches):
            watch.abandon()

    async def answer(self, question: Question, request: Request) -> Response:
        """Answer a question over HTTP, whatever comes of it."""
        seconds = self.settings.limits.seconds
        try:
            question = self._checked(question)
            key = (type(question).__name__, question.model_dump_json())
            known = self.answers.get(key)
            wants_events = EVENTS in request.headers.get("accept", "")
            if known is not None:
                self.metrics.answers_found.inc()
                return _one_event(known) if wants_events else _json(known)
            loop, reports = asyncio.get_running_loop(), asyncio.Queue[dict[str, Any]]()

            def report(stage: str, done: int, total: int) -> None:
                told = {"stage": stage, "done": done, "total": total}
                with suppress(RuntimeError):  # the loop has closed meanwhile
                    loop.call_soon_threadsafe(reports.put_nowait, told)

            watch = Watch(seconds, report if wants_events else None)
            self._watches.add(watch)
            try:
                future = self.pool.submit(lambda watch: self._work(question, key, watch), watch)
            except Full:
                self._watches.discard(watch)
                raise
            work = asyncio.wrap_future(future)
            work.add_done_callback(lambda done: self._over(watch, done))
            if wants_events:
                events = self._events(work, watch, request, reports)
                return StreamingResponse(events, media_type=EVENTS, headers={"X-Accel-Buffering": "no"})
            with self._leaving(watch):
                return _json(await self._wait(work, watch, request))
        except Exception as error:
            self._note(error)
            return refused(error, seconds)

    def _checked(self, question: Question) -> Question:
        name = question.model or self.settings.default
        if name not in self.settings.models:
            names = ", ".join(self.settings.models)
            raise UnknownModel(f"there is no model of that name here: expected one of {names}")
        check(question, self.settings.limits)
        return question.model_copy(update={"model": name})

    def _work(self, question: Question, key: tuple[str, str], watch: Watch) -> bytes:
        body = json.dumps(ask(question, self.library, watch), ensure_ascii=False, allow_nan=False).encode()
        self.answers.put(key, body, len(body))
        return body

    async def _wait(self, work: asyncio.Future[bytes], watch: Watch, request: Request) -> bytes:
        """Wait for the work, as long as there is time and somebody waits for it."""
        left: asyncio.Future[None] = asyncio.ensure_future(_disconnected(request))
        try:
            await asyncio.wait((work, left), timeout=watch.remaining, return_when=FIRST)
            if work.done():
                return work.result()
            raise Abandoned if left.done() else OutOfTime
        finally:
            left.cancel()

    async def _events(
        self,
        work: asyncio.Future[bytes],
        watch: Watch,
        request: Request,
        reports: asyncio.Queue[dict[str, Any]],
    ) -> AsyncIterator[bytes]:
        """Tell of the progress, then the answer or the error."""
        answer = asyncio.ensure_future(self._wait(work, watch, request))
        report = asyncio.ensure_future(reports.get())
        with self._leaving(watch):
            try:
                if self.pool.waiting:
                    yield _event("progress", {"stage": "waiting", "done": 0, "total": 0})
                while True:
                    await asyncio.wait((answer, report), timeout=HEARTBEAT, return_when=FIRST)
                    if report.done():
                        yield _event("progress", report.result())
                        report = asyncio.ensure_future(reports.get())
                    elif answer.done():
                        yield b"event: answer\ndata: " + answer.result() + b"\n\n"
                        return
                    else:
                        yield b": still at work\n\n"
            except Exception as error:
                self._note(error)
                told = {"status": status_of(error), "error": message_of(error, watch.seconds)}
                yield _event("error", told)
            finally:
                report.cancel()
                answer.cancel()

    @contextmanager
    def _leaving(self, watch: Watch) -> Any:
        """See to it that the worker stops when the handler does, for whatever reason."""
        try:
            yield
        finally:
            watch.abandon()

    def _over(self, watch: Watch, work: asyncio.Future[bytes]) -> None:
        self._watches.discard(watch)
        if not work.cancelled() and isinstance(work.exception(), Abandoned):
            self.metrics.abandoned.inc()

    def _note(self, error: Exception) -> None:
        if status_of(error) == 500:
            log.error("a request failed that should not have", exc_info=error)
        elif error.__cause__ is not None:
            log.error("%s", error.__cause__)

    def _warm_up(self) -> None:
        watch = Watch(WARMING_SECONDS)
        self._watches.add(watch)
        try:
            self.library.shelf.take(self.settings.default, watch)
            self.ready = True
            with suppress(UnmaskError, Abandoned, OutOfTime):  # this model may not know such a text
                question = self._checked(FillQuestion.model_validate({"text": BLANKS}))
                self._work(question, (type(question).__name__, question.model_dump_json()), watch)
        except UnmaskError as error:
            self.broken = error.__cause__ if isinstance(error.__cause__, UnmaskError) else error
            self.on_broken()
        except Abandoned:
            pass
        finally:
            self._watches.discard(watch)


async def _disconnected(request: Request) -> None:
    """Return when the client has left."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json")


def _one_event(body: bytes) -> Response:
    return Response(b"event: answer\ndata: " + body + b"\n\n", media_type=EVENTS)


def _event(kind: str, told: dict[str, Any]) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(told, ensure_ascii=False)}\n\n".encode()
