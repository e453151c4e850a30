"""Work is bounded: the queue, the time, the patience of whoever waits, the memory for what was said."""

import json
import socket
import threading
import time
from concurrent.futures import Future

import httpx
import pytest
from live import listening, slowed, soon

from unmask.web import Limits, create_app
from unmask.web.deadline import ClientDisconnected, Deadline, DeadlineExceeded
from unmask.web.in_flight import InFlight
from unmask.web.lru_cache import LRUCache
from unmask.web.pool import Pool, QueueFull

TEXT = "The [MASK] [MASK] at the casino."


class TestPool:
    @pytest.fixture
    def gate(self):
        return threading.Event()

    def test_it_refuses_what_the_queue_cant_hold(self, gate):
        pool = Pool(workers=1, queue=2)
        waits = [pool.submit(lambda _: gate.wait(5), Deadline(9)) for _ in range(3)]
        soon(lambda: pool.busy == 1, 2)
        assert pool.waiting == 2
        with pytest.raises(QueueFull) as full:
            pool.submit(lambda _: None, Deadline(9))
        assert full.value.retry_after >= 1
        gate.set()
        assert all(w.result(2) for w in waits)
        soon(lambda: pool.waiting == pool.busy == 0, 2)
        assert pool.submit(lambda _: "again", Deadline(9)).result(2) == "again"
        pool.close()

    def test_whoever_left_while_waiting_costs_nothing(self, gate):
        pool = Pool(workers=1, queue=2)
        pool.submit(lambda _: gate.wait(5), Deadline(9))
        deadline, ran = Deadline(9), []
        waiting = pool.submit(lambda _: ran.append(1), deadline)
        deadline.cancel()
        gate.set()
        with pytest.raises(ClientDisconnected):
            waiting.result(2)
        assert not ran
        pool.close()

    def test_an_error_frees_the_worker(self):
        pool = Pool(workers=1, queue=0)
        failed: Future[float] = pool.submit(lambda _: 1 / 0, Deadline(9))
        with pytest.raises(ZeroDivisionError):
            failed.result(2)
        soon(lambda: pool.busy == pool.waiting == 0, 2)
        assert pool.submit(lambda _: 3, Deadline(9)).result(2) == 3
        pool.close()


class TestWatch:
    def test_it_raises_between_batches_once_abandoned(self):
        deadline = Deadline(9)
        batches = deadline.over(range(5), total=5)
        assert [next(batches), next(batches), next(batches)] == [0, 1, 2]
        deadline.cancel()
        with pytest.raises(ClientDisconnected):
            next(batches)

    def test_it_raises_when_the_time_is_over(self):
        deadline = Deadline(0.05)
        deadline.check()
        time.sleep(0.06)
        with pytest.raises(DeadlineExceeded):
            deadline.started("anything", 1)
        assert deadline.remaining == 0

    def test_it_reports_stages_but_not_every_step(self):
        told = []
        deadline = Deadline(9, lambda *report: told.append(report))
        list(deadline.over(range(1000), total=1000, stage="steps"))
        assert told[0] == ("steps", 0, 1000)
        assert told[-1] == ("steps", 1000, 1000)
        assert len(told) < 100

    def test_it_looks_up_while_waiting_for_a_lock(self):
        lock, deadline = threading.Lock(), Deadline(9)
        with lock:
            threading.Timer(0.1, deadline.cancel).start()
            with pytest.raises(ClientDisconnected), deadline.holding(lock):
                pass
        with Deadline(9).holding(lock):
            assert lock.locked()


class TestStore:
    def test_the_least_recently_used_leaves_first(self):
        cache: LRUCache[str] = LRUCache(10)
        for key in "abc":
            cache.put(key, key.upper(), 3)
        assert cache.get("a") == "A"
        cache.put("d", "D", 3)
        assert [cache.get(key) for key in "abcd"] == ["A", None, "C", "D"]
        assert cache.bytes == 9

    def test_what_is_too_large_is_not_kept_and_drives_nothing_out(self):
        cache: LRUCache[str] = LRUCache(10)
        cache.put("a", "A", 3)
        cache.put("b", "B", 11)
        assert cache.get("a") == "A"
        assert cache.get("b") is None

    def test_a_value_that_is_put_again_counts_once(self):
        cache: LRUCache[str] = LRUCache(10)
        cache.put("a", "A", 6)
        cache.put("a", "A2", 7)
        assert (cache.get("a"), cache.bytes, len(cache)) == ("A2", 7, 1)


@pytest.fixture
def slow_app(settings):
    """A server whose model takes about a second a forward pass."""

    def make(**limits):
        app = create_app(settings(limits=Limits(**limits)))
        service = app.state.service
        slowed(service.conditionals.models.take("tiny", Deadline(60)).mlm, 0.03)
        service.warm_up = lambda: None
        return app, service

    return make


def sent(address: str, text: str, accept: str = "application/json") -> socket.socket:
    """Send a body over a socket of its own and don't wait for the answer."""
    host, port = address.removeprefix("http://").split(":")
    body = json.dumps({"text": text}).encode()
    link = socket.create_connection((host, int(port)))
    head = f"POST /v1/fill HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\nContent-Type: application/json\r\n"
    link.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return link


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_killing_a_client_frees_its_worker_within_a_second(slow_app, accept):
    app, service = slow_app(workers=1)
    with listening(app) as address:
        link = sent(address, TEXT, accept)
        soon(lambda: service.pool.busy == 1, 5)
        time.sleep(0.2)
        link.close()
        assert soon(lambda: service.pool.busy == 0, 5) < 1
        assert not service.conditionals.bytes  # the work was dropped, not finished
        soon(lambda: service.metrics.abandoned._value.get() == 1, 2)


def test_a_request_over_its_time_is_504_and_frees_its_worker(slow_app):
    app, service = slow_app(workers=1, seconds=0.5)
    with listening(app) as address:
        start = time.monotonic()
        response = httpx.post(f"{address}/v1/fill", json={"text": TEXT})
        assert 0.4 < time.monotonic() - start < 2
        assert response.status_code == 504
        assert "longer than the 0.5 s" in response.json()["error"]
        assert soon(lambda: service.pool.busy == 0, 5) < 1


def test_a_full_queue_is_503_with_the_time_to_come_again(slow_app):
    app, service = slow_app(workers=1, queue=1)
    with listening(app) as address:
        links = [sent(address, TEXT), sent(address, "A [MASK] [MASK].")]
        soon(lambda: service.pool.busy == 1 and service.pool.waiting == 1, 5)
        for accept in ("application/json", "text/event-stream"):
            response = httpx.post(
                f"{address}/v1/fill", json={"text": "The [MASK]."}, headers={"Accept": accept}
            )
            assert response.status_code == 503
            assert int(response.headers["retry-after"]) >= 1
            assert "queue is full" in response.json()["error"]
        for link in links:
            link.close()
        soon(lambda: service.pool.busy == service.pool.waiting == 0, 3)
        assert httpx.get(f"{address}/healthz").json()["busy"] == 0


def test_health_and_the_page_answer_while_all_workers_are_busy(slow_app):
    app, service = slow_app(workers=1)
    with listening(app) as address, sent(address, TEXT):
        soon(lambda: service.pool.busy == 1, 5)
        assert httpx.get(f"{address}/healthz").json()["busy"] == 1
        assert httpx.get(f"{address}/").is_success
        assert service.pool.busy == 1  # the work went on meanwhile


def test_two_requests_about_one_text_at_once_ask_the_model_once(slow_app):
    app, service = slow_app(workers=2)
    with listening(app) as address:
        methods = ("ag", "product")
        found = {}

        def ask(method):
            body = {"text": "The [MASK] is.", "method": method}
            found[method] = httpx.post(f"{address}/v1/fill", json=body, timeout=30)

        threads = [threading.Thread(target=ask, args=(m,)) for m in methods]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(found[m].is_success for m in methods)
        assert service.conditionals.misses == 1


def test_two_requests_about_two_texts_are_worked_on_at_once(slow_app):
    app, service = slow_app(workers=2)
    with listening(app) as address, sent(address, TEXT):
        soon(lambda: service.pool.busy == 1, 5)
        found = httpx.post(f"{address}/v1/fill", json={"text": "The [MASK] is."}, timeout=30)
        assert found.is_success
        assert service.pool.busy == 1  # the model is still busy with the first one


class TestInFlight:
    def test_whoever_wants_a_part_of_it_waits_and_others_do_not(self):
        flights, order, entered = InFlight(), [], threading.Event()

        def second():
            with flights.claim("bc", Deadline(9)):
                order.append("second")

        with flights.claim("ab", Deadline(9)):
            thread = threading.Thread(target=second)
            thread.start()
            with flights.claim("d", Deadline(9)):
                entered.set()
            time.sleep(0.2)
            order.append("first")
        thread.join(9)
        assert entered.is_set()
        assert order == ["first", "second"]

    def test_waiting_has_a_deadline_and_leaves_nothing_behind(self):
        flights = InFlight()
        with flights.claim("a", Deadline(9)):
            with pytest.raises(DeadlineExceeded), flights.claim("ab", Deadline(0.01)):
                pass
            with flights.claim("b", Deadline(9)):
                pass
        with flights.claim("a", Deadline(9)):
            pass


class TestShelf:
    def test_the_least_recently_used_model_makes_room_and_the_first_stays(self, settings, checkpoint):
        models = {name: str(checkpoint(name)) for name in ("bert", "roberta", "albert", "electra")}
        app = create_app(settings(models=models, limits=Limits(models=2)))
        conditionals = app.state.service.conditionals
        models = conditionals.models
        for name in ("bert", "roberta", "albert"):
            models.take(name, Deadline(60))
        assert set(models.loaded) == {"bert", "albert"}
        models.take("electra", Deadline(60))
        assert set(models.loaded) == {"bert", "electra"}
        assert models.loads == 4
        models.take("bert", Deadline(60))
        assert models.loads == 4

    def test_what_a_removed_model_has_said_goes_with_it(self, settings, checkpoint):
        from fastapi.testclient import TestClient

        models = {name: str(checkpoint(name)) for name in ("bert", "roberta", "albert")}
        app = create_app(settings(models=models, limits=Limits(models=2)))
        app.state.service.warm_up = lambda: None
        with TestClient(app) as client:
            for name in ("bert", "roberta"):
                assert client.post("/v1/fill", json={"text": TEXT, "model": name}).is_success
            before = app.state.service.conditionals.bytes
            assert client.post("/v1/fill", json={"text": "A [MASK].", "model": "albert"}).is_success
            assert 0 < app.state.service.conditionals.bytes < before


def test_what_was_said_is_kept_within_its_budget(settings):
    from fastapi.testclient import TestClient

    table = 2 * 4 * 78 * 78
    app = create_app(settings(limits=Limits(tables=2 * table + 10_000)))
    app.state.service.warm_up = lambda: None
    conditionals = app.state.service.conditionals
    with TestClient(app) as client:
        for word in ("man", "dog", "cat", "house"):
            assert client.post("/v1/fill", json={"text": f"The {word} [MASK] [MASK]."}).is_success
            assert 0 < conditionals.bytes <= conditionals.settings.limits.tables
        asked = conditionals.misses
        client.post("/v1/fill", json={"text": "The house [MASK] [MASK].", "method": "hcb"})
        assert conditionals.misses == asked
        client.post("/v1/fill", json={"text": "The man [MASK] [MASK].", "method": "hcb"})
        assert conditionals.misses == asked + 1
