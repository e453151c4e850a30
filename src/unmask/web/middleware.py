"""Middleware: who may send a request, how large it may be, and what a browser may do.

Starlette has a host check and a size limit too; they answer in plain text, the host check with 400, and
neither limits the time a body takes. Here every error is `{"error": "..."}` with the remedy.

- Host: on loopback only loopback's names are answered, so that a page elsewhere can't point a name of its
  own at this machine and read along (DNS rebinding).
- Origin: a browser says which page a request comes from; other pages than ours get 403.
- Bearer token, if one is set, for everything under /v1 and for /metrics.
- Size and pace of the body: 413 when it is larger than allowed, 408 when it drips.
- Headers: a content policy that lets the page load nothing but its own files (no inline script or style,
  no eval), and the usual ones beside it.
"""

from __future__ import annotations

import asyncio
import hmac
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from unmask.web.errors import error_response
from unmask.web.settings import Settings

CONTENT_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)
HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class SecurityMiddleware:
    """Checks host, origin, token and body of a request, and adds the security headers."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app, self.settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        rejected = self._rejection(scope)
        if rejected is not None:
            await error_response(*rejected)(scope, receive, with_headers)
            return
        body = _LimitedBody(receive, self.settings.limits.body, self.settings.limits.body_seconds)
        try:
            await self.app(scope, body.receive, body.sender(with_headers))
        except _BodyRejected as error:
            await error_response(error.status, error.message)(scope, receive, with_headers)

    def _rejection(self, scope: Scope) -> tuple[int, str, dict[str, str]] | None:
        """Return the status, line and headers of an error, or None."""
        headers, settings = Headers(scope=scope), self.settings
        host = headers.get("host", "")
        if settings.hosts is not None and _name(f"//{host}") not in settings.hosts:
            return 403, f"this server answers to {', '.join(settings.hosts)} alone: see --host", {}
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return 403, "requests from pages of other sites are not answered", {}
        if settings.token is not None and (scope["path"].startswith("/v1/") or scope["path"] == "/metrics"):
            given = headers.get("authorization", "").removeprefix("Bearer ")
            if not hmac.compare_digest(given.encode(), settings.token.encode()):
                line = "this server asks for a token: send it as 'Authorization: Bearer TOKEN'"
                return 401, line, {"WWW-Authenticate": "Bearer"}
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > settings.limits.body:
            return 413, _too_large(settings.limits.body), {}
        return None


class _BodyRejected(Exception):
    """Raised into the application when a body goes on for too long."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


class _LimitedBody:
    """Counts what comes in, and how long it takes; once the body is in, only the client's leaving comes."""

    def __init__(self, receive: Receive, most: int, seconds: float) -> None:
        self._receive, self._most, self._seconds = receive, most, seconds
        self._size, self._complete = 0, False
        self._rejection: _BodyRejected | None = None

    async def receive(self) -> Message:
        """Return the next message from the client."""
        if self._complete:
            return await self._receive()
        try:
            async with asyncio.timeout(self._seconds):
                message = await self._receive()
        except TimeoutError:
            self._rejection = _BodyRejected(
                408, f"the body took longer than {self._seconds:g} s: send it at once"
            )
            raise self._rejection from None
        self._size += len(message.get("body", b""))
        self._complete = not message.get("more_body", False)
        if self._size > self._most:
            self._rejection = _BodyRejected(413, _too_large(self._most))
            raise self._rejection
        return message

    def sender(self, send: Send) -> Send:
        """Return a `send` that raises the body's error, whatever the application made of it."""

        async def sending(message: Message) -> None:
            if self._rejection is not None and message["type"] == "http.response.start":
                raise self._rejection
            await send(message)

        return sending


def _too_large(most: int) -> str:
    return f"the request is larger than the {most:,} bytes that this server takes: shorten it"


def _name(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None
