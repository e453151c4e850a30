"""Who may send a request, how large it may be, and what a browser is told to block."""

import socket
import time

import pytest
from fastapi.testclient import TestClient
from live import listening

from unmask.web import Limits, Settings, create_app

TEXT = "The [MASK] is here."


class TestToken:
    @pytest.fixture(scope="class")
    def guarded(self, settings):
        with TestClient(create_app(settings(token="open sesame"))) as client:
            yield client

    @pytest.mark.parametrize(
        "given", [None, "Bearer wrong", "Bearer ", "open", "Basic open sesame", "Bearer é"]
    )
    def test_without_it_the_api_answers_401(self, guarded, given):
        headers = {} if given is None else {"Authorization": given.encode()}
        for response in (
            guarded.post("/v1/fill", json={"text": TEXT}, headers=headers),
            guarded.get("/v1/models", headers=headers),
            guarded.get("/metrics", headers=headers),
        ):
            assert response.status_code == 401
            assert response.headers["www-authenticate"] == "Bearer"
            assert "Authorization: Bearer" in response.json()["error"]

    def test_with_it_everything_is_answered(self, guarded):
        headers = {"Authorization": "Bearer open sesame"}
        assert guarded.post("/v1/fill", json={"text": TEXT}, headers=headers).is_success
        assert guarded.get("/metrics", headers=headers).is_success

    def test_the_page_and_health_need_none(self, guarded):
        assert guarded.get("/").is_success
        assert guarded.get("/healthz").is_success


class TestWhoAsks:
    @pytest.fixture(scope="class")
    def local(self, settings):
        with TestClient(create_app(settings(hosts=Settings().hosts))) as client:
            yield client

    @pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost", "[::1]:8000"])
    def test_loopback_answers_to_its_own_names(self, local, host):
        assert local.get("/healthz", headers={"Host": host}).is_success

    @pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "[::1"])
    def test_and_to_no_other(self, local, host):
        assert local.get("/healthz", headers={"Host": host}).status_code == 403

    @pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:9999"])
    def test_pages_of_other_sites_are_refused(self, local, origin):
        headers = {"Host": "localhost:8000", "Origin": origin}
        assert local.post("/v1/fill", json={"text": TEXT}, headers=headers).status_code == 403

    def test_its_own_page_is_answered(self, local):
        headers = {"Host": "localhost:8000", "Origin": "http://localhost:8000"}
        assert local.post("/v1/fill", json={"text": TEXT}, headers=headers).is_success


class TestBody:
    def test_a_large_one_is_413(self, client):
        response = client.post("/v1/fill", json={"text": "a" * 9000})
        assert response.status_code == 413
        assert "8,000 bytes" in response.json()["error"]

    def test_a_large_one_of_unknown_length_is_413(self, client):
        response = client.post("/v1/fill", content=(b" " * 1000 for _ in range(9)))
        assert response.status_code == 413

    def test_one_that_drips_is_408(self, settings):
        app = create_app(settings(limits=Limits(body_seconds=0.3)))
        with (
            listening(app) as address,
            socket.create_connection(address.removeprefix("http://").split(":")) as link,
        ):
            head = b"POST /v1/fill HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            link.sendall(head + b"Content-Length: 50\r\n\r\n{")
            link.settimeout(5)
            start = time.monotonic()
            assert link.recv(4096).startswith(b"HTTP/1.1 408")
            assert 0.2 < time.monotonic() - start < 3


class TestHeaders:
    @pytest.mark.parametrize("path", ["/", "/static/explorer.js", "/v1/models", "/nowhere"])
    def test_every_answer_carries_the_content_policy(self, client, path):
        headers = client.get(path).headers
        policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"

    def test_no_answer_allows_other_sites(self, client):
        response = client.options("/v1/fill", headers={"Origin": "https://evil.example"})
        assert "access-control-allow-origin" not in response.headers

    def test_answers_are_kept_by_nobody(self, client):
        assert client.post("/v1/fill", json={"text": TEXT}).headers["cache-control"] == "no-store"
