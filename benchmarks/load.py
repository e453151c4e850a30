"""The explorer under load: `unmask serve` on loopback, and clients that ask at once.

Measured, in this order: the time from the command to a page that is served, to a model that is ready and to
the answer that the page shows first; default fills that were never asked before; how soon a killed client's
worker is free; then `--clients` clients for `--seconds`, each asking again as soon as it has its answer; then
single questions once more. The server keeps 100 MB of tables, and they are full before the clients come: from
then on memory must not grow; what work takes while it lasts comes and goes, so medians are compared.

Every answer is held against the library in this process, afterwards. The script fails if an answer is
wrong, if any status but 200 and 503 comes, if a 503 tells no time to come again, if the server's memory grows
in the second half of the run, or if it is slower afterwards.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import re
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import httpx
import psutil

from fill import SENTENCES
from machine import describe

KINDS = ("old", "young", "tall", "small", "happy", "tired", "other", "first")
PLACES = ("park", "street", "house", "garden", "city", "field", "school", "kitchen", "river", "snow")
METHODS = ("ag", "gibbs", "product", "mrf-prob")
TEXTS = [f"The {kind} [MASK] [MASK] in the {place}." for kind, place in product(KINDS, PLACES)]
BLANKS = "The [MASK] [MASK] playing in the park."
"""What the page shows first: the server asks itself as soon as the model is there."""
LONG = " ".join(["The man is playing in the park with his dog and the children."] * 8) + " The [MASK] [MASK]."
SINGLE = "Two [MASK] are [MASK] in the {}."
IMPATIENCE = 0.25
COUNTERS = ("unmask_answers_found_total", "unmask_tables_asked")
GROWTH, SLOWDOWN = 1.1, 1.5
CACHE, FULL = 10**8, 0.9
"""Bytes of tables that the server keeps, and the share at which they are full: one more may not fit."""


@dataclass
class Tally:
    """What the clients have seen."""

    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    bodies: dict[str, set[str]] = field(default_factory=dict)
    without_retry: int = 0
    rss: list[int] = field(default_factory=list)


class Server:
    """`unmask serve` in a process of its own."""

    def __init__(self, model: str, *more: str, cache: int = CACHE) -> None:
        start = time.perf_counter()
        self.cache = cache
        command = [sys.executable, "-c", "from unmask.cli import main; main()", "serve", "--port", "0"]
        self.process = subprocess.Popen(
            [*command, "--model", model, "--cache", str(cache), "--time-limit", "300", *more],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        found = re.search(r"http://\S+", self.process.stdout.readline())
        if found is None:
            raise SystemExit("the server did not start")
        self.address = found.group()
        httpx.get(f"{self.address}/", timeout=60).raise_for_status()
        self.page_seconds = time.perf_counter() - start
        while self.health()["status"] != "ready":
            time.sleep(0.02)
        self.ready_seconds = time.perf_counter() - start
        self.settle()
        self.answer_seconds = time.perf_counter() - start

    def health(self) -> dict[str, Any]:
        return dict(httpx.get(f"{self.address}/healthz", timeout=60).json())

    def settle(self) -> None:
        """Wait until the first question of the page, which is asked at the start, has been answered."""
        httpx.post(f"{self.address}/v1/fill", json={"text": BLANKS}, timeout=600)

    def metric(self, name: str) -> float:
        page = httpx.get(f"{self.address}/metrics", timeout=60).text
        found = re.search(rf"^{name} (\S+)$", page, re.MULTILINE)
        return float(found.group(1)) if found else math.nan

    def fill_cache(self) -> None:
        """Ask default questions until the tables that are kept are full."""
        number = 0
        while self.metric("unmask_tables_bytes") < FULL * self.cache:
            timed(self, {"text": SINGLE.format(f"{number} towns")})
            number += 1

    def rss(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(30)


def timed(server: Server, question: dict[str, Any]) -> float:
    start = time.perf_counter()
    httpx.post(f"{server.address}/v1/fill", json=question, timeout=600).raise_for_status()
    return time.perf_counter() - start


def single(server: Server, words: tuple[str, ...], settings: dict[str, Any]) -> float:
    """Return the median time of questions that come one after the other, and none of them before."""
    return statistics.median(timed(server, {"text": SINGLE.format(word), **settings}) for word in words)


def freed_after_kill(server: Server) -> float:
    """Return how long a worker goes on after its client is gone."""
    body = json.dumps({"text": LONG, "candidates": 1024})
    command = ["curl", "-s", f"{server.address}/v1/fill", "-H", "Content-Type: application/json", "-d", body]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as client:
        while not server.health()["busy"]:
            time.sleep(0.01)
        time.sleep(1)
        client.kill()
        start = time.perf_counter()
        while server.health()["busy"]:
            time.sleep(0.01)
    return time.perf_counter() - start


async def crowd(server: Server, clients: int, seconds: float, settings: dict[str, Any]) -> Tally:
    tally, end = Tally(), time.perf_counter() + seconds

    async def client(number: int) -> None:
        drawing = random.Random(number)
        async with httpx.AsyncClient(timeout=120) as link:
            while time.perf_counter() < end:
                question = {"text": drawing.choice(TEXTS), "method": drawing.choice(METHODS), **settings}
                start = time.perf_counter()
                response = await link.post(f"{server.address}/v1/fill", json=question)
                tally.statuses[response.status_code] += 1
                if response.status_code == 200:
                    tally.seconds.append(time.perf_counter() - start)
                    tally.bodies.setdefault(json.dumps(question), set()).add(response.text)
                else:
                    tally.without_retry += not response.headers.get("retry-after", "").isdecimal()
                    await asyncio.sleep(IMPATIENCE)

    async def memory() -> None:
        while time.perf_counter() < end:
            tally.rss.append(server.rss())
            await asyncio.sleep(0.2)

    await asyncio.gather(memory(), *(client(number) for number in range(clients)))
    return tally


def wrong_answers(tally: Tally, model: str) -> int:
    """Return how many answers the library does not give."""
    import unmask
    from unmask.serialize import fill_answer

    compute_as_a_worker()
    mlm, wrong = unmask.load(model), 0
    for question, bodies in tally.bodies.items():
        asked = json.loads(question)
        want = fill_answer(unmask.fill(mlm=mlm, **asked), mlm, 10)
        wrong += sum(not agree(json.loads(body), want) for body in bodies)
    return wrong


def compute_as_a_worker() -> None:
    """Take a worker's number of threads, and no oneDNN either: solvers could take another number of steps."""
    import torch

    from unmask.web import Limits

    torch.backends.mkldnn.enabled = False
    torch.set_num_threads(max(1, torch.get_num_threads() // Limits().workers))


def agree(got: Any, want: Any) -> bool:
    """Whether two answers say the same, but for the order in which another thread summed."""
    if isinstance(want, dict):
        return got.keys() == want.keys() and all(agree(got[k], want[k]) for k in want if k != "gradient_norm")
    if isinstance(want, list):
        return len(got) == len(want) and all(map(agree, got, want))
    if isinstance(want, float):
        return math.isclose(got, want, rel_tol=1e-3, abs_tol=1e-5)
    return bool(got == want)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="english")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--candidates", type=int, help="of every question; by default what a fill has")
    parser.add_argument("--support", type=int, help="likewise")
    given = parser.parse_args()
    chosen = {"candidates": given.candidates, "support": given.support}
    settings = {name: value for name, value in chosen.items() if value is not None}
    server = Server(given.model)
    try:
        defaults = [timed(server, {"text": text}) for text in SENTENCES]
        freed = freed_after_kill(server)
        single(server, PLACES[:2], settings)
        before = single(server, PLACES[2:6], settings)
        server.fill_cache()
        found, computed = (-server.metric(name) for name in COUNTERS)
        tally = asyncio.run(crowd(server, given.clients, given.seconds, settings))
        while server.health()["busy"] or server.health()["waiting"]:
            time.sleep(0.05)
        found, computed = (
            n + server.metric(name) for n, name in zip((found, computed), COUNTERS, strict=True)
        )
        after = single(server, PLACES[6:], settings)
        rss_after = server.rss()
    finally:
        server.stop()
    wrong = wrong_answers(tally, given.model)
    half = len(tally.rss) // 2
    first, second = (statistics.median(part) for part in (tally.rss[:half], tally.rss[half:]))
    quantiles = statistics.quantiles(tally.seconds, n=20)
    others = {status: n for status, n in tally.statuses.items() if status not in (200, 503)}
    print(f"## The explorer under load\n\n{describe()}; model {given.model}, {given.clients} clients for")
    print(f"{given.seconds:g} s, {settings or 'default questions'}\n")
    print("| what | measured |\n|---|---|")
    for name, value in {
        "from the command to the page": f"{server.page_seconds:.2f} s",
        "from the command to a loaded model": f"{server.ready_seconds:.2f} s",
        "from the command to the page's first answer": f"{server.answer_seconds:.2f} s",
        "a default fill, the texts of fill.py": f"{statistics.mean(defaults):.2f} s on the average "
        f"({min(defaults):.2f} to {max(defaults):.2f})",
        "a killed client's worker is free after": f"{freed:.2f} s",
        "answers (200)": f"{tally.statuses[200]:,}",
        "of them from the cache": f"{found:,.0f}",
        "fresh answers per second": f"{(tally.statuses[200] - found) / given.seconds:.2f}",
        "texts that the model was asked about, per second": f"{computed / given.seconds:.2f}",
        "refused (503), all with Retry-After": f"{tally.statuses[503]:,}",
        "other statuses": str(others or "none"),
        "distinct questions checked against the library": f"{len(tally.bodies):,}",
        "wrong answers": str(wrong),
        "time to an answer, median and 95 %": f"{quantiles[9]:.2f} s, {quantiles[18]:.2f} s",
        "memory, median of the first and the second half": f"{first / 1e6:,.0f} and "
        f"{second / 1e6:,.0f} MB (at most {max(tally.rss) / 1e6:,.0f}, {rss_after / 1e6:,.0f} afterwards)",
        "a single question before and after": f"{before:.3f} and {after:.3f} s ({after / before:.2f} times)",
    }.items():
        print(f"| {name} | {value} |")
    failures = {
        "wrong answers": wrong > 0,
        "other statuses": bool(others),
        "503 without Retry-After": tally.without_retry > 0,
        "growing memory": second > GROWTH * first,
        "slower afterwards": after > SLOWDOWN * before,
        "a worker that was not freed": freed > 1,
    }
    failed = [name for name, so in failures.items() if so]
    if failed:
        sys.exit(f"the load test failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
