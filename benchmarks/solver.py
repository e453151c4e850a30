"""The Arnold-Gokhale solver on a text's exact tables, against the published rounds and the memory's pace.

- Solved until no log x or log y moves by more than 1e-4 from one sweep to the next, against 40 rounds of the
  published fixed point in plain torch (`published.arnold_gokhale`); beside each its A-KL.
- One sweep against reading both tables once: a compiled loop that adds up all their cells, on as many
  threads. Both by turns, the best of several.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np
import torch
from numba import njit

from exact_tables import TEXT, tables_of
from machine import by_turns, describe, parser, table
from published import ROUNDS, arnold_gokhale
from unmask import construct
from unmask.joints.arnold_gokhale import Problem, extrapolated_sweeps, starting_point
from unmask.joints.metrics import average_kl
from unmask.kernels.newman import sweep
from unmask.kernels.threads import over_rows
from unmask.tables.pair_conditionals import PairConditionals

CLOSE = 1e-4


@njit(nogil=True, fastmath={"reassoc"})
def read(p, r, start, stop):  # type: ignore[no-untyped-def]
    total = np.float32(0)
    for a in range(start, stop):
        for b in range(p.shape[1]):
            total += p[a, b] + r[a, b]
    return total


def sweep_until(conditionals: PairConditionals, close: float = CLOSE) -> int:
    """Sweep until nothing moves by more than `close`; returns the number of sweeps."""
    start = starting_point(conditionals)
    before = torch.cat(start)
    for sweeps, reached in extrapolated_sweeps(Problem(conditionals), *start):
        here = torch.cat([reached.log_x, reached.log_y])
        if float((here - before).abs().max()) < close:
            return sweeps
        before = here
    raise AssertionError("sweeps never end by themselves")


def measure(
    text: str = TEXT, model: str = "english", rounds: int = ROUNDS, repeats: int = 9
) -> dict[str, Any]:
    """Time the solver, the published rounds, one sweep and one reading; `rounds` fewer than 40 are scaled."""
    conditionals = tables_of(text, model)
    p, r = conditionals.a_table, conditionals.b_table
    solving = by_turns({"solve": lambda: sweep_until(conditionals)}, 3)["solve"]
    start = time.perf_counter()
    arnold_gokhale(p, r, rounds)
    published = (time.perf_counter() - start) * ROUNDS / rounds
    x, y = starting_point(conditionals)
    size = len(x)
    passes = by_turns(
        {
            "sweep": partial(sweep, p.numpy(), r.numpy(), x, y),
            "read": lambda: over_rows(
                size, lambda begin, end, _: read(p.numpy(), r.numpy(), begin, end), lambda: None
            ),
        },
        repeats,
    )
    return {
        "tokens": size,
        "sweeps": sweep_until(conditionals),
        "solve_seconds": solving,
        "published_seconds": published,
        "ratio": published / solving,
        "a_kl": average_kl(construct("ag", conditionals)),
        "published_a_kl": average_kl(construct("ag-published", conditionals, rounds=ROUNDS)),
        "sweep_seconds": passes["sweep"],
        "read_seconds": passes["read"],
        "gigabytes_per_second": 2 * p.numel() * p.element_size() / passes["read"] / 1e9,
        "pass_ratio": passes["sweep"] / passes["read"],
    }


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--text", default=TEXT, help="two words in braces")
    options.add_argument("--model", default="english")
    options.add_argument(
        "--rounds", type=int, default=ROUNDS, help="published rounds to time; fewer are scaled"
    )
    options.add_argument("--repeats", type=int, default=9, help="of a sweep and a reading")
    print(f"## The Arnold-Gokhale solver\n\n{describe()}\n")
    found = measure(**vars(options.parse_args()))
    solved = f"{found['solve_seconds']:.2f} s, {found['sweeps']} sweeps, A-KL {found['a_kl']:.5f}"
    rounds = f"{found['published_seconds']:.1f} s, {ROUNDS} rounds, A-KL {found['published_a_kl']:.5f}"
    speed = f"{1000 * found['read_seconds']:.0f} ms, {found['gigabytes_per_second']:.1f} GB/s"
    rows = [
        ("solved until nothing moves by 1e-4", solved, rounds, f"{found['ratio']:.0f}×", "≥ 50×"),
        (
            "one sweep, against reading both tables once",
            f"{1000 * found['sweep_seconds']:.0f} ms",
            speed,
            f"{found['pass_ratio']:.2f}",
            "≤ 1.6",
        ),
    ]
    print(table(("what", "unmask", "baseline", "ratio", "target"), rows))
    print(f"\nExact tables of {found['tokens']:,} tokens; torch is {torch.__version__}.")


if __name__ == "__main__":
    main()
