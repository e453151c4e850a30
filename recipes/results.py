"""Every result of the project: what it is made by, what is stale, and whether the pages show it.

    python recipes/results.py --list             every result: its parts, date, weights, what is stale
    python recipes/results.py                    make what is stale (hours), one after the other
    python recipes/results.py --minutes 120      the same, but begin nothing that would end later
    python recipes/results.py --only table blimp make these if they are stale; --again even if not
    python recipes/results.py --pages            write every page again from the data that there are
    python recipes/results.py --check            fail if a page and its data differ, or the weights do

A result is stale if it was never made, or with other weights than the embedded ones. Results are made in the
order of the catalogue, what is cheap and important first, one part after the other. Each recipe resumes by
itself, so a killed `results.py` is started again. The numbers are in docs/figures/*.json, each file with what
it was made with (provenance.py); the pages take them from there alone. A place on a page whose numbers were
never made says so.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from catalogue import RESULTS, ROOT, Result
from pages import renew, renewed, shown
from provenance import ALL, MADE, digests, read, stamp, why_stale
from provenance import shown as stamp_shown


class Stale(NamedTuple):
    """A part of a result that has to be made, and why."""

    part: str
    reason: str


def stale_parts(result: Result, now: dict[str, str]) -> list[Stale]:
    """Return the parts of a result that are not of these weights."""
    if not result.weights:
        return []
    path = data_of(result)
    if not path.exists():
        return [Stale(part, "never made") for part in result.minutes]
    found = read(path)
    wanted = now if result.pair_head else {k: v for k, v in now.items() if k != "pair_head"}
    made = found.get(MADE, {})
    reasons = {
        part: why_stale(made.get(part), wanted) if part in (*found, ALL) else "never made"
        for part in result.minutes
    }
    return [Stale(part, reason) for part, reason in reasons.items() if reason is not None]


def data_of(result: Result) -> Path:
    """Return the file of a result's numbers."""
    return ROOT / "docs" / "figures" / result.json


def page_differences(result: Result) -> Iterator[str]:
    """Go through the places where a page and the data of a result differ, one line each."""
    found = read(data_of(result))
    if result.document is not None and found:
        place = ROOT / result.document
        if not place.exists() or place.read_text(encoding="utf-8") != module_of(result).document(found):
            yield f"{result.document} is not what {result.json} makes of it"
    if result.mark is None:
        return
    numbers = tables_of(result, found)
    seen = set()
    for page in result.pages:
        place = ROOT / page
        text = place.read_text(encoding="utf-8") if place.exists() else ""
        tables = numbers | not_yet(result, text, numbers)
        places = dict(shown(text, result.mark))
        fresh = dict(shown(renewed(text, result.mark, tables), result.mark))
        seen |= set(places)
        for name, there in places.items():
            if there != fresh[name] and name in numbers:
                yield f"{page}: '{name}' differs from {result.json}"
            elif there != fresh[name]:
                yield f"{page}: '{name}' has no numbers in {result.json}, and the page does not say so"
    for name in sorted(numbers.keys() - seen) if result.all_shown else ():
        yield f"{result.json}: '{name}' is shown on no page ({', '.join(result.pages)})"


def write_pages(result: Result) -> None:
    """Write a result's tables into its pages, and its document."""
    found = read(data_of(result))
    if result.document is not None and found:
        (ROOT / result.document).write_text(module_of(result).document(found), encoding="utf-8")
    for page in result.pages if result.mark else ():
        text = (ROOT / page).read_text(encoding="utf-8")
        tables = tables_of(result, found)
        renew(ROOT / page, str(result.mark), tables | not_yet(result, text, tables))


def not_yet(result: Result, text: str, tables: Mapping[str, str]) -> dict[str, str]:
    """Return a sentence for the first of a page's places without numbers, and nothing for the others."""
    without = [name for name, _ in shown(text, str(result.mark)) if name not in tables]
    others = [other.name for other in RESULTS if other.json == result.json]
    names = " ".join(dict.fromkeys([*others, result.name]))
    told = f"*Not measured yet: `python recipes/results.py --only {names}` does it and fills this place.*"
    return dict.fromkeys(without, "") | dict.fromkeys(without[:1], told)


def tables_of(result: Result, found: dict[str, Any]) -> dict[str, str]:
    """Return the tables that a recipe makes of its data."""
    numbers = {name: value for name, value in found.items() if name != MADE}
    return dict(module_of(result).tables(found)) if numbers else {}


def module_of(result: Result) -> ModuleType:
    """Load the file that makes a result's tables; some of these are called alike."""
    return _loaded(ROOT / result.tables)


@cache
def _loaded(path: Path) -> ModuleType:
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    spec = importlib.util.spec_from_file_location(f"made_by_{path.parent.name}_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def command_of(result: Result, parts: Sequence[str], data: Path, work: Path) -> list[str]:
    """Return the command that makes some parts of a result."""
    found = [sys.executable]
    for word in result.command:
        found += list(parts) if word == "{parts}" else [word.format(data=data, work=work)]
    return found


def make(result: Result, parts: Sequence[str], data: Path, work: Path) -> bool:
    """Make some parts of a result, its figures and its pages; returns whether all of it went well."""
    commands = [command_of(result, parts, data, work)]
    commands += [[sys.executable, script] for script in result.figures]
    for command in commands:
        print("$ python", *command[1:], flush=True)
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
        if code:
            print(f"{result.name}: failed with exit code {code}; the same command resumes it", flush=True)
            return False
    write_pages(result)
    return True


def listing(results: Sequence[Result], now: dict[str, str]) -> Iterator[str]:
    """Go through the lines of --list."""
    for result in results:
        stale = dict(stale_parts(result, now))
        minutes = sum(result.minutes[part] for part in stale)
        state = f"stale, about {_time(minutes)}" if stale else "fresh" if result.weights else "of no weights"
        yield f"{result.name}: {state}"
        yield f"  python {' '.join(result.command)}"
        pages = [*result.pages, *([result.document] if result.document else [])]
        yield f"  docs/figures/{result.json} -> {', '.join(pages)}"
        made = read(data_of(result)).get(MADE, {})
        for part in result.minutes if result.weights else ():
            name = "" if part == ALL else f"{part}: "
            why = f"; {stale[part]}" if part in stale else ""
            yield f"  {name}{stamp_shown(made.get(part))}{why}"


def check(results: Sequence[Result], now: dict[str, str]) -> list[str]:
    """Return all that is wrong, one line each: pages that differ from their data, and other weights."""
    found = [line for result in results for line in page_differences(result)]
    for result in results:
        for part, reason in stale_parts(result, now):
            found.append(f"{result.json}{'' if part == ALL else f', {part}'}: {reason}")
    return list(dict.fromkeys(found))  # results that share a file share its pages


def _time(minutes: float) -> str:
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"


def main() -> int:
    """Do what the command line asks for."""
    names = [result.name for result in RESULTS]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "results", help="where the runs go")
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME", help=str(names))
    parser.add_argument("--again", action="store_true", help="make what is fresh, too")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin nothing that ends after them")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="every result, and what is stale")
    what.add_argument("--pages", action="store_true", help="write every page again from its data")
    what.add_argument("--check", action="store_true", help="exit with 1 if a page or the weights differ")
    options = parser.parse_args()
    chosen = [result for result in RESULTS if result.name in options.only]
    now = stamp(pair_head=True)
    if options.list:
        print("\n".join(listing(chosen, now)))
        return 0
    if options.pages:
        for result in chosen:
            write_pages(result)
        return 0
    if options.check:
        wrong = check(chosen, now)
        print("\n".join(wrong) or "the pages show their data, made with the embedded weights")
        return 1 if wrong else 0
    todo = {}
    for result in (r for r in chosen if r.weights):
        parts = list(result.minutes) if options.again else [s.part for s in stale_parts(result, now)]
        if parts:
            todo[result] = parts
    for result, parts in todo.items():
        print(f"{result.name}: {', '.join(parts)}, about {_time(sum(result.minutes[p] for p in parts))}")
    total = sum(result.minutes[part] for result, parts in todo.items() for part in parts)
    print(f"{len(todo)} of {len(chosen)} results are to be made, about {_time(total)} on two idle cores")
    # runs of other weights are refused by their directories, so each pair of digests has its own
    work = options.work / "-".join(digest[:8] for digest in digests().values())
    work.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * options.minutes
    return 0 if make_all(todo, options.data.resolve(), work, end) else 1


def make_all(todo: Mapping[Result, Sequence[str]], data: Path, work: Path, end: float) -> bool:
    """Make parts one by one, those that can be done by `end` of `time.monotonic`; whether all were made."""
    well = True
    for result, parts in todo.items():
        for part in parts:
            left = (end - time.monotonic()) / 60
            if result.minutes[part] > left:
                print(f"{result.name}, {part}: left for another time ({_time(max(0.0, left))} left)")
                well = False
            elif not make(result, [part], data, work):
                well = False
    return well


if __name__ == "__main__":
    sys.exit(main())
