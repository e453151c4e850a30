"""`make torture`: kill every kind of run a hundred times in all, and compare with unbroken runs.

The moments are random. Beside the kills, the last record is torn in some places, the disk is full (a tmpfs
of the script's own where it may mount one, otherwise a limit on the size of files), and the model is gone
when a run is resumed. What was on the disk before an attempt must be there after it, no record twice, and
the result the same to the byte. What was done is written to OUT as JSON; the exit code is 1 if anything was
lost, doubled or different.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
sys.path.append(str(TESTS.parent / "recipes"))
sys.path[:0] = [str(TESTS / part) for part in ("runs", "training", "evaluation", "")]
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from attempts import Runs, started_forker  # noqa: E402
from kinds import KINDS, prepare  # noqa: E402
from reliability import RESULTS, keep  # noqa: E402

from tiny import save_tiny  # noqa: E402

FULL, ROOM = "the disk is full", "the checkpoints need about"  # a training run asks for room beforehand
TORN_ONE_IN = 3
"""After one kill in so many, the last record is torn."""


class Torture:
    """One kind of run, tortured."""

    def __init__(self, forker: subprocess.Popen[str], name: str, work: Path, drawn: random.Random) -> None:
        self.name, self.kind, self.drawn, self.work = name, KINDS[name], drawn, work
        self.forker, self.model = forker, work / "model"
        self.count: Counter[str] = Counter(dict.fromkeys(("kills", "torn", "lost", "twice", "different"), 0))
        self._places = 0
        self.unbroken = self.fresh().resume()
        start = time.perf_counter()
        self.count["different"] += self.fresh().resume() != self.unbroken  # and how long, once all is warm
        self.seconds = time.perf_counter() - start

    def fresh(self, root: Path | None = None) -> Runs:
        """A run that has not begun."""
        self._places += 1
        place = (root or self.work) / f"{self.name.replace(' ', '-')}-{self._places}" / self.kind.place
        place.parent.mkdir(parents=True)
        runs = Runs(self.forker, self.name, self.work / "home", str(self.model), place)
        runs.log_to(self.work / "log.txt")
        return runs

    def lines(self, runs: Runs) -> list[bytes]:
        """The whole records that are on the disk."""
        path = self.kind.records(runs.out) if self.kind.records else None
        if path is None or not path.exists():
            return []
        return [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]

    def compare(self, runs: Runs, before: list[bytes]) -> None:
        """Count what an attempt has lost or doubled."""
        if self.name == "embed" and runs.out.exists():  # finished: its records are gone
            return
        after = self.lines(runs)
        self.count["lost"] += sum(one != other for one, other in zip(before, after, strict=False))
        self.count["lost"] += max(0, len(before) - len(after))
        keys = [json.loads(line)["key"] for line in after]
        self.count["twice"] += len(keys) - len(set(keys))

    def finish(self, runs: Runs) -> None:
        """Resume to the end, and compare the result with that of the unbroken run."""
        before = self.lines(runs)
        done = self.name == "embed" and runs.out.exists()  # what is finished is not written over
        self.count["different"] += (self.kind.result(runs.out) if done else runs.resume()) != self.unbroken
        self.compare(runs, before)
        shutil.rmtree(runs.out.parent)

    def kill(self, kills: int) -> None:
        """Kill so many times, each at a random moment of the time that a whole run takes."""
        runs = self.fresh()
        while self.count["kills"] < kills:
            before = self.lines(runs)
            told = runs.attempt(kill_seconds=self.drawn.uniform(0, 0.8 * self.seconds))
            finished = self.name == "embed" and runs.out.exists()
            if not told["killed"] or finished:
                assert told["killed"] or told["error"] is None, told["log"]
                self.count["kills"] += told["killed"]
                self.compare(runs, before)
                self.finish(runs)
                runs = self.fresh()
                continue
            self.count["kills"] += 1
            self.compare(runs, before)
            if self.drawn.randrange(TORN_ONE_IN) == 0:
                self.tear(runs)
        self.finish(runs)

    def tear(self, runs: Runs) -> None:
        """Cut the last record short, as a machine that loses power does."""
        if self.kind.records is None:
            states = sorted(runs.out.glob("checkpoint-*/trainer_state.json"))
            path = states[-1] if states else None
        else:
            path = self.kind.records(runs.out)
        if path is None or not path.exists() or (self.kind.records and len(self.lines(runs)) < 2):
            return
        whole = path.read_bytes()
        last = len(whole.splitlines()[-1]) if self.kind.records else len(whole)
        os.truncate(path, len(whole) - self.drawn.randint(1, max(1, last - 1)))
        self.count["torn"] += 1

    def fill_disk(self) -> str:
        """Run on a full disk: one line, and the run resumes when there is room."""
        with small_disk(self.work) as disk:
            runs = self.fresh(disk)
            if disk is None:
                told = runs.refuse(largest_file=self.kind.largest_file)
            else:
                ballast = disk / "ballast"
                room = shutil.disk_usage(disk).free
                ballast.write_bytes(b"x" * max(0, room - self.kind.largest_file))
                told = runs.refuse()
                ballast.unlink()
            assert told.startswith("RunError"), told
            assert FULL in told or ROOM in told, told
            self.count["full disks"] += 1
            self.finish(runs)
            return "tmpfs" if disk else "limit on the size of files"

    def remove_model(self) -> None:
        """Kill a run and take its model away: it is refused in one line, and resumes with the model."""
        runs = self.fresh()
        runs.attempt(kill_seconds=self.drawn.uniform(0.3, 0.8) * self.seconds)
        before, away = self.lines(runs), self.model.with_name("away")
        self.model.rename(away)
        try:
            told = runs.attempt()
        finally:
            away.rename(self.model)
        if told["error"] is not None:  # a run that was done needs no model
            assert told["error"].startswith(("UsageError", "RunError")), told
            self.compare(runs, before)
        self.count["models removed"] += 1
        self.finish(runs)


@contextlib.contextmanager
def small_disk(work: Path) -> Iterator[Path | None]:
    """Mount a tmpfs of 16 MB; None where that is not allowed."""
    disk = work / "disk"
    disk.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(disk)]
    mounted = (
        sys.platform == "linux" and subprocess.run(mount, capture_output=True, check=False).returncode == 0
    )
    try:
        yield disk if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(disk)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=100, help="in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    rows: dict[str, dict[str, Any]] = {}
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as directory, started_forker() as forker:
        work = Path(directory)
        prepare(work / "home")
        save_tiny("bert", work / "model")
        for number, name in enumerate(given.kinds):
            run = Torture(forker, name, work, random.Random(f"{given.seed} {name}"))
            share = given.kills // len(given.kinds) + (number < given.kills % len(given.kinds))
            run.kill(share)
            disk = run.fill_disk()
            run.remove_model()
            rows[name] = dict(run.count) | {"disk": disk, "unbroken_seconds": round(run.seconds, 2)}
            print(f"{name:18} {json.dumps(rows[name])}", flush=True)
    totals = {
        name: sum(row[name] for row in rows.values())
        for name in ("kills", "torn", "lost", "twice", "different")
    }
    told = {
        "seconds": round(time.perf_counter() - start),
        **totals,
        "kinds": rows,
    }
    keep("torture", told, given.out)
    print(json.dumps(totals))
    sys.exit(1 if totals["lost"] or totals["twice"] or totals["different"] else 0)


if __name__ == "__main__":
    main()
