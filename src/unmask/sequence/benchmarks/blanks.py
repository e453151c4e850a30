"""Blanks: two, three or four neighbouring tokens of real sentences, to be guessed together.

A run of n tokens of each sentence is masked, at a random place. Every method gives its ten best fillings of
all n and, if it is a distribution, the log-probability of the true one, over all words of the vocabulary:

- `independent`: each blank by itself, as a fill-mask pipeline answers (`unmask.sequence.independent`);
- `greedy`: left to right, the best token each time: one filling, and no distribution;
- `beam`: the one-token chain, left to right, searched by a beam;
- `grid-ag`: the Arnold-Gokhale joint on a grid of candidates, with the chain as its tail;
- `chain-ag`: the chain of blocks of two, each by the Arnold-Gokhale joint of its pair.

Recall@k is the share of sentences whose true filling, every token of it, is among the first k.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from unmask.cloze import Cloze
from unmask.errors import Misuse
from unmask.evaluation.sentences import read_sentences
from unmask.joint import Joint
from unmask.mlm import MaskedLM
from unmask.progress import Progress, silent
from unmask.records import Records
from unmask.sequence.asking import affordable_candidates, grid_conditionals
from unmask.sequence.benchmarks.intervals import mean, share
from unmask.sequence.chain import Chain
from unmask.sequence.grid import GridJoint
from unmask.sequence.independent import Independent
from unmask.sequence.pairs import pair_joint
from unmask.sequence.sentences import Reader, Sentence
from unmask.sequence.tailed import TailedGrid
from unmask.vocabulary import Support

METHODS = ("independent", "greedy", "beam", "grid-ag", "chain-ag")
TOP = 10
RECALLS = (1, 5, 10)


@dataclass(frozen=True)
class BlanksSettings:
    """What the benchmark depends on, beside the model and the data."""

    blanks: tuple[int, ...] = (2, 3, 4)
    sentences: int = 300
    methods: tuple[str, ...] = METHODS
    passes: int = 1024
    candidates: int = 32
    most_tokens: int = 64
    seed: int = 0

    def check(self) -> None:
        """Refuse what can't be."""
        unknown = [m for m in self.methods if m not in METHODS]
        if unknown or not self.methods:
            raise Misuse(f"unknown method '{''.join(unknown[:1])}': expected some of {', '.join(METHODS)}")
        if not self.blanks or min(self.blanks) < 2 or max(self.blanks) > 8:
            raise Misuse(f"expected runs of 2 to 8 blanks, got {', '.join(map(str, self.blanks)) or 'none'}")
        if self.sentences < 1:
            raise Misuse(f"expected at least 1 sentence, got {self.sentences}")
        if affordable_candidates(max(self.blanks), self.passes) < 2:
            raise Misuse(
                f"{self.passes} passes afford no grid of 2 candidates at {max(self.blanks)} blanks: give more"
            )


def draw_clozes(
    mlm: MaskedLM, texts: Sequence[str], blanks: int, settings: BlanksSettings
) -> Iterator[tuple[str, Cloze]]:
    """Go through sentences in random order, with a run of masked tokens at a random place in each."""
    rng = random.Random(f"{settings.seed} {blanks}")
    read, words = Reader(mlm), set(Support.words(mlm.vocabulary).ids.tolist())
    found = 0
    for text in rng.sample(list(texts), len(texts)):
        sentence = read(text)
        places = _places(sentence, blanks, words)
        if (
            not places
            or not blanks + 2 <= len(sentence) <= settings.most_tokens
            or len(sentence.ids) > mlm.window
        ):
            continue
        first = rng.choice(places)
        positions = sentence.positions[first : first + blanks]
        ids = tuple(mlm.vocabulary.mask_id if i in positions else t for i, t in enumerate(sentence.ids))
        truth = tuple(sentence.ids[p] for p in positions)
        yield text, Cloze(ids, positions, ("",) * (blanks + 1), mlm.vocabulary, truth)
        found += 1
        if found == settings.sentences:
            return


def _places(sentence: Sentence, blanks: int, words: set[int]) -> list[int]:
    """Where a run of tokens can be masked: all of them words that a blank may hold."""
    starts = range(len(sentence) - blanks + 1)
    return [s for s in starts if all(t in words for t in sentence.tokens[s : s + blanks])]


def answer(
    mlm: MaskedLM, cloze: Cloze, method: str, support: Support, settings: BlanksSettings
) -> tuple[int | None, float | None]:
    """Return the rank of the true filling among the ten best (None if not there), and its log-probability."""
    truth = cloze.truth
    assert truth is not None
    joint = JOINTS[method](mlm, cloze, (support,) * len(truth), settings)
    best = joint._top(1 if method == "greedy" else TOP)[0].tolist()
    rank = best.index(list(truth)) + 1 if list(truth) in best else None
    return rank, None if method == "greedy" else float(joint.log_prob(*truth))


def _grid(mlm: MaskedLM, cloze: Cloze, supports: tuple[Support, ...], settings: BlanksSettings) -> Joint:
    count = min(64, affordable_candidates(len(supports), settings.passes))
    inner = GridJoint(grid_conditionals(mlm, cloze, supports, count))
    return TailedGrid(inner, Chain(mlm, cloze, supports))


def _pairs(mlm: MaskedLM, cloze: Cloze, supports: tuple[Support, ...], settings: BlanksSettings) -> Joint:
    return Chain(
        mlm,
        cloze,
        supports,
        pair=lambda c, s: pair_joint(mlm, c, s, candidates=settings.candidates),
        beam=TOP,
    )


JOINTS: dict[str, Callable[[MaskedLM, Cloze, tuple[Support, ...], BlanksSettings], Joint]] = {
    "independent": lambda mlm, cloze, supports, _: Independent.of(mlm, cloze, supports),
    "greedy": lambda mlm, cloze, supports, _: Chain(mlm, cloze, supports, beam=1),
    "beam": lambda mlm, cloze, supports, _: Chain(mlm, cloze, supports, beam=2 * TOP),
    "grid-ag": _grid,
    "chain-ag": _pairs,
}


@torch.inference_mode()
def run_blanks(
    mlm: MaskedLM,
    data: Sequence[str],
    settings: BlanksSettings,
    *,
    out: Path | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Ask every method about every text of data such as `snli=DIR`; with `out`, a killed run goes on."""
    settings.check()
    texts = {named.partition("=")[0]: list(dict.fromkeys(read_sentences(named).texts)) for named in data}
    records = None if out is None else Records.open(out)
    found: list[dict[str, Any]] = []
    support = Support.words(mlm.vocabulary)
    try:
        done = {} if records is None else {r["key"]: r for r in records}
        tasks = [
            (f"{name}:{blanks}:{n}:{method}", name, blanks, method, text, cloze)
            for name, lines in texts.items()
            for blanks in settings.blanks
            for n, (text, cloze) in enumerate(draw_clozes(mlm, lines, blanks, settings))
            for method in settings.methods
        ]
        for key, name, blanks, method, text, cloze in progress.over(tasks, total=len(tasks), stage="answers"):
            record = done.get(key)
            if record is None:
                rank, log_prob = answer(mlm, cloze, method, support, settings)
                record = {
                    "key": key,
                    "data": name,
                    "blanks": blanks,
                    "method": method,
                    "text": text,
                    "first": cloze.blanks[0],
                    "rank": rank,
                    "log_prob": log_prob,
                }
                if records is not None:
                    records.append(record)
            elif (record["text"], record["first"]) != (text, cloze.blanks[0]):
                raise Misuse(
                    f"{out} holds answers about other texts: give another --out, or the same options"
                )
            found.append(record)
    finally:
        if records is not None:
            records.close()
    return {"benchmark": "blanks", "model": mlm.name, "top": TOP, "rows": summary(found, settings)}


def summary(records: Sequence[dict[str, Any]], settings: BlanksSettings) -> list[dict[str, Any]]:
    """Return one row for each data set, number of blanks and method."""
    rows = []
    for name in dict.fromkeys(r["data"] for r in records):
        for blanks in settings.blanks:
            for method in settings.methods:
                here = [r for r in records if (r["data"], r["blanks"], r["method"]) == (name, blanks, method)]
                recalls = {
                    f"recall@{k}": share(
                        sum(bool(r["rank"]) and r["rank"] <= k for r in here), len(here)
                    )._asdict()
                    for k in RECALLS
                }
                scored = [r["log_prob"] for r in here if r["log_prob"] is not None]
                rows.append(
                    {
                        "data": name,
                        "blanks": blanks,
                        "method": method,
                        "sentences": len(here),
                        **recalls,
                        "log_prob": mean(scored)._asdict() if scored else None,
                    }
                )
    return rows
