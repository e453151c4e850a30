"""The page's files: ours from `static/`, the chart script from the installed plotly package.

Nothing is built. Each file is compressed once, and carries a tag by which a browser asks whether its copy
still holds.
"""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

STATIC = Path(__file__).parent / "static"
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
CHARTS = "plotly.min.js"

router = APIRouter(include_in_schema=False)


@router.api_route("/", methods=["GET", "HEAD"])
async def index(request: Request) -> Response:
    """Return the page."""
    return _send(STATIC / "index.html", request)


@router.api_route("/static/{name}", methods=["GET", "HEAD"])
async def static(name: str, request: Request) -> Response:
    """Return one of the page's files, by a name on the list."""
    if name == CHARTS:
        return _send(charts(), request)
    known = {path.name: path for path in STATIC.iterdir() if path.suffix in KINDS}
    if name not in known:
        raise HTTPException(404, "there is no such file")
    return _send(known[name], request)


def charts() -> Path:
    """Return plotly's script; found without importing plotly."""
    spec = find_spec("plotly")
    if spec is None or spec.origin is None:
        raise HTTPException(404, "the charts need plotly on the server: pip install 'unmask[serve]'")
    return Path(spec.origin).parent / "package_data" / CHARTS


def _send(path: Path, request: Request) -> Response:
    plain, packed, tag = _read(path, path.stat().st_mtime_ns)
    headers = {"ETag": tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(
            packed, media_type=KINDS[path.suffix], headers={**headers, "Content-Encoding": "gzip"}
        )
    return Response(plain, media_type=KINDS[path.suffix], headers=headers)


@cache
def _read(path: Path, _changed: int) -> tuple[bytes, bytes, str]:
    """Return a file, the same compressed, and a tag that changes with it."""
    plain = path.read_bytes()
    return plain, gzip.compress(plain, 6), f'"{hashlib.sha256(plain).hexdigest()[:16]}"'
