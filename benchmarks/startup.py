"""How long a user waits: `unmask --help`, and a cold `unmask fill`.

Each command runs in a fresh process, several times; the table shows the median, beside the bare interpreter
and the bare imports of torch and transformers in the same run, which no command with a model can beat.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

from machine import describe, table

TEXT = "The [MASK] [MASK] at the casino."
UNMASK = str(Path(sys.executable).parent / "unmask")


def seconds(command: list[str], runs: int) -> float:
    times = []
    for _ in range(runs + 1):  # the first one warms the file cache and compiles
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="english", help="the model that the cold commands use")
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    model = ["--model", given.model]
    rows = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "import torch, transformers.AutoModelForMaskedLM": [
            sys.executable,
            "-c",
            "import torch; from transformers import AutoModelForMaskedLM, AutoTokenizer",
        ],
        "unmask --help": [UNMASK, "--help"],
        "unmask fill, one blank": [UNMASK, "fill", "The [MASK] is here.", *model],
        "unmask fill, two blanks, 64 candidates": [UNMASK, "fill", TEXT, "--candidates", "64", *model],
        "unmask fill, two blanks, default": [UNMASK, "fill", TEXT, *model],
    }
    times = {name: seconds(command, given.runs) for name, command in rows.items()}
    base = times["import torch, transformers.AutoModelForMaskedLM"]
    print("## How long a user waits\n")
    print(f"{describe()}; model {given.model}, median of {given.runs}\n")
    lines = [(name, f"{taken:.2f}", f"{taken / base:.2f}") for name, taken in times.items()]
    print(table(("command", "seconds", "against the bare imports"), lines))


if __name__ == "__main__":
    main()
