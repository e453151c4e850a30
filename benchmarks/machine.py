"""What every benchmark shares: the machine's name, timing by turns, and peak memory in its own process."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

TEXT = "The {man} {is} playing in the park."
"""The pair of blanks that is timed wherever one will do."""
BUILD = Path(__file__).parents[1] / "build" / "bench"
"""Where benchmarks keep models, tables and unfinished measurements; never committed."""


def describe() -> str:
    """Return what ran the benchmark, and how busy it was with other things."""
    cpu = platform.processor() or platform.machine()
    names = [line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    busy = f", load before the run {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return (
        f"{names[0] if names else cpu}, {os.cpu_count()} cores, {torch.get_num_threads()} threads, "
        f"Python {platform.python_version()}, torch {torch.__version__}{busy}"
    )


def hugging_face(model: str, **options: Any) -> Any:
    """Load a model as Hugging Face's library runs it, untouched: what unmask is compared with."""
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    import unmask
    from unmask.models.embedded import locate

    place = locate(model)
    module = AutoModelForMaskedLM.from_pretrained(place, dtype=torch.float32)
    return unmask.load(module, AutoTokenizer.from_pretrained(place), **options)


def by_turns(works: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the best time of each, in seconds; they take turns, so that what else runs weighs on none.

    Each has run once before, for its caches and its compiler.
    """
    best = dict.fromkeys(works, float("inf"))
    for turn in range(repeats + 1):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            if turn:
                best[name] = min(best[name], time.perf_counter() - start)
    return best


def resident() -> int:
    """Return the bytes of memory that this process holds."""
    for line in _lines("/proc/self/status"):
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class Peak:
    """The most memory held inside a `with` block, beyond what was held at its beginning, in bytes."""

    def __enter__(self) -> Peak:
        with suppress(OSError):  # elsewhere than on Linux the peak before the block counts too
            Path("/proc/self/clear_refs").write_text("5")  # forget the peak of the time before
        self._before = resident()
        self.bytes = 0
        return self

    def __exit__(self, *_: object) -> None:
        peaks = [int(line.split()[1]) * 1024 for line in _lines("/proc/self/status") if "VmHWM" in line]
        self.bytes = (peaks or [resident()])[0] - self._before


def in_own_process(script: str, *arguments: str) -> dict[str, Any]:
    """Run a benchmark's script by itself and return the JSON object that it prints last."""
    command = [sys.executable, str(Path(__file__).parent / script), *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def parser(about: str | None) -> argparse.ArgumentParser:
    """Return a parser of a benchmark's options that shows the module's own words."""
    return argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
