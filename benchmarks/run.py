"""`make bench`: every benchmark in turn, each a process of its own, into benchmarks/RESULTS.md.

Each prints a section: its baseline, its ratios, and the target where there is one. The short ones run by
default; `--long` adds those that take from minutes to hours, of which `cross` and `growth` go on where they
were stopped.

    python benchmarks/run.py [--long --data ../shared/data] [--only solver fill]
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from machine import parser

HERE = Path(__file__).parent
SHORT = {
    "startup": ["startup.py"],
    "fill": ["fill.py"],
    "forward": ["forward.py"],
    "solver": ["solver.py"],
    "exact-pair": ["exact_pair.py"],
    "memory": ["memory.py"],
    "scoring": ["scoring.py"],
    "training": ["training.py"],
}
SNLI = ("--data", "{data}/snli/dev.tsv")
LONG = {
    "cross": ["cross.py", *SNLI, "--pairs", "50"],
    "blocks": ["blocks.py", *SNLI],
    "wide-exact": ["wide_exact.py"],
    "cross-wide": [
        "cross.py",
        "--data",
        "{data}/snli/dev.tsv",
        "--pairs",
        "3",
        "--timed",
        "3",
        "--model",
        "wide",
    ],
    "growth": ["growth.py"],
}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--long", action="store_true", help="also those that take from minutes to hours")
    options.add_argument("--data", default="../shared/data", help="the directory that holds snli/dev.tsv")
    options.add_argument(
        "--only", nargs="+", choices=[*SHORT, *LONG], help="these alone; results are printed"
    )
    given = options.parse_args()
    chosen = SHORT | (LONG if given.long else {})
    if given.only:
        chosen = {name: (SHORT | LONG)[name] for name in given.only}
    sections = ["# Benchmarks: what `make bench` printed last\n"]
    for script, *arguments in chosen.values():
        if not (HERE / script).exists():
            continue
        start = time.perf_counter()
        command = [sys.executable, str(HERE / script), *(one.format(data=given.data) for one in arguments)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        taken = (
            f"`{' '.join([f'python benchmarks/{script}', *arguments])}`: {time.perf_counter() - start:.0f} s"
        )
        failed = f"\nfailed with exit code {done.returncode}\n" if done.returncode else ""
        sections.append(f"{done.stdout.strip()}\n{failed}\n{taken.format(data=given.data)}\n")
        print(sections[-1], flush=True)
        if not given.only:
            (HERE / "RESULTS.md").write_text("\n".join(sections), encoding="utf-8")


if __name__ == "__main__":
    main()
