"""Cross conditionals at their default tolerance against exact ones, under `ag`, on SNLI pairs.

For each pair: the seconds of both, from the cloze to the joint's log q of the true pair, and how far the two
values lie apart. An exact pair takes a minute or more, so what is done is kept under build/, and a run goes
on where the last one stopped; the cross side is cheap and measured anew each time.

    python benchmarks/cross.py --data ../shared/data/snli/dev.tsv --pairs 50 [--model wide]
"""

from __future__ import annotations

import csv
import hashlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import unmask
from machine import BUILD, describe, parser, table
from unmask.api import conditionals
from unmask.cloze import Cloze
from unmask.conditionals import PairConditionals
from unmask.constructions import construct
from unmask.evaluation.drawing import Pairs, draw_examples
from unmask.records import Records
from wide_model import wide_model

WIDE_MEMORY = "9GB"
TARGETS = {"english": ("≥ 20×", "≤ 0.025", "≤ 0.15"), "wide": ("≥ 60×", "", "")}


def open_model(name: str) -> unmask.MaskedLM:
    """Return `english`, `wide` (30,522 tokens, see wide_model.py) or any other model, on the CPU."""
    return unmask.load(wide_model() if name == "wide" else name, device="cpu", memory=WIDE_MEMORY)


def snli_pairs(path: Path, mlm: unmask.MaskedLM, count: int) -> list[Cloze]:
    """Draw two blanks in each of so many sentences, always the same."""
    with path.open(encoding="utf-8") as lines:
        rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        texts = list(dict.fromkeys(row["hypothesis"] for row in rows))
    drawn, _ = draw_examples(
        texts, mlm.vocabulary, mlm.window, pairs=Pairs.parse("random"), examples=count, seed=0
    )
    return [example.cloze(mlm.vocabulary) for example in drawn]


def asked(
    mlm: unmask.MaskedLM, cloze: Cloze, candidates: Any, support: Any
) -> tuple[float, float, dict[str, Any]]:
    """Return log q of the true pair under ag, the seconds it took, and the evidence."""
    start = time.perf_counter()
    made = conditionals(mlm, cloze, candidates=candidates, support=support)
    assert isinstance(made, PairConditionals)
    assert cloze.truth is not None
    log_q = float(construct("ag", made).log_prob(*cloze.truth))
    return log_q, time.perf_counter() - start, made.evidence


def exact_answers(
    mlm: unmask.MaskedLM, name: str, clozes: list[Cloze], most: int | None
) -> Iterator[dict[str, Any]]:
    """Go through the exact answers, those that are kept and at most so many new ones."""
    BUILD.mkdir(parents=True, exist_ok=True)
    records = Records.open(BUILD / f"cross-exact-{name.replace('/', '_')}.jsonl")
    kept = {record["key"]: record for record in records}
    for cloze in clozes:
        key = hashlib.sha256(repr((cloze.ids, cloze.blanks, cloze.truth)).encode()).hexdigest()[:16]
        if key not in kept:
            if most == 0:
                continue
            most = None if most is None else most - 1
            log_q, seconds, _ = asked(mlm, cloze, "all", "words")
            kept[key] = {"key": key, "log_q": log_q, "seconds": seconds}
            records.append(kept[key])
        yield kept[key] | {"cloze": cloze}


def measure(data: Path, pairs: int = 50, model: str = "english", new: int | None = None) -> dict[str, Any]:
    """Compare both on so many pairs, of which at most `new` are done exactly in this run (None: all)."""
    mlm = open_model(model)
    clozes = snli_pairs(data, mlm, pairs)
    asked(mlm, clozes[0], "auto", "auto")  # compiles what is to be compiled
    found = []
    for exact in exact_answers(mlm, model, clozes, new):
        log_q, seconds, evidence = asked(mlm, exact["cloze"], "auto", "auto")
        found.append(
            {
                "error": abs(log_q - exact["log_q"]),
                "seconds": seconds,
                "exact_seconds": exact["seconds"],
                "passes": evidence["passes"],
            }
        )
    if not found:
        return {"model": model, "pairs": 0}
    return {
        "model": model,
        "pairs": len(found),
        "tokens": len(mlm.vocabulary.tokenizer.get_vocab()),
        "seconds": sum(one["seconds"] for one in found) / len(found),
        "exact_seconds": sum(one["exact_seconds"] for one in found) / len(found),
        "ratio": sum(one["exact_seconds"] for one in found) / sum(one["seconds"] for one in found),
        "mean_error": sum(one["error"] for one in found) / len(found),
        "worst_error": max(one["error"] for one in found),
        "passes": sum(one["passes"] for one in found) / len(found),
    }


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data", type=Path, required=True, help="SNLI's dev.tsv")
    options.add_argument("--pairs", type=int, default=50)
    options.add_argument("--model", default="english", help="english, wide, or any model")
    options.add_argument("--new", type=int, help="do at most so many new exact pairs in this run")
    given = options.parse_args()
    print(f"## Cross against exact, model {given.model}\n\n{describe()}\n")
    found = measure(**vars(given))
    if not found["pairs"]:
        print("No exact pair is kept yet: run with --new 1 or more.")
        return
    speed, mean, worst = TARGETS.get(given.model, ("", "", ""))
    times = (f"{found['seconds']:.2f} s", f"{found['exact_seconds']:.1f} s", f"{found['ratio']:.0f}×", speed)
    rows = [
        ("a pair, cloze to log q", *times),
        ("mean error of log q(true pair)", f"{found['mean_error']:.4f} nats", "0", "", mean),
        ("worst error of log q(true pair)", f"{found['worst_error']:.4f} nats", "0", "", worst),
    ]
    print(table(("what", "cross", "exact", "ratio", "target"), rows))
    passes = f"{found['passes']:.0f} forward passes a pair by cross"
    print(f"\n{found['pairs']} SNLI pairs of {given.pairs}; {passes}.")


if __name__ == "__main__":
    main()
