"""Work spread over many machines with Ray.

`spread` starts workers on a cluster, each of which makes its tool once (loads a model, say) and then applies
it to one task after the other; results come back to the caller as they are finished, with the number of their
task, so that whoever writes them down is one process. A worker whose node dies takes nothing with it:
its task is given to another, and a new worker is asked for wherever there is room. No task waits for a worker
that is not there yet.

A task that brings down every worker that takes it up (for want of memory, say) would go round for ever:
after `ATTEMPTS` deaths the work stops with an explanation.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from unmask.errors import RunError, UnmaskError, UsageError, first_line

T = TypeVar("T")
R = TypeVar("R")

ATTEMPTS = 4
"""How many workers a task may bring down before the work is given up."""
PATIENCE = 300.0
"""Seconds to wait for a first worker, when there is none at work."""
REACH = 5.0
"""Seconds to wait for an answer from a cluster's address."""
OPENING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""How a client of gRPC, which Ray speaks, opens a connection: HTTP/2's preface and a frame of no settings."""
SETTINGS_FRAME = 4
LOCAL_STORE = 100 * 10**6
"""Bytes of the object store of a local cluster: tasks and results are small."""


def check_workers(workers: int | None, address: str | None) -> None:
    """Refuse workers where there is no cluster for them."""
    if workers is not None and address is None:
        raise UsageError("workers are those of a Ray cluster: give --ray too, as in --ray --workers 2")


def spread(
    tasks: Iterable[T],
    make_worker: Callable[[], Callable[[T], R]],
    *,
    address: str | None = None,
    workers: int | None = None,
) -> Iterator[tuple[int, R]]:
    """Apply what `make_worker` makes to every task, on a Ray cluster; yields (number of the task, result).

    Results come in the order in which they are finished. Tasks are drawn as workers fall free.

    Args:
        tasks: what is to be done; anything that can be pickled.
        make_worker: called once in each worker process; returns the function that is applied to tasks.
        address: of a running cluster (`auto`, `HOST:PORT`, `ray://HOST:PORT`); None or `local` starts one on
            this machine, which ends with the work, or takes the one that this process is connected to.
        workers: how many; by default one for each GPU of the cluster, or for each CPU if it has none.
    """
    if workers is not None and workers < 1:
        raise UsageError(f"expected at least one worker, got {workers}")
    with _connected(address, workers) as ray:
        crew = _Crew(ray, make_worker, workers)
        try:
            yield from crew.work_through(tasks)
        finally:
            crew.dismiss()


class _Worker:
    """What runs in a worker process."""

    def ready(self, make_worker: Callable[[], Callable[[Any], Any]]) -> None:
        """Make the tool; not in `__init__`, whose errors Ray takes for the death of the worker."""
        self._apply = make_worker()

    def apply(self, task: Any) -> Any:
        """Do one task."""
        return self._apply(task)

    def roll_call(self) -> None:
        """Answer, as the living do."""


class _Crew:
    """The workers of a cluster, and who is at which task."""

    def __init__(
        self, ray: Any, make_worker: Callable[[], Callable[[Any], Any]], workers: int | None
    ) -> None:
        self._ray = ray
        has = ray.cluster_resources()
        gpus = int(has.get("GPU", 0))
        self.size = workers or gpus or max(1, int(has.get("CPU", 1)))
        needs: dict[str, float] = {"num_cpus": min(1.0, has.get("CPU", 0.0))}
        if gpus:
            needs["num_gpus"] = min(1.0, gpus / self.size)
        self._class = ray.remote(_Worker).options(**needs, runtime_env={"env_vars": _environment()})
        self._make_worker = ray.put(make_worker)
        self._starting: dict[Any, Any] = {}  # what will answer -> worker
        self._hired: list[Any] = []
        self._busy: dict[Any, tuple[Any, int, Any]] = {}  # what will answer -> worker, number, task

    def work_through(self, tasks: Iterable[T]) -> Iterator[tuple[int, Any]]:
        """Give tasks to whoever is free until all are done."""
        coming = enumerate(tasks)
        again: deque[tuple[int, Any]] = deque()
        deaths: dict[int, int] = {}
        for _ in range(self.size):
            self._hire()
        waiting_since = time.monotonic()
        free: list[Any] = []
        while True:
            while free and (task := again.popleft() if again else next(coming, None)) is not None:
                worker = free.pop()
                self._busy[worker.apply.remote(task[1])] = (worker, *task)
            if free and not self._busy and not again:
                return
            done, _ = self._ray.wait([*self._busy, *self._starting], timeout=1.0)
            if self._busy or done:
                waiting_since = time.monotonic()
            elif time.monotonic() - waiting_since > PATIENCE:
                raise RunError(
                    f"no worker has started on the Ray cluster in {PATIENCE:.0f} s: see with 'ray status' "
                    f"whether its nodes are alive and have a free CPU"
                )
            for answer in done:
                worker, *task_of = self._busy.pop(answer, None) or (self._starting.pop(answer),)
                try:
                    result = self._ray.get(answer)
                except self._ray.exceptions.RayTaskError as error:
                    raise _cause(error) from error
                except self._ray.exceptions.RayError as error:  # the worker died, or its node
                    _count(deaths, task_of[0] if task_of else -1, self.size, error)
                    if task_of:
                        again.append((task_of[0], task_of[1]))
                    self._hire()
                    # a node takes its idle workers with it: no task is given to one that does not answer
                    self._starting |= {idle.roll_call.remote(): idle for idle in free}
                    free.clear()
                    continue
                free.append(worker)
                if task_of:
                    deaths.pop(-1, None)
                    yield task_of[0], result

    def _hire(self) -> None:
        worker = self._class.remote()
        self._starting[worker.ready.remote(self._make_worker)] = worker
        self._hired.append(worker)

    def dismiss(self) -> None:
        """End every worker, so that the cluster's CPUs are free for others at once."""
        for worker in self._hired:
            with suppress(Exception):
                self._ray.kill(worker)


def _count(deaths: dict[int, int], number: int, size: int, error: Exception) -> None:
    """Count a worker's death; -1 stands for the making of the tool."""
    deaths[number] = deaths.get(number, 0) + 1
    if number >= 0 and deaths[number] >= ATTEMPTS:
        raise RunError(
            f"task {number} brought down {ATTEMPTS} workers one after the other: probably for want of "
            f"memory; take fewer workers on a machine, or less memory for each ({first_line(error)})"
        )
    if number < 0 and deaths[number] >= ATTEMPTS * size:
        raise RunError(
            f"the workers die before they are ready: probably for want of memory; take fewer of them on a "
            f"machine ({first_line(error)})"
        )


def _cause(error: Any) -> BaseException:
    """Return what went wrong in the worker: our own errors as they are, others in one line."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, UnmaskError):
        return cause
    failed = cause or error
    return RunError(f"a worker of the Ray cluster failed: {type(failed).__name__}: {first_line(failed)}")


def _environment() -> dict[str, str]:
    """What a worker process needs: one thread (there is a worker for each CPU), and this very package."""
    package = str(Path(__file__).resolve().parents[2])
    paths = [package, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    kept = {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(str(Path(p).resolve()) for p in paths if p)}
    return kept | {name: os.environ[name] for name in ("HF_HUB_OFFLINE", "HF_HOME") if name in os.environ}


@contextmanager
def _connected(address: str | None, workers: int | None) -> Iterator[Any]:
    """Connect to a cluster, or start one; leave things as they were."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError:
        raise UsageError("work over many machines needs Ray: pip install 'unmask[ray]'") from None
    if ray.is_initialized():
        if address not in (None, "local", "auto"):
            raise UsageError(
                f"this process is connected to a Ray cluster already: give local, not '{address}', to use it"
            )
        yield ray  # whoever connected lets go, too
        return
    quiet: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    try:
        if address in (None, "local"):
            ray.init(
                address="local",
                num_cpus=workers or os.cpu_count() or 1,
                object_store_memory=LOCAL_STORE,
                include_dashboard=False,
                **quiet,
            )
        else:
            assert address is not None
            _check_reachable(address)
            ray.init(address=address, **quiet)
    except (OSError, RuntimeError, ValueError, AssertionError) as error:
        if isinstance(error, UnmaskError):
            raise
        raise RunError(
            f"can't reach a Ray cluster at '{address or 'local'}': {first_line(error)}. Start one with "
            f"'ray start --head' and give its address"
        ) from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _check_reachable(address: str) -> None:
    """Ask at the address before Ray does, which would try for a minute and then end the process."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if address == "auto":
        return
    if not (colon and host and port.isdecimal()):
        raise UsageError(
            f"expected the address of a Ray cluster as HOST:PORT, ray://HOST:PORT, auto or local, got "
            f"'{address}'"
        )
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=REACH) as connection:
            trouble = None if _speaks_grpc(connection) else "what answers there is not Ray"
    except (OSError, OverflowError) as error:
        trouble = str(error)
    if trouble is not None:
        raise RunError(
            f"can't reach a Ray cluster at '{address}' ({trouble}): is it running, and is the address the "
            f"one that 'ray start --head' printed?"
        )


def _speaks_grpc(connection: socket.socket) -> bool:
    """Tell whether the other side answers the opening of HTTP/2 with its own settings, as gRPC must."""
    if os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true"):
        return True  # it would say nothing before the keys are agreed upon: leave it to Ray
    connection.sendall(OPENING)
    header = b""
    while len(header) < 9 and (part := connection.recv(9 - len(header))):
        header += part
    return len(header) == 9 and header[3] == SETTINGS_FRAME
