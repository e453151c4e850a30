"""Run the fuzz suite with fresh cases, 2,000 per seed, until there are as many as wanted (`make fuzz`).

Each seed is a process of its own, whose tally is kept in WORK: a campaign that is stopped resumes where it
was. At the end the tallies are summed into OUT, and docs/background/reliability.md is renewed. The exit code
is 1 if a call ended in somebody else's exception, said more than one line, or hung.
"""

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.append(str(ROOT / "recipes"))

from reliability import RESULTS, keep  # noqa: E402


def run_seed(seed: int, work: Path) -> dict[str, Any]:
    """Run the suite with a seed, unless that was done before, and return its tally."""
    path = work / f"seed-{seed}.json"
    if not path.exists():
        fresh = work / "unfinished.json"
        command = [sys.executable, "-m", "pytest", str(HERE), f"--hypothesis-seed={seed}", "-p", "no:xdist"]
        command += [
            "--hypothesis-profile=fuzz",
            "-o",
            "addopts=",
            "-q",
            "-p",
            "no:cacheprovider",
            "--timeout=3600",
        ]
        command += ["-p", "no:schemathesis", "--import-mode=importlib", "--basetemp", str(work / "tmp")]
        environment = os.environ | {"UNMASK_FUZZ_TALLY": str(fresh), "OMP_NUM_THREADS": "1"}
        ended = subprocess.run(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False
        )
        if ended.returncode:
            sys.exit(f"the suite itself failed with seed {seed}:\n{ended.stdout[-4000:]}")
        fresh.rename(path)
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def summed(tallies: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the tallies of all seeds as one, by surface."""
    answers, refusals = Counter[str](), Counter[str]()
    slowest: dict[str, tuple[float, str]] = {}
    finds: dict[str, Any] = {}
    for tally in tallies:
        answers.update(tally["answers"])
        refusals.update(tally["refusals"])
        finds |= tally["finds"]
        for surface, (seconds, what) in tally["slowest"].items():
            slowest[surface] = max(slowest.get(surface, (0.0, "")), (seconds, what))
    surfaces = {
        name: {
            "answers": answers[name],
            "refusals": refusals[name],
            "slowest_seconds": round(slowest[name][0], 2),
        }
        for name in sorted(slowest)
    }
    return {
        "cases": sum(answers.values()) + sum(refusals.values()) + len(finds),
        "answers": sum(answers.values()),
        "refusals": sum(refusals.values()),
        "finds": len(finds),
        "slowest_seconds": round(max(seconds for seconds, _ in slowest.values()), 2),
        "surfaces": surfaces,
        "found": finds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=50_000)
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "fuzz")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    tallies: list[dict[str, Any]] = []
    while not tallies or summed(tallies)["cases"] < given.cases:
        tallies.append(run_seed(len(tallies) + 1, given.work))
        total = summed(tallies)
        print(
            f"{total['cases']:,} cases, {total['finds']} finds, slowest {total['slowest_seconds']} s",
            flush=True,
        )
    print("\nsurface           answers  refusals  slowest")
    for name, row in total["surfaces"].items():
        print(f"{name:16} {row['answers']:8,} {row['refusals']:9,} {row['slowest_seconds']:7.2f} s")
    for name, find in total["found"].items():
        print(f"\n{name}\n  {find['case']}\n{find['trace']}")
    keep("fuzz", total, given.out)
    sys.exit(1 if total["finds"] else 0)


if __name__ == "__main__":
    main()
