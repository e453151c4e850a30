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
from unmask.joints.chain import Chain
from unmask.joints.grid import GridJoint
from unmask.joints.joint import Joint
from unmask.joints.registry import CONSTRUCTIONS
from unmask.joints.tree import TreeJoint
from unmask.models.masked_lm import MaskedLM
from unmask.web import page
from unmask.web import response_schemas as responses
from unmask.web.errors import on_http_exception, on_invalid_request, on_unexpected_error
from unmask.web.handlers import ROUTES
from unmask.web.metrics import MetricsMiddleware
from unmask.web.middleware import SecurityMiddleware
from unmask.web.service import Service
from unmask.web.settings import Settings

ABOUT = """Explicit joint distributions from masked language models, over HTTP.

The answers are those of the command line's `--json`. Every error is `{"error": "..."}`. With
`Accept: text/event-stream` a request is answered by server-sent events that tell of the progress first."""

BEYOND_PAIRS: dict[str, type[Joint]] = {"grid": GridJoint, "chain": Chain, "tree": TreeJoint}
"""The methods that join any number of blanks, beside the constructions of pairs."""
ERRORS = {
    400: "The request can't be answered: the text has no blank, a token is unknown, the body is no JSON.",
    401: "The server asks for a bearer token.",
    403: "Another host name or another site's page.",
    404: "No such model.",
    408: "The body came too slowly.",
    413: "The body is too large.",
    422: "A field is of the wrong kind, or more was asked for than this server gives.",
    503: "The queue is full, or memory is short: come again after the seconds of Retry-After.",
    504: "It took longer than a request may take.",
}


def build(settings: Settings) -> FastAPI:
    """Make the application."""
    service = Service(settings)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        service.open()
        yield
        service.close()

    app = FastAPI(
        title="unmask",
        description=ABOUT,
        version=__version__,
        lifespan=lifespan,
        docs_url=None,  # these pages of FastAPI fetch scripts from elsewhere
        redoc_url=None,
        exception_handlers={
            RequestValidationError: on_invalid_request,
            HTTPException: on_http_exception,
            Exception: on_unexpected_error,
        },
    )
    app.state.service = service
    _add_requests(app, service)
    _add_state(app, service)
    app.include_router(page.router)
    app.add_middleware(SecurityMiddleware, settings=settings)
    # the last one added is the first to see a request
    app.add_middleware(MetricsMiddleware, metrics=service.metrics)
    return app


def _add_requests(app: FastAPI, service: Service) -> None:
    for route in ROUTES:

        async def answer(body: Any, request: Request) -> Response:
            return await service.answer(body, request)

        answer.__annotations__["body"] = route.request
        about: dict[str, Any] = {"name": route.handler.__name__, "description": route.handler.__doc__}
        app.post(route.path, **about, **_described(route.response, route.takes_lists))(answer)


def _add_state(app: FastAPI, service: Service) -> None:
    settings = service.settings

    @app.get("/v1/models", responses=_error_responses(401, 403))
    async def models() -> responses.ModelsResponse:
        """List the models, the methods, and the limits."""
        loaded = service.conditionals.models.loaded
        found = [_model(name, loaded[name].mlm if name in loaded else None) for name in settings.models]
        methods = {name: _first_line(kind) for name, kind in (CONSTRUCTIONS | BEYOND_PAIRS).items()}
        return responses.ModelsResponse(
            models=found, default=settings.default, methods=methods, limits=asdict(settings.limits)
        )

    @app.get("/healthz", responses=_error_responses(403))
    async def health() -> responses.HealthResponse:
        """Say whether the server is at work; `starting` while the first model loads."""
        return responses.HealthResponse(
            status="ready" if service.ready else "starting",
            version=__version__,
            busy=service.pool.busy,
            waiting=service.pool.waiting,
        )

    @app.get("/metrics", response_class=PlainTextResponse, responses=_error_responses(401, 403))
    async def metrics() -> Response:
        """Return the metrics in Prometheus' text format."""
        return Response(service.metrics.page(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _described(response: type[BaseModel], takes_lists: bool) -> dict[str, Any]:
    """Describe the responses to a request; about a list of texts it is a list."""
    answer: Any = response | list[response] if takes_lists else response  # type: ignore[valid-type]
    described: dict[int | str, dict[str, Any]] = {
        200: responses.event_stream(answer),
        **_error_responses(*ERRORS),
    }
    retry = {"schema": {"type": "integer"}, "description": "Seconds to wait."}
    described[503]["headers"] = {"Retry-After": retry}
    return {"response_model": answer, "responses": described}


def _error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": responses.ErrorResponse, "description": ERRORS[status]} for status in statuses}


def _model(name: str, mlm: MaskedLM | None) -> responses.ModelResponse:
    return responses.ModelResponse(
        name=name,
        loaded=mlm is not None,
        architecture=None if mlm is None else mlm.model.config.model_type,
        vocabulary=None if mlm is None else mlm.vocabulary.size,
        window=None if mlm is None else min(mlm.window, 10**9),
        mask=None if mlm is None else mlm.tokenizer.mask_token,
        pair_head=None if mlm is None else mlm.pair_head is not None,
    )


def _first_line(construction: type) -> str:
    return (construction.__doc__ or "").strip().splitlines()[0]
