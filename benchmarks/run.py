"""`make bench`: every benchmark in turn, each a process of its own.

Each prints a section: its baseline, its ratios, and the target where there is one. What it printed goes, with
the date and the weights, to docs/figures/benchmarks.json; benchmarks/RESULTS.md and the tables of the pages
are made of that file. The short ones run by default; `--long` adds those that take from minutes to hours, of
which `cross` and `growth` go on where they were stopped.

    python benchmarks/run.py [--long --data ../shared/data] [--only solver fill]
    python benchmarks/run.py --tables                        rewrite RESULTS.md and the pages only
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from machine import parser

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "recipes"))

from catalogue import BENCHMARKS  # noqa: E402
from pages import renew  # noqa: E402
from provenance import MADE, read, shown, stamp, write  # noqa: E402

RESULTS = HERE.parent / "docs" / "figures" / "benchmarks.json"
PAGES = [HERE.parent / page for page in BENCHMARKS["pages"]]
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
SNLI, XSUM = "{data}/snli/dev.tsv", "{data}/xsum/summaries.txt"
LONG = {
    "cross": ["cross.py", "--data", SNLI, "--pairs", "50"],
    "blocks": ["blocks.py", "--data", SNLI],
    "wide-exact": ["wide_exact.py"],
    "cross-wide": ["cross.py", "--data", SNLI, "--pairs", "3", "--timed", "3", "--model", "wide"],
    "pair-head": ["pair_head.py", "--data", f"snli={SNLI}", "--data", f"xsum={XSUM}", "--count", "200"],
    "growth": ["growth.py"],
    "load": ["load.py"],
}
EVERY = SHORT | LONG


def measure(name: str, data: str) -> dict[str, Any]:
    """Run a benchmark and return what it printed, how long it took and its exit code."""
    script, *arguments = EVERY[name]
    start = time.perf_counter()
    command = [sys.executable, str(HERE / script), *(one.format(data=data) for one in arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return {
        "section": done.stdout.strip(),
        "command": " ".join([f"python benchmarks/{script}", *arguments]).format(data="DATA"),
        "seconds": round(time.perf_counter() - start),
        "exit_code": done.returncode,
    }


def document(found: dict[str, Any]) -> str:
    """Return benchmarks/RESULTS.md: every section, with its command, date and weights."""
    sections = [
        "# Benchmarks",
        "Printed by the command under each section; DATA is the directory of the data. `make bench` makes "
        "the short ones again, `make bench LONG=1` all of them, `python recipes/results.py` those that were "
        "made with other weights than the embedded ones.",
    ]
    for name in (name for name in EVERY if name in found):
        sections += [found[name]["section"], _source(found, name)]
    return "\n\n".join(sections) + "\n"


def tables(found: dict[str, Any]) -> dict[str, str]:
    """Return what the pages show: each section without its heading, and where it comes from."""
    bodies = {name: found[name]["section"].partition("\n")[2].strip() for name in EVERY if name in found}
    return {name: f"{body}\n\n{_source(found, name)}" for name, body in bodies.items()}


def _source(found: dict[str, Any], name: str) -> str:
    one = found[name]
    failed = f"; failed with exit code {one['exit_code']}" if one["exit_code"] else ""
    took = "" if one["seconds"] is None else f", {one['seconds']} s"
    return f"`{one['command']}`: {shown(found.get(MADE, {}).get(name))}{took}{failed}"


def write_pages(found: dict[str, Any]) -> None:
    """Write RESULTS.md and renew the tables of the pages."""
    (HERE / "RESULTS.md").write_text(document(found), encoding="utf-8")
    for page in PAGES:
        renew(page, "benchmarks", tables(found))


def main() -> int:
    """Run what is asked for."""
    options = parser(__doc__)
    options.add_argument("--long", action="store_true", help="also those that take from minutes to hours")
    options.add_argument("--data", default="../shared/data", help="the directory that holds snli/dev.tsv")
    options.add_argument("--only", nargs="+", choices=list(EVERY), help="these alone")
    options.add_argument("--tables", action="store_true", help="rewrite RESULTS.md and the pages only")
    given = options.parse_args()
    failed = 0
    for name in () if given.tables else given.only or (EVERY if given.long else SHORT):
        made = stamp(pair_head=True)
        one = measure(name, given.data)
        print(f"{one['section']}\n", flush=True)
        if one["exit_code"]:  # what was there stays
            print(f"{name} failed with exit code {one['exit_code']}", file=sys.stderr)
            failed = 1
            continue
        write_pages(write(RESULTS, read(RESULTS) | {name: one}, {name: made}))
    if given.tables:
        write_pages(read(RESULTS))
    return failed


if __name__ == "__main__":
    sys.exit(main())
