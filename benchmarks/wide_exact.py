"""An exact pair with a vocabulary of 30,522 tokens, within 9 GB beyond the loaded model.

In a process of its own: the exact conditionals over all words, `ag`, and log q of the true pair.
"""

from __future__ import annotations

import json
import time
from typing import Any

import unmask
from machine import TEXT, Peak, describe, in_own_process, parser, table
from unmask.inference.infer import conditionals
from unmask.inference.query import Query
from unmask.joints.registry import construct
from unmask.tables.pair_conditionals import PairConditionals
from unmask.text.cloze import parse_braces
from wide_model import wide_model

BUDGET = "9GB"
ALLOWED = 9e9


def alone(tokens: int | None, memory: str) -> dict[str, Any]:
    """Do the pair here and return its seconds and peak memory."""
    mlm = unmask.load(wide_model(), device="cpu", memory=memory)
    cloze = parse_braces(TEXT, mlm.vocabulary, mlm.window)
    assert cloze.truth is not None
    with Peak() as peak:
        start = time.perf_counter()
        made = conditionals(mlm, cloze, Query(candidates="all", support=tokens or "words"))
        assert isinstance(made, PairConditionals)
        asked = time.perf_counter()
        joint = construct("ag", made)
        log_q = float(joint.log_prob(cloze.truth))
        end = time.perf_counter()
    return {
        "tokens": made.shape[0],
        "seconds": end - start,
        "conditionals_seconds": asked - start,
        "peak_bytes": peak.bytes,
        "log_q": log_q,
        "sweeps": joint.diagnostics.solver.sweeps,
        "converged": joint.diagnostics.converged,
    }


def measure(tokens: int | None = None, memory: str = BUDGET) -> dict[str, Any]:
    """Run the pair in a process of its own; `tokens` keeps the likeliest so many, for a trial."""
    cut = ["--tokens", str(tokens)] if tokens else []
    return in_own_process("wide_exact.py", "--alone", "--memory", memory, *cut)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--tokens", type=int, help="only the likeliest so many tokens of each blank")
    options.add_argument("--memory", default=BUDGET)
    options.add_argument("--alone", action="store_true", help="here, as JSON")
    given = options.parse_args()
    if given.alone:
        print(json.dumps(alone(given.tokens, given.memory)))
        return
    print(f"## Exact, 30,522 tokens\n\n{describe()}\n")
    found = measure(given.tokens, given.memory)
    rows = [
        ("tokens per blank", f"{found['tokens']:,}", ""),
        ("conditionals", f"{found['conditionals_seconds']:.0f} s", ""),
        ("`ag`", f"{found['seconds'] - found['conditionals_seconds']:.1f} s, {found['sweeps']} sweeps", ""),
        ("peak memory above the loaded model's", f"{found['peak_bytes'] / 1e9:.2f} GB", "≤ 9 GB"),
    ]
    print(table(("what", "measured", "target"), rows))


if __name__ == "__main__":
    main()
