"""Attempts at runs in processes of their own, which may be killed; see forker.py."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kinds import KINDS

HERE = Path(__file__).parent
TESTS = HERE.parent


@contextlib.contextmanager
def started_forker() -> Iterator[subprocess.Popen[str]]:
    """Start the program that forks a child for each attempt."""
    paths = [HERE, TESTS, TESTS / "training", TESTS / "evaluation", os.environ.get("PYTHONPATH", "")]
    settings = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    environment = os.environ | settings | {"PYTHONPATH": os.pathsep.join(map(str, paths))}
    command = [sys.executable, str(HERE / "forker.py")]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


class Runs:
    """Starts runs of a kind in processes of their own."""

    def __init__(self, forker: subprocess.Popen[str], name: str, home: Path, model: str, out: Path) -> None:
        self.forker, self.out = forker, out
        self.order = {"kind": name, "home": str(home), "model": model, "out": str(out)}

    def log_to(self, path: Path) -> None:
        """Keep what attempts print elsewhere than beside their results."""
        self.order["log"] = str(path)

    def attempt(self, **more: Any) -> dict[str, Any]:
        """Start the run, and return what became of it."""
        assert self.forker.stdin is not None
        assert self.forker.stdout is not None
        self.forker.stdin.write(json.dumps(self.order | more) + "\n")
        self.forker.stdin.flush()
        told: dict[str, Any] = json.loads(self.forker.stdout.readline())
        return told

    def kill(self, after: int) -> int:
        """Kill an attempt with SIGKILL, once so many pieces of work are on the disk."""
        told = self.attempt(kill_after=after)
        assert told["killed"], told["log"]
        return int(told["finished"])

    def resume(self) -> Any:
        """Run to the end, and return the result."""
        told = self.attempt()
        assert told["error"] is None, told["log"]
        return KINDS[self.order["kind"]].result(self.out)

    def refuse(self, **more: Any) -> str:
        """Return the line with which an attempt is refused, as 'Kind: message'."""
        told = self.attempt(**more)
        assert told["error"], told["log"]
        return str(told["error"])
