"""A program that imports everything once and forks a child for each attempt at a run, which it may kill.

Reads a JSON object per line from standard input and answers each by one: how many pieces were finished, and
the error if there was one. A fork costs a tenth of a second instead of the seconds of a fresh interpreter.
"""

import json
import os
import random
import resource
import signal
import sys
import time
from pathlib import Path

import matplotlib.pyplot  # noqa: F401
from kinds import KINDS, slow_down

import unmask.embeddings.files
import unmask.evaluation.benchmarks.blanks
import unmask.evaluation.benchmarks.blimp
import unmask.evaluation.report
import unmask.evaluation.run
import unmask.tasks.run
import unmask.training.loop
import unmask.training.run  # noqa: F401


def attempt(order: dict) -> dict:
    kind, out = KINDS[order["kind"]], Path(order["out"])
    log = Path(order.get("log", out.parent / "log.txt"))  # elsewhere if the disk is full
    process = os.fork()
    if process == 0:
        child(order, log)
    wanted = order.get("kill_after")
    ended, status = 0, 0
    while wanted is not None and not ended and kind.finished(out) < wanted:
        time.sleep(0.002)
        ended, status = os.waitpid(process, os.WNOHANG)
    if not ended:
        if "kill_seconds" in order:  # at any moment, whatever it is doing
            ended, status = wait(process, order["kill_seconds"])
            if not ended:
                os.kill(process, signal.SIGKILL)
        elif wanted is not None:
            time.sleep(random.Random(wanted).uniform(0, 0.03))
            os.kill(process, signal.SIGKILL)
        if not ended:
            _, status = os.waitpid(process, 0)
    killed = os.WIFSIGNALED(status)
    told = log.read_text() if log.exists() else ""
    error = None if killed or status == 0 else told.splitlines()[-1]
    return {"finished": kind.finished(out), "killed": killed, "error": error, "log": told[-2000:]}


def wait(process: int, seconds: float) -> tuple[int, int]:
    """Wait for a process, but not longer than that."""
    end = time.monotonic() + seconds
    ended, status = os.waitpid(process, os.WNOHANG)
    while not ended and time.monotonic() < end:
        time.sleep(0.001)
        ended, status = os.waitpid(process, os.WNOHANG)
    return ended, status


def child(order: dict, log: Path) -> None:
    stream = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(stream, 1)
    os.dup2(stream, 2)
    try:
        if "largest_file" in order:
            limits = (order["largest_file"], resource.RLIM_INFINITY)
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        start = KINDS[order["kind"]].start
        start(Path(order["home"]), order["model"], Path(order["out"]), order.get("other", False))
    except BaseException as error:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        os.write(1, f"\n{type(error).__name__}: {error}\n".encode())
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    slow_down()
    for line in sys.stdin:
        print(json.dumps(attempt(json.loads(line))), flush=True)
