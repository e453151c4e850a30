"""What the server tells Prometheus: requests, time, queue, caches, models."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from starlette.types import ASGIApp, Message, Receive, Scope, Send

if TYPE_CHECKING:
    from unmask.web.service import Service

SECONDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0)


class Metrics:
    """The counters of one application; several in one process stay apart."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self.requests = Counter(
            "unmask_requests", "Requests by path and status.", ["path", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "unmask_request_seconds",
            "From request to answer.",
            ["path"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.abandoned = Counter(
            "unmask_abandoned", "Requests whose client left before the answer.", registry=self.registry
        )
        self.answers_found = Counter(
            "unmask_answers_found", "Answers taken from the cache.", registry=self.registry
        )

    def observe(self, service: Service) -> None:
        """Read the state of a service at every scrape."""
        gauges = {
            "unmask_busy_workers": ("Workers at work.", lambda: service.pool.busy),
            "unmask_waiting_requests": ("Requests in the queue.", lambda: service.pool.waiting),
            "unmask_loaded_models": ("Models in memory.", lambda: len(service.conditionals.models.loaded)),
            "unmask_model_loads": ("Models loaded so far.", lambda: service.conditionals.models.loads),
            "unmask_tables_bytes": (
                "Conditionals kept.",
                lambda: service.conditionals.bytes,
            ),
            "unmask_tables_found": (
                "Texts whose conditionals were in the cache.",
                lambda: service.conditionals.hits,
            ),
            "unmask_tables_asked": (
                "Texts whose conditionals were computed.",
                lambda: service.conditionals.misses,
            ),
            "unmask_answers_bytes": ("Answers kept.", lambda: service.answers.bytes),
        }
        for name, (meaning, read) in gauges.items():
            Gauge(name, meaning, registry=self.registry).set_function(read)

    def page(self) -> bytes:
        """Return what Prometheus reads."""
        return generate_latest(self.registry)


class MetricsMiddleware:
    """Middleware that counts each request by its route and status, and times it."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start = time.perf_counter()
        status = 499  # what stays if nothing is sent: the client has left

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, counted)
        finally:
            path = getattr(scope.get("route"), "path", "other")  # the route, not what anyone may write
            self.metrics.requests.labels(path, str(status)).inc()
            self.metrics.seconds.labels(path).observe(time.perf_counter() - start)
