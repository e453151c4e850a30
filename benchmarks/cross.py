"""Cross conditionals at their default tolerance against exact ones, under `ag`, on SNLI pairs.

- How far log q of the true pair lies from the exact one, on all the pairs, with partial passes (the default)
  and with whole ones alone. An exact pair takes a minute or more, so exact answers are kept under build/ (by
  the weights), and a run goes on where the last one stopped.
- The seconds of both, from the cloze to log q, on the first few pairs, timed side by side in this run.

    python benchmarks/cross.py --data ../shared/data/snli/dev.tsv --pairs 50 --timed 5 [--model wide]
"""

from __future__ import annotations

import csv
import hashlib
import time
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import unmask
from machine import BUILD, describe, parser, table
from unmask.diagnostics import Diagnostics
from unmask.evaluation.sampling import Pairs, draw_examples
from unmask.inference.cross import cross_conditionals
from unmask.inference.infer import conditionals
from unmask.inference.query import Query
from unmask.joints.registry import construct
from unmask.models.digests import state_digest
from unmask.runs.records import Records
from unmask.tables.pair_conditionals import PairConditionals
from unmask.text.cloze import Cloze
from unmask.text.support import Support
from wide_model import wide_model

WIDE_MEMORY = "9GB"
TARGETS = {"english": ("≥ 20×", "≤ 0.020", "≤ 0.097"), "wide": ("≥ 60×", "", "")}


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


def asked(mlm: unmask.MaskedLM, cloze: Cloze, candidates: Any, support: Any) -> tuple[float, float]:
    """Return log q of the true pair under ag, and the seconds it took."""
    start = time.perf_counter()
    made = conditionals(mlm, cloze, Query(candidates=candidates, support=support))
    assert isinstance(made, PairConditionals)
    assert cloze.truth is not None
    log_q = float(construct("ag", made).log_prob(cloze.truth))
    return log_q, time.perf_counter() - start


def by_passes(mlm: unmask.MaskedLM, cloze: Cloze, partial: bool) -> tuple[float, Diagnostics]:
    """Return log q of the true pair under ag at `auto`, by partial passes or not, and how it was made."""
    words = Support.words(mlm.vocabulary)
    assert cloze.truth is not None
    named = tuple((token,) for token in cloze.truth)
    made = cross_conditionals(mlm, cloze, (words, words), include=named, partial=partial)
    return float(construct("ag", made).log_prob(cloze.truth)), made.diagnostics


class Exact:
    """The exact log q of pairs: what was found before, by the same weights, is kept under build/."""

    def __init__(self, mlm: unmask.MaskedLM) -> None:
        self._mlm = mlm
        BUILD.mkdir(parents=True, exist_ok=True)
        self._records = Records(BUILD / f"cross-exact-{state_digest(mlm.model)[:12]}.jsonl")
        self._known: dict[str, float] = {record["key"]: record["log_q"] for record in self._records}

    def __contains__(self, cloze: Cloze) -> bool:
        return _key(cloze) in self._known

    def __getitem__(self, cloze: Cloze) -> float:
        return self._known[_key(cloze)]

    def find(self, cloze: Cloze) -> float:
        """Find it anew, known or not, and return the seconds."""
        log_q, seconds = asked(self._mlm, cloze, "all", "words")
        if cloze not in self:
            self._known[_key(cloze)] = log_q
            self._records.append({"key": _key(cloze), "log_q": log_q})
        return seconds


def _key(cloze: Cloze) -> str:
    return hashlib.sha256(repr((cloze.ids, cloze.blanks, cloze.truth)).encode()).hexdigest()[:16]


def measure(
    data: Path, pairs: int = 50, timed: int = 5, model: str = "english", new: int | None = None
) -> dict[str, Any]:
    """Compare both on so many pairs, of which at most `new` are done exactly beside the timed (None: all)."""
    mlm = open_model(model)
    clozes, exact = snli_pairs(data, mlm, pairs), Exact(mlm)
    asked(mlm, clozes[0], "auto", "auto")  # compiles what is to be compiled
    seconds = [(asked(mlm, cloze, "auto", "auto")[1], exact.find(cloze)) for cloze in clozes[:timed]]
    for cloze in [cloze for cloze in clozes if cloze not in exact][:new]:
        exact.find(cloze)
    known = [cloze for cloze in clozes if cloze in exact]
    return {
        "tokens": len(mlm.vocabulary.tokenizer.get_vocab()),
        "seconds": [cross for cross, _ in seconds],
        "exact_seconds": [taken for _, taken in seconds],
        "partial": [Error.of(exact[cloze], *by_passes(mlm, cloze, True)) for cloze in known],
        "whole": [Error.of(exact[cloze], *by_passes(mlm, cloze, False)) for cloze in known],
    }


class Error(NamedTuple):
    """By how much log q of a pair is wrong, by how much it was said to be, and what it took."""

    true: float
    estimated: float
    passes: int

    @staticmethod
    def of(exact: float, log_q: float, diagnostics: Diagnostics) -> Error:
        return Error(abs(log_q - exact), diagnostics.estimated_error or 0.0, diagnostics.passes)


def error_rows(title: str, errors: list[Error], targets: tuple[str, str]) -> list[tuple[str, ...]]:
    """Return the rows of the errors of all pairs."""
    beyond = sum(error.true > 2 * error.estimated for error in errors)
    return [
        (f"{title}: mean error", f"{fmean(error.true for error in errors):.4f}", "0", "", targets[0]),
        ("its mean estimate", f"{fmean(error.estimated for error in errors):.4f}", "", "", ""),
        ("worst error", f"{max(error.true for error in errors):.4f}", "0", "", targets[1]),
        ("pairs off by more than twice the estimate", str(beyond), "", "", ""),
        ("passes per pair", f"{fmean(error.passes for error in errors):.0f}", "", "", ""),
    ]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data", type=Path, required=True, help="SNLI's dev.tsv")
    options.add_argument("--pairs", type=int, default=50, help="whose error is measured")
    options.add_argument("--timed", type=int, default=5, help="of these, whose seconds are measured")
    options.add_argument("--model", default="english", help="english, wide, or any model")
    options.add_argument("--new", type=int, help="do at most so many new exact pairs in this run")
    given = options.parse_args()
    print(f"## Cross against exact, model {given.model}\n\n{describe()}\n")
    found = measure(**vars(given))
    speed, mean, worst = TARGETS.get(given.model, ("", "", ""))
    rows = []
    if found["seconds"]:
        cross, exact = (sum(found[which]) / given.timed for which in ("seconds", "exact_seconds"))
        taken = f"seconds of a pair, cloze to log q, mean of {given.timed}"
        rows.append((taken, f"{cross:.2f}", f"{exact:.1f}", f"{exact / cross:.1f}×", speed))
    if found["partial"]:
        of = f"log q of the true pair, nats, {len(found['partial'])} pairs"
        rows += error_rows(of, found["partial"], (mean, worst))
        rows += error_rows("the same with whole passes alone", found["whole"], ("", ""))
    print(table(("what", "cross", "exact", "ratio", "target"), rows))


if __name__ == "__main__":
    main()
