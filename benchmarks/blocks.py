"""The joint of a block of two blanks in a chain: how near to Arnold-Gokhale's of all pairs, at what price.

Two neighbouring blanks of SNLI sentences, one sentence per pair. The yardstick is `ag` on cross conditionals
of 512 candidates with the true tokens among them (cross.py measures how far that is from exact). Against
it: cross conditionals of fewer candidates, with and without the true tokens, and the grid with the chain as
its backoff (`unmask.joints.backoff`), which a chain of pairs uses because it is one distribution,
whatever it is asked for.

    python benchmarks/blocks.py --data ../shared/data/snli/dev.tsv [--pairs 60]
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import unmask
from machine import describe, parser, table
from unmask.evaluation.sampling import Pairs, draw_examples
from unmask.evaluation.sentences import read_sentences
from unmask.inference.cross import cross_conditionals
from unmask.inference.model_conditionals import ModelConditionals
from unmask.joints.backoff import BackoffPair
from unmask.joints.joint import Joint
from unmask.joints.registry import construct
from unmask.text.cloze import Cloze
from unmask.text.support import Support

REFERENCE = 512
Maker = Callable[[unmask.MaskedLM, Cloze, Support], Joint]


def by_cross(candidates: int, *, knowing: bool) -> Maker:
    """Return what makes `ag` of cross conditionals; `knowing` has the true tokens among the candidates."""

    def made(mlm: unmask.MaskedLM, cloze: Cloze, support: Support) -> Joint:
        truth = cloze.truth
        assert truth is not None
        named = ((truth[0],), (truth[1],)) if knowing else ((), ())
        return construct("ag", cross_conditionals(mlm, cloze, (support, support), candidates, include=named))

    return made


def by_backoff(candidates: int) -> Maker:
    """Return what makes the grid with a backoff."""
    return lambda mlm, cloze, support: BackoffPair(
        ModelConditionals(mlm, cloze, (support, support)), candidates=candidates
    )


WAYS: dict[str, Maker] = {
    f"cross, {REFERENCE} candidates and the true tokens": by_cross(REFERENCE, knowing=True),
    "cross, 64 and the true tokens": by_cross(64, knowing=True),
    "cross, 64": by_cross(64, knowing=False),
    "cross, 16": by_cross(16, knowing=False),
    "grid of 64 with a backoff": by_backoff(64),
    "grid of 16 with a backoff": by_backoff(16),
}


def measure(data: Path, pairs: int) -> dict[str, dict[str, Any]]:
    """Return log q of every true pair, the passes and the processor seconds, by each way."""
    mlm = unmask.load(device="cpu")
    support = Support.words(mlm.vocabulary)
    texts = read_sentences(f"snli={data}").texts
    drawn, _ = draw_examples(
        texts, mlm.vocabulary, mlm.window, pairs=Pairs.parse("contiguous"), examples=pairs, seed=0
    )
    clozes = [example.cloze(mlm.vocabulary) for example in drawn]
    found = {way: {"log_q": [], "passes": [], "seconds": []} for way in WAYS}
    for number, cloze in enumerate([clozes[0], *clozes]):
        for way, made in WAYS.items():
            start = time.process_time()
            joint = made(mlm, cloze, support)
            log_q = float(joint.log_prob(cloze.truth or ()))
            seconds = time.process_time() - start
            if number:  # the first time warms up
                found[way]["log_q"].append(log_q)
                found[way]["passes"].append(joint.diagnostics.passes)
                found[way]["seconds"].append(seconds)
    return found


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data", type=Path, required=True, help="SNLI's dev.tsv")
    options.add_argument("--pairs", type=int, default=60)
    given = options.parse_args()
    torch.set_num_threads(1)
    machine = describe()
    found = measure(given.data, given.pairs)
    yardstick = torch.tensor(next(iter(found.values()))["log_q"])
    print(f"## The joint of a block of two, {len(yardstick)} pairs of neighbours\n\n{machine}\n")
    rows = []
    for way, numbers in found.items():
        log_q = torch.tensor(numbers["log_q"])
        passes, seconds = (sum(numbers[name]) / len(log_q) for name in ("passes", "seconds"))
        error = f"{float((log_q - yardstick).abs().mean()):.2f}" if rows else ""
        rows.append((way, error, f"{float(log_q.mean()):.2f}", f"{passes:.0f}", f"{seconds:.2f}"))
    print(table(("way", "mean error, nats", "mean log q", "passes", "CPU seconds"), rows))


if __name__ == "__main__":
    main()
