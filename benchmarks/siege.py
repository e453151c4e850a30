"""The server under siege: `unmask serve` on loopback, 32 clients for 120 s, not all of them friendly.

Eighteen clients ask fair questions of every kind, and every answer is held against the library afterwards.
The others write or read a byte at a time, leave connections half open, send bodies of just the size that is
taken and of one byte more, leave in the middle of a stream of events, and ask for a model whose
weights are damaged. After a quarter of the time the server's memory is limited to what it has and a little,
another little every half second, so that some work can't begin and some runs out of memory on its way: for 5
seconds, or up to 20 until a worker has run out of it.

The tables that the server keeps (40 MB) are full before the clients come: whatever its memory grows by from
then on is held for nothing. The script fails if an answer is wrong, if a 5xx but 503 comes, if the server
dies, if its memory in the last third is more than 5 % above that of the middle third, or if a question
afterwards takes longer than before.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import re
import resource
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

import unmask
from load import FULL, PLACES, SINGLE, TEXTS, Server, agree, compute_as_a_worker, timed
from machine import describe
from unmask import serialize
from unmask.models.embedded import locate
from unmask.web.settings import Limits

sys.path.append(str(Path(__file__).parents[1] / "recipes"))

from reliability import RESULTS, keep

SMALL = {"candidates": 8, "support": 100}
FLAT, SLOWDOWN = 1.05, 1.5
CACHE = 4 * 10**7
SHORTAGE = (5.0, 20.0)
"""Seconds without memory: so long if a worker has run out of it by then, and at most so long."""
HEADROOM = (0, 36, 40, 48, 64, 96)
"""MB more than it has at the beginning that the server may have then; with less than 32, no work begins."""
BODY = Limits().body


@dataclass
class Tally:
    """What the clients have seen."""

    statuses: dict[str, Counter[str]] = field(default_factory=dict)
    bodies: dict[str, set[str]] = field(default_factory=dict)
    rss: list[tuple[float, int]] = field(default_factory=list)
    cached: list[tuple[float, float]] = field(default_factory=list)

    def count(self, client: str, status: object) -> None:
        self.statuses.setdefault(client, Counter())[str(status)] += 1


def told(response: httpx.Response) -> str:
    """The status of a response, and whether a 503 was for want of memory: to begin, or on the way."""
    reasons = [reason for reason in ("too little free memory", "out of memory") if reason in response.text]
    return " ".join([str(response.status_code), *reasons])


class Siege:
    """The clients of one server, until `end`."""

    def __init__(self, server: Server, seconds: float) -> None:
        self.server, self.tally, self.seconds = server, Tally(), seconds
        self.start = time.perf_counter()
        self.end = self.start + seconds
        self.host, port = server.address.removeprefix("http://").split(":")
        self.port = int(port)

    async def fair(self, drawn: random.Random) -> None:
        """Ask a fair question, and keep the answer."""
        route = drawn.choice(["fill", "fill", "sample", "score", "compare"])
        text = drawn.choice(TEXTS)
        asked: dict[str, Any] = {"text": text, **SMALL}
        if route == "score":
            asked["text"] = text.replace("[MASK] [MASK]", "{man} {is}")
        if route == "sample":
            asked |= {"number": 3, "seed": drawn.randrange(3)}
        async with httpx.AsyncClient(timeout=120) as link:
            while time.perf_counter() < self.end:
                response = await link.post(f"{self.server.address}/v1/{route}", json=asked)
                self.tally.count("fair", told(response))
                if response.status_code == 200:
                    self.tally.bodies.setdefault(json.dumps([route, asked]), set()).add(response.text)
                    return
                await asyncio.sleep(0.25)

    async def raw(self, head: bytes, body: bytes, *, pause: float = 0.0, read_pause: float = 0.0) -> str:
        """Send a request by hand, in pieces; return its status, or 'closed'."""
        reader, writer = await asyncio.open_connection(self.host, self.port)
        try:
            sent = head + body
            step = 1 if pause else len(sent)
            for at in range(0, len(sent), step):
                writer.write(sent[at : at + step])
                await writer.drain()
                if pause:
                    await asyncio.sleep(pause)
            first = await asyncio.wait_for(reader.readline(), 120)
            if read_pause:
                while await reader.read(1) and time.perf_counter() < self.end:
                    await asyncio.sleep(read_pause)
            return first.split()[1].decode() if first else "closed"
        except (ConnectionError, TimeoutError):
            return "closed"
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    def request(self, body: bytes, *more: str, length: int | None = None) -> bytes:
        """Return the head of a request with a body of that length."""
        lines = ["POST /v1/fill HTTP/1.1", f"Host: {self.host}:{self.port}", "Content-Type: application/json"]
        lines += [
            f"Content-Length: {len(body) if length is None else length}",
            *more,
            "Connection: close",
            "",
            "",
        ]
        return "\r\n".join(lines).encode()

    async def slow_writer(self, drawn: random.Random) -> None:
        body = json.dumps({"text": drawn.choice(TEXTS), **SMALL}).encode()
        self.tally.count(
            "slow writer", await self.raw(self.request(body), body, pause=drawn.choice([0.002, 0.2]))
        )

    async def slow_reader(self, drawn: random.Random) -> None:
        body = json.dumps({"text": drawn.choice(TEXTS), "top": 200, **SMALL}).encode()
        self.tally.count("slow reader", await self.raw(self.request(body), body, read_pause=0.01))

    async def half_open(self, drawn: random.Random) -> None:
        """Send half a request and keep the line, or promise a body that never comes."""
        head = self.request(b"", length=500)
        _, writer = await asyncio.open_connection(self.host, self.port)
        writer.write(head[: drawn.randrange(1, len(head))] if drawn.random() < 0.5 else head + b'{"text"')
        await asyncio.sleep(drawn.uniform(0, 15))
        writer.transport.abort()
        self.tally.count("half open", "left")

    async def large_body(self, drawn: random.Random) -> None:
        """A body of just the size that is taken, or of one byte more."""
        size = BODY + drawn.randrange(2)
        core = json.dumps({"text": drawn.choice(TEXTS), **SMALL}).encode()
        body = core[:-1] + b" " * (size - len(core)) + b"}"
        status = await self.raw(self.request(body), body)
        expected = {"413", "closed"} if size > BODY else {"200", "503"}
        self.tally.count("body at the limit", status if status in expected else f"{status} for {size} bytes")

    async def cancelled(self, drawn: random.Random) -> None:
        """Leave in the middle of a stream of events."""
        body = json.dumps(
            {"text": drawn.choice(TEXTS).replace("The", f"My {drawn.randrange(99)}"), **SMALL}
        ).encode()
        reader, writer = await asyncio.open_connection(self.host, self.port)
        writer.write(self.request(body, "Accept: text/event-stream") + body)
        with contextlib.suppress(TimeoutError, ConnectionError):
            await asyncio.wait_for(reader.read(drawn.randrange(1, 400)), drawn.uniform(0.01, 1))
        writer.transport.abort()
        self.tally.count("cancelled stream", "left")

    async def broken_model(self, drawn: random.Random) -> None:
        """Ask for a model that can't be loaded, until there is room in the queue."""
        async with httpx.AsyncClient(timeout=120) as link:
            asked = {"text": drawn.choice(TEXTS), "model": "broken"}
            while time.perf_counter() < self.end:
                response = await link.post(f"{self.server.address}/v1/fill", json=asked)
                self.tally.count("broken model", told(response))
                if response.status_code != 503:
                    return
                await asyncio.sleep(0.25)

    async def greedy(self, number: int) -> None:
        """Ask for large tables, and again, while there is no memory."""
        asked = {"text": TEXTS[number], "candidates": 64, "support": 8000, "seed": number}
        async with httpx.AsyncClient(timeout=300) as link:
            while time.perf_counter() < self.end:
                response = await link.post(f"{self.server.address}/v1/fill", json=asked)
                self.tally.count("greedy", told(response))
                await asyncio.sleep(0.05)

    async def again(self, act: Callable[[random.Random], Awaitable[None]], number: int) -> None:
        """Act until the end."""
        drawn = random.Random(number)
        while time.perf_counter() < self.end:
            try:
                await act(drawn)
            except (httpx.TransportError, ConnectionError) as error:
                self.tally.count(act.__name__, type(error).__name__)
                await asyncio.sleep(0.25)

    async def watch(self) -> None:
        """Note the server's memory, and let it have no more for a while."""
        pid, begun, ended = self.server.process.pid, None, False
        before = resource.prlimit(pid, resource.RLIMIT_DATA)
        drawn, data, varied = random.Random(0), 0, 0.0
        greedy: list[asyncio.Task[None]] = []
        while (now := time.perf_counter()) < self.end:
            self.tally.rss.append(((now - self.start) / self.seconds, self.server.rss()))
            if begun is None and now > self.start + self.seconds / 4:
                found = re.search(r"VmData:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
                assert found is not None
                data, begun = 1024 * int(found[1]), now
                greedy = [asyncio.create_task(self.greedy(number)) for number in range(8)]
            if begun is not None and not ended and now > varied + 0.5:
                limit = data + drawn.choice(HEADROOM) * 10**6
                resource.prlimit(pid, resource.RLIMIT_DATA, (limit, before[1]))
                varied = now
            felt = any("out of memory" in status for seen in self.tally.statuses.values() for status in seen)
            if begun is not None and not ended and now > begun + (SHORTAGE[0] if felt else SHORTAGE[1]):
                resource.prlimit(pid, resource.RLIMIT_DATA, before)
                ended = True
                for task in greedy:
                    task.cancel()
            await asyncio.sleep(0.1)
        await asyncio.gather(*greedy, return_exceptions=True)

    async def ask_caches(self) -> None:
        """Note what the server says that its caches hold; nothing while it has no memory to say it."""
        async with httpx.AsyncClient(timeout=120) as link:
            while (now := time.perf_counter()) < self.end:
                with contextlib.suppress(httpx.TransportError):
                    page = (await link.get(f"{self.server.address}/metrics")).text
                    held = re.findall(r"^unmask_(?:tables|answers)_bytes (\S+)$", page, re.MULTILINE)
                    if len(held) == 2:
                        self.tally.cached.append(((now - self.start) / self.seconds, sum(map(float, held))))
                await asyncio.sleep(1)

    async def run(self) -> None:
        hostile = [self.slow_writer, self.slow_reader, self.half_open, self.large_body, self.cancelled]
        acts = (
            [self.fair] * 18
            + hostile * 2
            + [self.half_open, self.cancelled, self.broken_model, self.large_body]
        )
        clients = (self.again(act, number) for number, act in enumerate(acts))
        await asyncio.gather(self.watch(), self.ask_caches(), *clients)


def wrong_answers(tally: Tally) -> int:
    """Return how many answers the library does not give."""
    compute_as_a_worker()
    mlm, wrong = unmask.load(), 0
    for question, bodies in tally.bodies.items():
        route, asked = json.loads(question)
        if route == "score":
            want = serialize.score_answer(unmask.score(**asked, mlm=mlm), mlm)
        elif route == "compare":
            want = serialize.compare_answer(unmask.compare(**asked, mlm=mlm), mlm, 3)
        elif route == "sample":
            query = {name: value for name, value in asked.items() if name != "number"}
            want = serialize.sample_answer(unmask.fill(**query, mlm=mlm), mlm, asked["number"], asked["seed"])
        else:
            want = serialize.fill_answer(unmask.fill(**asked, mlm=mlm), mlm, 10)
        wrong += sum(not agree(json.loads(body), json.loads(json.dumps(want))) for body in bodies)
    return wrong


def _last_thirds(noted: Sequence[tuple[float, float]]) -> list[float]:
    """Return the largest of what was noted in the middle and in the last third of the time."""
    return [max(held for at, held in noted if low <= at < low + 1 / 3) for low in (1 / 3, 2 / 3)]


def damaged_model(directory: Path) -> Path:
    """Copy the embedded model with half of its weights."""
    source = Path(locate("english"))
    for path in source.iterdir():
        content = path.read_bytes()
        (directory / path.name).write_bytes(
            content[: len(content) // 2] if path.suffix == ".safetensors" else content
        )
    return directory


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        broken = damaged_model(Path(directory))
        server = Server("english", "--model", f"broken={broken}", cache=CACHE)
        try:
            single = [timed(server, {"text": SINGLE.format(place), **SMALL}) for place in PLACES]
            before = statistics.median(single[2:])
            server.fill_cache()
            siege = Siege(server, given.seconds)
            asyncio.run(siege.run())
            deadline = time.perf_counter() + 60
            while (server.health()["busy"] or server.health()["waiting"]) and time.perf_counter() < deadline:
                time.sleep(0.1)
            first = timed(server, {"text": SINGLE.format("morning"), **SMALL})
            rest = [timed(server, {"text": SINGLE.format(f"{place} today"), **SMALL}) for place in PLACES[2:]]
            after, alive = statistics.median([first, *rest]), server.process.poll() is None
        finally:
            server.stop()
    tally = siege.tally
    memory, cached = _last_thirds(tally.rss), _last_thirds(tally.cached)
    growth = memory[1] / memory[0]
    tenths = [round(max(rss for at, rss in tally.rss if i <= 10 * at < i + 1) / 1e6) for i in range(10)]
    other = sum(
        n
        for c in tally.statuses.values()
        for s, n in c.items()
        if s.startswith("5") and not s.startswith("503")
    )
    wrong = wrong_answers(tally)
    figures = {
        "machine": describe(),
        "clients": 32,
        "seconds": given.seconds,
        "statuses": {name: dict(sorted(counts.items())) for name, counts in sorted(tally.statuses.items())},
        "questions_checked": len(tally.bodies),
        "wrong": wrong,
        "other_5xx": other,
        "memory_mb": [round(largest / 1e6) for largest in memory],
        "caches_mb": [round(largest / 1e6) for largest in cached],
        "memory_growth": round(growth, 3),
        "memory_mb_by_tenth": tenths,
        "question_seconds_before_first_after": [round(x, 3) for x in (before, first, after)],
        "alive": alive,
    }
    print(json.dumps(figures, indent=1))
    keep("siege", figures, given.out)
    failures = {
        "wrong answers": wrong > 0,
        "a 5xx but 503": other > 0,
        "growing memory": growth > FLAT,
        "caches that were not full": cached[0] < FULL * CACHE,
        "slower afterwards": min(first, after) > SLOWDOWN * before,
        "a dead server": not alive,
        "no answer checked": not tally.bodies,
        "memory that never ran out": not any(
            "out of memory" in s for c in tally.statuses.values() for s in c
        ),
    }
    failed = [name for name, so in failures.items() if so]
    if failed:
        sys.exit(f"the siege failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
