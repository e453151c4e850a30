"""The application: its routes, and what they say of themselves in OpenAPI."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from unmask import __version__
from unmask.joints.registry import CONSTRUCTIONS
from unmask.models.masked_lm import MaskedLM
from unmask.web import page
from unmask.web import request_schemas as q
from unmask.web import response_schemas as r
from unmask.web.errors import invalid, plain, refusal
from unmask.web.metrics import Measured
from unmask.web.middleware import Protected
from unmask.web.service import Desk
from unmask.web.settings import Settings

ABOUT = """Explicit joint distributions from masked language models, over HTTP.

The answers are those of the command line's `--json`. Every error is `{"error": "..."}`. With
`Accept: text/event-stream` a question is answered by server-sent events that tell of the progress first."""

REFUSALS = {
    400: "The question can't be answered: the text has no blank, a token is unknown, the body is no JSON.",
    401: "The server asks for a bearer token.",
    403: "Another host name or another site's page.",
    404: "No such model.",
    408: "The body came too slowly.",
    413: "The body is too large.",
    422: "A field is of the wrong kind, or more was asked for than this server gives.",
    503: "The queue is full: come again after the seconds of Retry-After.",
    504: "It took longer than a request may take.",
}


def build(settings: Settings) -> FastAPI:
    """Make the application."""
    desk = Desk(settings)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        desk.open()
        yield
        desk.close()

    app = FastAPI(
        title="unmask",
        description=ABOUT,
        version=__version__,
        lifespan=lifespan,
        docs_url=None,  # these pages of FastAPI fetch scripts from elsewhere
        redoc_url=None,
        exception_handlers={RequestValidationError: invalid, HTTPException: plain, Exception: _unforeseen},
    )
    app.state.desk = desk
    _add_questions(app, desk)
    _add_state(app, desk)
    app.include_router(page.router)
    app.add_middleware(Protected, settings=settings)
    app.add_middleware(Measured, metrics=desk.metrics)  # the last one added is the first to see a request
    return app


def _add_questions(app: FastAPI, desk: Desk) -> None:
    @app.post("/v1/fill", **_told(r.FillAnswer))
    async def fill(question: q.FillQuestion, request: Request) -> Response:
        """Fill one or two blanks of a text jointly: the likeliest fillings."""
        return await desk.answer(question, request)

    @app.post("/v1/score", **_told(r.ScoreAnswer))
    async def score(question: q.ScoreQuestion, request: Request) -> Response:
        """Score the words in braces under the joint of their blanks."""
        return await desk.answer(question, request)

    @app.post("/v1/sample", **_told(r.SampleAnswer))
    async def sample(question: q.SampleQuestion, request: Request) -> Response:
        """Draw fillings from the joint."""
        return await desk.answer(question, request)

    @app.post("/v1/compare", **_told(r.CompareAnswer))
    async def compare(question: q.CompareQuestion, request: Request) -> Response:
        """Show what every construction makes of one text with two blanks."""
        return await desk.answer(question, request)

    @app.post("/v1/conditional", **_told(r.ConditionalAnswer))
    async def conditional(question: q.ConditionalQuestion, request: Request) -> Response:
        """Fix the token of one blank, and see the other's distribution move."""
        return await desk.answer(question, request)

    @app.post("/v1/map", **_told(r.MapAnswer))
    async def heat_map(question: q.MapQuestion, request: Request) -> Response:
        """Return the joint of the likeliest tokens of both blanks, with its marginals: a heat map."""
        return await desk.answer(question, request)

    @app.post("/v1/compatibility", **_told(r.CompatibilityAnswer))
    async def compatibility(question: q.CompatibilityQuestion, request: Request) -> Response:
        """Say how well the model's conditionals fit together, and the joint to them."""
        return await desk.answer(question, request)


def _add_state(app: FastAPI, desk: Desk) -> None:
    settings = desk.settings

    @app.get("/v1/models", responses=_refusals(401, 403))
    async def models() -> r.ModelsAnswer:
        """List the models that may be asked, the constructions, and the limits."""
        placed = desk.library.shelf.placed
        found = [_model(name, placed[name].mlm if name in placed else None) for name in settings.models]
        methods = {name: _first_line(kind) for name, kind in CONSTRUCTIONS.items()}
        limits = {**asdict(settings.limits), "blanks": 2}
        return r.ModelsAnswer(models=found, default=settings.default, methods=methods, limits=limits)

    @app.get("/healthz", responses=_refusals(403))
    async def health() -> r.HealthAnswer:
        """Say whether the server is at work; `starting` while the first model loads."""
        return r.HealthAnswer(
            status="ready" if desk.ready else "starting",
            version=__version__,
            busy=desk.pool.busy,
            waiting=desk.pool.waiting,
        )

    @app.get("/metrics", response_class=PlainTextResponse, responses=_refusals(401, 403))
    async def metrics() -> Response:
        """Return the metrics in Prometheus' text format."""
        return Response(desk.metrics.page(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _told(answer: type[BaseModel]) -> dict[str, Any]:
    """Describe what a question is answered with."""
    described: dict[int | str, dict[str, Any]] = {200: r.event_stream(answer), **_refusals(*REFUSALS)}
    retry = {"schema": {"type": "integer"}, "description": "Seconds to wait."}
    described[503]["headers"] = {"Retry-After": retry}
    return {"response_model": answer, "responses": described}


def _refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": r.ErrorAnswer, "description": REFUSALS[status]} for status in statuses}


def _model(name: str, mlm: MaskedLM | None) -> r.ModelAnswer:
    return r.ModelAnswer(
        name=name,
        loaded=mlm is not None,
        architecture=None if mlm is None else mlm.model.config.model_type,
        vocabulary=None if mlm is None else mlm.vocabulary.size,
        window=None if mlm is None else min(mlm.window, 10**9),
        mask=None if mlm is None else mlm.tokenizer.mask_token,
    )


def _first_line(construction: type) -> str:
    return (construction.__doc__ or "").strip().splitlines()[0]


async def _unforeseen(_request: Request, _error: Exception) -> Response:
    return refusal(500, "something failed that should not have: whoever runs this server finds it in the log")
