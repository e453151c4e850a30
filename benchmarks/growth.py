"""How the time of a pair grows: exact with the vocabulary, cross with the candidates and with the length.

Writes docs/figures/growth.json, from which `docs/figures/growth.py` draws. A run goes on where the last one
stopped, unless that was made with other weights (`--again` begins anew).
The vocabulary is that of the wide model (wide_model.py), cut to the likeliest tokens of each blank.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import unmask
from machine import TEXT, describe, parser, table
from unmask.inference.infer import conditionals
from unmask.inference.query import Query
from unmask.joints.registry import construct
from unmask.tables.pair_conditionals import PairConditionals
from unmask.text.cloze import Cloze, parse_braces
from wide_model import wide_model

sys.path.append(str(Path(__file__).parents[1] / "recipes"))

from provenance import ALL, MADE, read, stamp, why_stale, write

FOUND = Path(__file__).parents[1] / "docs" / "figures" / "growth.json"
WORDS = "with a dog and some friends of the old family who came from the town near a river"
VOCABULARIES = (4096, 8192, 16384, 30000)
CANDIDATES = (32, 64, 128, 256, 512, 1024)
LENGTHS = (8, 16, 32, 64, 128)


class ForwardTimer:
    """The seconds spent in a model's forward passes."""

    def __init__(self, mlm: unmask.MaskedLM) -> None:
        self.seconds = 0.0
        for name in ("states_at", "states_each", "filled_states"):
            setattr(mlm, name, self._timed(getattr(mlm, name)))
        self._inside = False

    def _timed(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **options: Any) -> Any:
            if self._inside:
                return work(*arguments, **options)
            self._inside, start = True, time.perf_counter()
            try:
                return work(*arguments, **options)
            finally:
                self.seconds += time.perf_counter() - start
                self._inside = False

        return timed


def pair(mlm: unmask.MaskedLM, timer: ForwardTimer, cloze: Cloze, **options: Any) -> dict[str, float]:
    """Return the seconds of a pair's forward passes, of its tables beyond them, and of `ag`."""
    timer.seconds, start = 0.0, time.perf_counter()
    made = conditionals(mlm, cloze, Query(**options))
    assert isinstance(made, PairConditionals)
    asked = time.perf_counter()
    joint = construct("ag", made)
    joint.log_prob(cloze.truth or ())
    end = time.perf_counter()
    return {
        "passes": made.diagnostics.passes,
        "forward": timer.seconds,
        "tables": asked - start - timer.seconds,
        "ag": end - asked,
        "sweeps": joint.diagnostics.solver.sweeps,
    }


def of_length(length: int, mlm: unmask.MaskedLM) -> Cloze:
    """Return a text of so many tokens with two blanks."""
    words: list[str] = []
    while True:
        cloze = parse_braces(" ".join(["The {man} {is} playing", *words, "."]), mlm.vocabulary, mlm.window)
        if len(cloze.ids) >= length:
            return cloze
        words.append(WORDS.split()[len(words) % len(WORDS.split())])


def measure(
    vocabularies: tuple[int, ...] = VOCABULARIES,
    candidates: tuple[int, ...] = CANDIDATES,
    lengths: tuple[int, ...] = LENGTHS,
    *,
    again: bool = False,
) -> dict[str, Any]:
    """Measure what is not measured yet, and return it all."""
    found: dict[str, Any] = {"exact": {}, "candidates": {}, "length": {}}
    kept, made = read(FOUND), stamp(pair_head=True)
    if not again and why_stale(kept.get(MADE, {}).get(ALL), made) is None:
        found = kept
    found["machine"] = describe()

    def keep(part: str, key: int, work: Callable[[], dict[str, float]]) -> None:
        if str(key) not in found[part]:
            found[part][str(key)] = work()
            write(FOUND, found, {ALL: made})

    mlm = unmask.load("english", device="cpu")
    timer, text = ForwardTimer(mlm), parse_braces(TEXT, mlm.vocabulary, mlm.window)
    pair(mlm, timer, text, candidates=32)  # compiles what is to be compiled
    for k in candidates:
        keep("candidates", k, lambda k=k: pair(mlm, timer, text, candidates=k))
    for length in lengths:
        keep("length", length, lambda n=length: pair(mlm, timer, of_length(n, mlm), candidates=256))
    mlm = unmask.load(wide_model(), device="cpu", memory="9GB")
    timer, text = ForwardTimer(mlm), parse_braces(TEXT, mlm.vocabulary, mlm.window)
    for size in vocabularies:
        keep("exact", size, lambda n=size: pair(mlm, timer, text, candidates="all", support=n))
    return found


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--vocabularies", type=int, nargs="*", default=VOCABULARIES)
    options.add_argument("--candidates", type=int, nargs="*", default=CANDIDATES)
    options.add_argument("--lengths", type=int, nargs="*", default=LENGTHS)
    options.add_argument("--again", action="store_true", help="begin anew")
    print(f"## Growth\n\n{describe()}\n")
    found = measure(**vars(options.parse_args()))
    names = {
        "exact": "exact, tokens",
        "candidates": "cross, candidates",
        "length": "cross, tokens in the text",
    }
    rows = [
        (names[part], f"{int(key):,}", *(f"{one[stage]:.2f}" for stage in ("forward", "tables", "ag")))
        for part in names
        for key, one in found[part].items()
    ]
    print(table(("what grows", "size", "forward, s", "tables, s", "`ag`, s"), rows))


if __name__ == "__main__":
    main()
