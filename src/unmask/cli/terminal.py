"""What the commands print: tables and progress for people, JSON for machines.

Results go to standard output; progress and notes to standard error, and progress only if that is a terminal.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Collection
from typing import Any

from unmask.progress import Progress

RATE_OVER = 300.0
"""Seconds over which the rate is taken: long enough for work that takes a minute a unit."""
TICK = 30.0
"""Seconds between two lines of progress where there is no terminal."""


def rate(speed: float) -> str:
    """Write a rate for people: per second, or per minute where that is less than one."""
    return f"{speed:.0f}/s" if speed >= 10 else f"{speed:.1f}/s" if speed >= 1 else f"{60 * speed:.1f}/min"


class Bar(Progress):
    """Draws a bar with a rate and the time left on standard error, for stages of more than a second."""

    def __init__(self) -> None:
        self._bar: Any = None

    def started(self, stage: str, total: int) -> None:
        """Begin a stage; nothing is drawn where nobody looks."""
        if not sys.stderr.isatty():
            return
        from rich import progress as rich
        from rich.console import Console

        columns = [rich.SpinnerColumn(), rich.TextColumn("{task.description}")]
        if total:
            columns += [rich.BarColumn(), rich.MofNCompleteColumn()]
            columns += [rich.TextColumn("{task.fields[rate]}"), rich.TimeRemainingColumn()]
        self._bar = rich.Progress(
            *columns, console=Console(stderr=True), transient=True, speed_estimate_period=RATE_OVER
        )
        self._bar.start()
        self._task = self._bar.add_task(stage, total=total or None, rate="")

    def advanced(self, units: int) -> None:
        """Move the bar on."""
        if self._bar is not None:
            speed = self._bar.tasks[self._task].speed
            self._bar.update(self._task, advance=units, rate=rate(speed) if speed else "")

    def finished(self) -> None:
        """Wipe the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


class Ticker(Bar):
    """A bar on a terminal; elsewhere a line every half minute, for the log of work that takes hours."""

    def __init__(self, unit: str, tick: float = TICK, *, closing: bool = True) -> None:
        """`closing` tells the end of quick work too."""
        super().__init__()
        self._unit, self._tick, self._closing = unit, tick, closing
        self._total = self._done = 0

    def started(self, stage: str, total: int) -> None:
        """Begin a stage."""
        self._total, self._done = total, 0
        self._begun = self._told = time.monotonic()
        super().started(stage, total)

    def resumed(self, done: int, total: int, torn: bool) -> None:
        """Say how much of the work was done before; nothing for finished quick work."""
        if done == total and not (torn or self._closing):
            return
        again = "; the last one was cut off and is done anew" if torn else ""
        sys.stderr.write(f"resuming: {done} of {total} {self._unit} are done{again}\n")

    def advanced(self, units: int) -> None:
        """Move the bar on, or say how far the work is."""
        self._done += units
        now = time.monotonic()
        over = self._done == self._total and (self._closing or now - self._begun >= self._tick)
        if self._bar is None and (now - self._told >= self._tick or over):
            self._told = now
            speed = self._done / max(now - self._begun, 1e-9)
            left = (self._total - self._done) / speed
            line = f"{self._done}/{self._total} {self._unit}, {rate(speed)}, {duration(left)} left"
            sys.stderr.write(line + "\n")
            sys.stderr.flush()
        super().advanced(units)


def duration(seconds: float) -> str:
    """Write a stretch of time for people."""
    whole = round(seconds)
    if whole < 90:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 5400 else f"{whole / 3600:.1f} h"


def print_json(answer: dict[str, Any]) -> None:
    """Print one JSON object and nothing else."""
    plain = "utf" not in (sys.stdout.encoding or "").lower()
    sys.stdout.write(json.dumps(answer, ensure_ascii=plain, allow_nan=False) + "\n")


def present(answer: dict[str, Any], as_json: bool, show: Callable[[dict[str, Any]], None]) -> None:
    """Print an answer: as JSON, or its notes and what `show` makes of it."""
    if as_json:
        print_json(answer)
        return
    tell(answer.get("notes", []))
    show(answer)


def print_table(title: str, columns: list[str], rows: list[list[str]], numbers: Collection[int] = ()) -> None:
    """Print a table; the columns in `numbers` are aligned to the right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # as Text: in a plain string the [MASK] of a user would be taken for rich's own markup
    table = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console(highlight=False, width=None if sys.stdout.isatty() else 120).print(table)


def say(line: str) -> None:
    """Print a line of text."""
    sys.stdout.write(line + "\n")


def tell(notes: list[str]) -> None:
    """Tell the user something beside the result, on standard error."""
    for note in notes:
        sys.stderr.write(f"note: {note}\n")


def speaks() -> bool:
    """Tell whether this process is the one that talks, of those that train together."""
    from accelerate import PartialState

    return bool(PartialState().is_main_process)


def percent(log_prob: float) -> str:
    """Write a probability for people."""
    p = 100 * math.exp(log_prob)
    return f"{p:.2f} %" if p >= 0.01 else f"{p:.1e} %"


def basis(answer: dict[str, Any]) -> str:
    """Say in one line what an answer rests on."""
    how = f"{answer['passes']:,} forward pass{'es' if answer['passes'] > 1 else ''}"
    if answer.get("partial_passes"):
        how = f"the work of {how}"
    if answer["conditionals"] == "cross":
        asked = f"{answer['candidates']} candidates per blank, {answer['completion']} completion"
        how = f"{asked if answer['candidates'] else 'by the pair head'}, {how}"
        if answer["estimated_error"] is not None and answer.get("method", "ag").startswith("ag"):
            how += f", log-probabilities typically off by {answer['estimated_error']:.2g} nats"
    tokens = " and ".join(f"{size:,}" for size in dict.fromkeys(answer["support_sizes"]))
    outside = max(answer["mass_outside_support"])
    cut = f" (the likeliest; the others hold {100 * outside:.2g} % of the mass)" if outside else ""
    if not answer.get("solver", {}).get("converged", True):
        how += "; the solver has NOT converged"
    return f"{answer['model']}: {tokens} tokens per blank{cut}; {how}"
