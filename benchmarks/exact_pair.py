"""A whole exact pair, all constructions and all metrics, against the published procedure.

Each runs in a process of its own, which loads the model and then reports the seconds and the peak memory
above the loaded model's. The published procedure is `published.py`; ours makes every construction of the
registry and reads off every metric, and so does more.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import unmask
from machine import Peak, describe, in_own_process, parser, table
from published import TEXT
from unmask.inference.infer import conditionals
from unmask.inference.query import Query
from unmask.joints.metrics import incompatibility
from unmask.joints.metrics import measure as metrics_of
from unmask.joints.registry import CONSTRUCTIONS, construct
from unmask.tables.pair_conditionals import PairConditionals
from unmask.text.cloze import parse_braces

WARM = 512
"""Tokens of a trial before the clock starts: as many as the compiled loops begin to work at."""


def ours(text: str, model: str, tokens: int | None, memory: str, methods: Sequence[str]) -> dict[str, Any]:
    """Do a whole pair by unmask and return its seconds, its peak memory and its metrics."""
    mlm = unmask.load(model, device="cpu", memory=memory)
    cloze = parse_braces(text, mlm.vocabulary, mlm.window)
    support = tokens or "words"
    assert cloze.truth is not None
    small = _asked(mlm, cloze, WARM)
    for name in methods:
        metrics_of(construct(name, small), (0, 0))  # compiles what is to be compiled
    with Peak() as peak:
        start = time.perf_counter()
        table = _asked(mlm, cloze, support)
        asked = time.perf_counter()
        truth = (table.a_support.index(cloze.truth[0]), table.b_support.index(cloze.truth[1]))
        found = {name: vars(metrics_of(construct(name, table), truth)) for name in methods}
        found["conditionals"] = {"incompatibility": incompatibility(table)}
        end = time.perf_counter()
    return {
        "seconds": end - start,
        "forward_seconds": asked - start,
        "peak_bytes": peak.bytes,
        "tokens": table.shape[0],
        "metrics": found,
    }


def _asked(mlm: unmask.MaskedLM, cloze: Any, support: int | str) -> PairConditionals:
    table = conditionals(mlm, cloze, Query(candidates="all", support=support))
    assert isinstance(table, PairConditionals)
    return table


def measure(text: str = TEXT, model: str = "english", tokens: int | None = None) -> dict[str, Any]:
    """Run both, one after the other; `tokens` cuts both to so many tokens, for a trial."""
    cut = ["--tokens", str(tokens)] if tokens else []
    found = in_own_process("exact_pair.py", "--only-ours", "--text", text, "--model", model, *cut)
    plain = in_own_process("published.py", text, "--model", model, *cut)
    return {
        "ours": found,
        "published": plain,
        "ratio": plain["seconds"] / found["seconds"],
        "memory_ratio": plain["peak_bytes"] / found["peak_bytes"],
    }


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--text", default=TEXT, help="two words in braces")
    options.add_argument("--model", default="english")
    options.add_argument("--tokens", type=int, help="only so many tokens of the vocabulary")
    options.add_argument("--memory", default="4GB", help="the budget of our side")
    options.add_argument("--methods", nargs="+", default=list(CONSTRUCTIONS), help="of our side")
    options.add_argument("--only-ours", action="store_true", help="one side alone, as JSON")
    given = options.parse_args()
    if given.only_ours:
        print(json.dumps(ours(given.text, given.model, given.tokens, given.memory, given.methods)))
        return
    print(f"## The whole exact pair\n\n{describe()}\n")
    found = measure(given.text, given.model, given.tokens)
    us, them = found["ours"], found["published"]

    def seconds(side: dict[str, Any]) -> str:
        return f"{side['seconds']:.1f} s ({side['forward_seconds']:.1f} s of it forward passes)"

    rows = [
        ("time", seconds(us), seconds(them), f"{found['ratio']:.1f}×", "≥ 3×"),
        (
            "peak memory above the loaded model's",
            f"{us['peak_bytes'] / 1e9:.2f} GB",
            f"{them['peak_bytes'] / 1e9:.2f} GB",
            f"1/{found['memory_ratio']:.1f}",
            "≤ 1/6",
        ),
    ]
    print(table(("what", "unmask", "published procedure", "ratio", "target"), rows))
    print(f'\n{us["tokens"]:,} tokens per blank, "{given.text}".')


if __name__ == "__main__":
    main()
