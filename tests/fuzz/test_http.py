"""HTTP: whatever is posted, an answer that its client can read, and no 5xx but 503.

Beside tests/web/test_schema.py, where schemathesis holds every answer to the description.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fuzz_values import GOOD, braced, masked, mostly, odd_texts, sound_texts, texts
from harness import attempt, cases, examine
from hypothesis import given
from hypothesis import strategies as st

from unmask import UsageError

pytest.importorskip("fastapi", reason="FastAPI is not installed: pip install 'unmask[serve]'")

from fastapi.testclient import TestClient

from unmask.web import Limits, Settings, create_app

BOTH = sound_texts(("[MASK]",), 2)
OWN: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "fill": {"top": st.integers(1, 5)},
    "score": {},
    "sample": {"number": st.integers(1, 5), "sampling_seed": st.integers(0, 9)},
    "compare": {"top": st.integers(1, 3)},
    "conditional": {
        "given": st.sampled_from(["man", "dog", 30]),
        "given_blank": st.integers(0, 2),
        "blank": st.integers(0, 2),
    },
    "marginals": {"given": st.dictionaries(st.sampled_from("012"), st.sampled_from(["man", 30]), max_size=2)},
    "map": {"size": st.integers(1, 5), "methods": st.just(["ag", "l2r"]), "blanks": st.just([0, 1])},
    "compatibility": {},
}
FIELDS = [
    *GOOD,
    "text",
    "model",
    "top",
    "number",
    "given",
    "given_blank",
    "blank",
    "blanks",
    "size",
    "methods",
    "colour",
]
simple = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=2),
    max_leaves=4,
)


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, bytes]:
    """Draw a route and a body: as they should be in half of the cases."""
    route = draw(st.sampled_from(list(OWN)))
    text = draw(
        mostly(braced if route == "score" else masked if route in ("fill", "sample") else BOTH, odd_texts)
    )
    if route in ("fill", "score") and draw(st.integers(0, 3)) == 0:
        text = [text, draw(texts)]
    body: dict[str, Any] = {"text": text, "candidates": 2, "support": 6}
    for name in draw(st.lists(st.sampled_from(sorted(OWN[route])), max_size=3)) if OWN[route] else []:
        body[name] = draw(OWN[route][name])
    if route == "conditional":
        body.setdefault("given", "man")
    if route in ("fill", "score", "sample", "compatibility") and draw(st.booleans()):
        body["method"] = draw(GOOD["method"])
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        body[draw(st.sampled_from(FIELDS))] = draw(simple)
    sent = json.dumps(body).encode()  # NaN and lone surrogates included
    if draw(st.integers(0, 6)) == 0:
        cut = draw(st.integers(0, len(sent)))
        sent = (
            sent[:cut]
            + draw(st.sampled_from([b"", b"\x00", b"\xff", b"{", b"[" * 2000, b'"', b"1e999"]))
            + sent[cut + 1 :]
        )
    return route, sent


@pytest.fixture(scope="module")
def client(checkpoint) -> Iterator[TestClient]:
    models = {"tiny": str(checkpoint("bert")), "other": str(checkpoint("roberta"))}
    limits = Limits(candidates=40, support=100, samples=50, queue=50)
    app = create_app(Settings(models=models, hosts=None, device="cpu", limits=limits))
    with TestClient(app, raise_server_exceptions=False) as found:
        yield found


@cases(300)
@given(
    asked=requests(),
    kind=mostly(
        st.just("application/json"), st.sampled_from(["text/plain", "", "application/json; charset=utf-16"])
    ),
)
def test_bodies(client: TestClient, asked: tuple[str, bytes], kind: str) -> None:
    route, body = asked

    def call() -> None:
        response = client.post(f"/v1/{route}", content=body, headers={"Content-Type": kind})
        answer = response.json()
        assert response.status_code < 500 or response.status_code == 503, (
            response.status_code,
            response.text,
        )
        if response.status_code >= 400:
            examine(answer["error"])
            raise UsageError(answer["error"])

    attempt("http", f"POST /v1/{route} {body[:400]!r}", call)


@cases(40)
@given(
    method=st.sampled_from(["GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"]),
    path=mostly(
        st.sampled_from(["/", "/v1/models", "/healthz", "/metrics", "/openapi.json", "/static/"]),
        st.text(max_size=20),
    ),
    headers=st.dictionaries(
        st.sampled_from(["Host", "Origin", "Authorization", "Content-Length", "Accept", "Range", "X-\x7f"]),
        st.sampled_from(
            ["", "x", "null", "-1", "99999999999999999999", "http://evil", "bytes=0-", "Bearer \xff"]
        ),
        max_size=2,
    ),
)
def test_other_requests(client: TestClient, method: str, path: str, headers: dict[str, str]) -> None:
    safe = "/" + path.lstrip("/").encode("utf-8", "surrogatepass").hex() if not path.isascii() else path
    sent = {name: value.encode("latin-1") for name, value in headers.items()}

    def call() -> None:
        try:
            response = client.request(method, "http://testserver/" + safe.lstrip("/"), headers=sent)
        except Exception as error:
            if type(error).__module__.startswith("httpx"):
                raise UsageError(f"the client itself sends no such request: {error}") from None
            raise
        assert response.status_code < 500 or response.status_code == 503, response.text

    attempt("http", f"{method} {path!r} {headers!r}", call)
