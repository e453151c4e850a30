"""Errors as HTTP responses: a status and one clear line.

The body is always `{"error": "..."}`. A `UsageError` is 400, a `RunError` 422: the request was well-formed,
but this server can't do the work (its memory budget is too small, say).
"""

from __future__ import annotations

from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from unmask.errors import RunError, UnmaskError, UsageError, one_line
from unmask.memory import is_out_of_memory
from unmask.web.deadline import ClientDisconnected, DeadlineExceeded
from unmask.web.free_memory import NoRoom
from unmask.web.pool import QueueFull


class LimitExceeded(UnmaskError, ValueError):
    """A request exceeds a limit of this server."""


class UnknownModel(UnmaskError, LookupError):
    """A model was named that is not on the list."""


STATUS: dict[type[Exception], int] = {
    UnknownModel: 404,
    LimitExceeded: 422,
    UsageError: 400,
    RunError: 422,
    QueueFull: 503,
    DeadlineExceeded: 504,
    ClientDisconnected: 499,
}
"""In this order: the first that fits."""


def status_of(error: BaseException) -> int:
    """Return the status of an exception; 503 where memory ran out, 500 for an unexpected one."""
    if is_out_of_memory(error):
        return 503
    return next((status for kind, status in STATUS.items() if isinstance(error, kind)), 500)


def message_of(error: BaseException, seconds: float = 0.0) -> str:
    """Return the line that tells a client of an exception; `seconds` is the time limit that it may tell."""
    if isinstance(error, QueueFull):
        return f"the server is busy and its queue is full: come again in {error.retry_after} s"
    if isinstance(error, DeadlineExceeded):
        return (
            f"this took longer than the {seconds:g} s that a request may take: ask about fewer candidates, "
            f"or cut the support"
        )
    if isinstance(error, NoRoom):
        return "the server has too little free memory to begin: come again later"
    if is_out_of_memory(error):
        return "the server is out of memory for now: cut the support, or come again later"
    if isinstance(error, UnmaskError):
        return str(error)
    return "something failed that should not have: whoever runs this server finds it in the log"


def error_response(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return a response with an error line."""
    return JSONResponse({"error": one_line(message)}, status_code=status, headers=headers)


def exception_response(error: BaseException, seconds: float = 0.0) -> JSONResponse:
    """Return the response for an exception."""
    headers = {}
    if isinstance(error, QueueFull):
        headers["Retry-After"] = str(error.retry_after)
    elif is_out_of_memory(error):
        headers["Retry-After"] = "10"
    return error_response(status_of(error), message_of(error, seconds), headers)


async def on_invalid_request(_request: Any, error: Exception) -> JSONResponse:
    """Answer a body that does not fit the schema, or is no JSON."""
    assert isinstance(error, RequestValidationError)
    first, *others = error.errors()
    if first["type"] == "json_invalid":
        return error_response(
            400, f"the body is no JSON: {first.get('ctx', {}).get('error', 'it ends early')}"
        )
    return error_response(422, _line(first, others))


async def on_http_exception(_request: Any, error: Exception) -> JSONResponse:
    """Answer an unknown path or method; FastAPI also calls a body bad that it had no memory to read."""
    assert isinstance(error, HTTPException)
    if is_out_of_memory(error):
        return exception_response(error)
    return error_response(error.status_code, str(error.detail), dict(error.headers or {}))


async def on_unexpected_error(_request: Any, error: Exception) -> JSONResponse:
    """Answer where anything else was raised outside the service."""
    return exception_response(error)


def _line(first: ErrorDetails, others: list[ErrorDetails]) -> str:
    """Tell the first field that does not fit; one that may be of several kinds fits none of them."""
    kinds = [first, *(other for other in others if _field(other) == _field(first))]
    told = (found["msg"].removeprefix("Value error, ") for found in kinds)
    what = ", or ".join(line[:1].lower() + line[1:] for line in told)
    return f"{_field(first) or 'the body'}: {what}"


def _field(found: ErrorDetails) -> str:
    """Return the name of a field, without the kind that pydantic adds where there are several."""
    parts = (str(part) for part in found["loc"] if part != "body")
    return ".".join(part for part in parts if not part.startswith(("constrained-", "literal[")))
