"""Blanks: two, three or four neighbouring tokens of real sentences, to be guessed together.

A run of n tokens of each sentence is masked, at a random place. Every method gives its ten best fillings of
all n and, if it is a distribution, the log-probability of the true one, over all words of the vocabulary:

- `independent`: each blank by itself, as a fill-mask pipeline answers (`unmask.joints.independent`);
- `greedy`: left to right, the best token each time: one filling, and no distribution;
- `beam`: the one-token chain, left to right, searched by a beam;
- `grid-ag`: the Arnold-Gokhale joint on a grid of candidates, with the chain as its tail;
- `chain-ag`: the chain of blocks of two, each by the Arnold-Gokhale joint of its pair; `chain-gibbs` and so
  on by another construction.

Recall@k is the share of sentences whose true filling, every token of it, is among the first k.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import torch

from unmask.errors import UsageError
from unmask.evaluation.intervals import mean, share
from unmask.evaluation.keyed_tasks import Record, Task, run_tasks, worker_with
from unmask.evaluation.sentences import read_sentences
from unmask.inference.grid_conditionals import MOST_PASSES, affordable_candidates, grid_conditionals
from unmask.inference.model_conditionals import PAIR_CANDIDATES, ModelConditionals, independent_joint
from unmask.inference.sentences import SentenceReader
from unmask.joints.backoff import BackoffGrid
from unmask.joints.chain import Chain
from unmask.joints.grid import GridJoint
from unmask.joints.joint import Joint
from unmask.joints.registry import CONSTRUCTIONS
from unmask.models.digests import weights_digest
from unmask.models.masked_lm import MaskedLM
from unmask.runs.run import Spread
from unmask.runs.settings_record import RunKind
from unmask.text.cloze import Cloze
from unmask.text.support import Support

BLANKS = RunKind("blanks benchmark")
METHODS = ("independent", "greedy", "beam", "grid-ag", "chain-ag")
CHAIN = "chain-"
MOST_CANDIDATES = 64
TOP = 10
RECALLS = (1, 5, 10)


@dataclass(frozen=True)
class BlanksSettings:
    """What the benchmark depends on, beside the model and the data."""

    blanks: tuple[int, ...] = (2, 3, 4)
    sentences: int = 300
    methods: tuple[str, ...] = METHODS
    passes: int = 256
    candidates: int = PAIR_CANDIDATES
    most_tokens: int = 64
    seed: int = 0

    def check(self) -> None:
        """Refuse what can't be."""
        chains = [CHAIN + construction for construction in CONSTRUCTIONS]
        unknown = [m for m in self.methods if m not in METHODS and m not in chains]
        if unknown or not self.methods:
            raise UsageError(
                f"unknown method '{''.join(unknown[:1])}': expected some of {', '.join(METHODS)}, or "
                f"{CHAIN}NAME with one of {', '.join(CONSTRUCTIONS)}"
            )
        if not self.blanks or min(self.blanks) < 2 or max(self.blanks) > 8:
            raise UsageError(
                f"expected runs of 2 to 8 blanks, got {', '.join(map(str, self.blanks)) or 'none'}"
            )
        for what, given in (("a method", self.methods), ("a number of blanks", self.blanks)):
            if len(set(given)) < len(given):
                raise UsageError(f"{what} is named twice: {', '.join(map(str, given))}")
        if self.sentences < 1:
            raise UsageError(f"expected at least 1 sentence, got {self.sentences}")
        if "grid-ag" in self.methods and affordable_candidates(max(self.blanks), self.passes) < 2:
            raise UsageError(
                f"{self.passes} passes afford no grid of 2 candidates at {max(self.blanks)} blanks: give more"
            )
        if not 1 <= self.passes <= MOST_PASSES:
            raise UsageError(f"expected from 1 to {MOST_PASSES:,} passes per grid, got {self.passes:,}")


def draw_clozes(
    mlm: MaskedLM, texts: Sequence[str], blanks: int, settings: BlanksSettings
) -> Iterator[tuple[str, Cloze]]:
    """Go through sentences in random order, with a run of masked tokens at a random place in each."""
    rng = random.Random(f"{settings.seed} {blanks}")
    read, words = SentenceReader(mlm), set(Support.words(mlm.vocabulary).ids.tolist())
    found = 0
    for text in rng.sample(list(texts), len(texts)):
        sentence = read(text)
        starts = range(len(sentence) - blanks + 1)  # of runs of words that a blank may hold
        places = [s for s in starts if all(t in words for t in sentence.tokens[s : s + blanks])]
        if (
            not places
            or not blanks + 2 <= len(sentence) <= settings.most_tokens
            or len(sentence.ids) > mlm.window
        ):
            continue
        first = sentence.positions[rng.choice(places)]
        yield text, Cloze.of_ids(sentence.ids, range(first, first + blanks), mlm.vocabulary)
        found += 1
        if found == settings.sentences:
            return


def answer(
    mlm: MaskedLM, cloze: Cloze, method: str, support: Support, settings: BlanksSettings
) -> tuple[int | None, float | None]:
    """Return the rank of the true filling among the ten best (None if not there), and its log-probability."""
    truth = cloze.truth
    assert truth is not None
    supports = (support,) * len(truth)
    if method.startswith(CHAIN):
        joint = _pairs(mlm, cloze, supports, method.removeprefix(CHAIN), settings)
    else:
        joint = JOINTS[method](mlm, cloze, supports, settings)
    best = joint._top(1 if method == "greedy" else TOP)[0].tolist()
    rank = best.index(list(truth)) + 1 if list(truth) in best else None
    return rank, None if method == "greedy" else float(joint.log_prob(truth))


def _grid(mlm: MaskedLM, cloze: Cloze, supports: tuple[Support, ...], settings: BlanksSettings) -> Joint:
    count = min(MOST_CANDIDATES, affordable_candidates(len(supports), settings.passes))
    if len(supports) == 2:  # the same, with candidates that cost fewer passes to choose
        return ModelConditionals(mlm, cloze, supports, candidates=count).pair_joint()
    inner = GridJoint(grid_conditionals(mlm, cloze, supports, count))
    return BackoffGrid(inner, Chain(ModelConditionals(mlm, cloze, supports)))


def _pairs(
    mlm: MaskedLM, cloze: Cloze, supports: tuple[Support, ...], method: str, settings: BlanksSettings
) -> Joint:
    conditionals = ModelConditionals(mlm, cloze, supports, method=method, candidates=settings.candidates)
    return Chain(conditionals, block=2, beam=TOP)


JOINTS: dict[str, Callable[[MaskedLM, Cloze, tuple[Support, ...], BlanksSettings], Joint]] = {
    "independent": lambda mlm, cloze, supports, _: independent_joint(mlm, cloze, supports),
    "greedy": lambda mlm, cloze, supports, _: Chain(ModelConditionals(mlm, cloze, supports), beam=1),
    "beam": lambda mlm, cloze, supports, _: Chain(ModelConditionals(mlm, cloze, supports), beam=2 * TOP),
    "grid-ag": _grid,
}


class Answerer:
    """Answers questions with a model: what turns a text, a run of its tokens and a method into a record."""

    def __init__(self, mlm: MaskedLM, settings: BlanksSettings) -> None:
        self.mlm, self.settings = mlm, settings
        self._read, self._support = SentenceReader(mlm), Support.words(mlm.vocabulary)

    @torch.inference_mode()
    def __call__(self, questions: list[Task]) -> list[Record]:
        """Return the rank and the log-probability of each question's true filling."""
        return [self._record(question) for question in questions]

    def _record(self, question: Task) -> Record:
        blanks = range(question["first"], question["first"] + question["blanks"])
        cloze = Cloze.of_ids(self._read(question["text"]).ids, blanks, self.mlm.vocabulary)
        rank, log_prob = answer(self.mlm, cloze, question["method"], self._support, self.settings)
        return {**question, "rank": rank, "log_prob": log_prob}


def run_blanks(
    mlm: MaskedLM,
    data: Sequence[str],
    settings: BlanksSettings,
    *,
    out: Path | None = None,
    load: Callable[[], MaskedLM] | None = None,
    **spread: Unpack[Spread],
) -> dict[str, Any]:
    """Ask every method about every text of data such as `snli=DIR`; with `out`, a killed run is resumed.

    Args:
        mlm: the model.
        data: data sets as `evaluate` reads them.
        settings: what to ask.
        out: the file of records.
        load: loads the model in a worker of a cluster; by default the one of the model's name.
        spread: `ray`, `workers` and `progress`, as for `unmask.runs.run.Run.work`.
    """
    settings.check()
    names = [named.partition("=")[0] for named in data]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"two data sets are called '{name}': ask about one of them at a time")
    questions: list[Task] = []
    for name, named in zip(names, data, strict=True):
        texts = list(dict.fromkeys(read_sentences(named).texts))
        for blanks in settings.blanks:
            questions += _questions(mlm, name, texts, blanks, settings)
    records = run_tasks(
        BLANKS,
        questions,
        worker_with(Answerer, mlm, settings, spread.get("ray"), load),
        {
            "model": mlm.name,
            "weights": weights_digest(mlm.name),
            "passes": settings.passes,
            "candidates": settings.candidates,
        },
        batch=len(settings.methods),
        out=out,
        stage="answers",
        **spread,
    )
    return {"benchmark": "blanks", "model": mlm.name, "top": TOP, "rows": summary(records, settings)}


def _questions(
    mlm: MaskedLM, name: str, texts: Sequence[str], blanks: int, settings: BlanksSettings
) -> list[Task]:
    """Draw texts of a data set and ask every method about each."""
    drawn = list(draw_clozes(mlm, texts, blanks, settings))
    if not drawn:
        raise UsageError(
            f"no text of '{name}' has room for {blanks} blanks: ask for fewer, or give longer texts"
        )
    return [
        {
            "key": f"{name}:{blanks}:{n}:{method}",
            "data": name,
            "blanks": blanks,
            "method": method,
            "text": text,
            "first": cloze.blanks[0],
        }
        for n, (text, cloze) in enumerate(drawn)
        for method in settings.methods
    ]


def summary(records: Sequence[dict[str, Any]], settings: BlanksSettings) -> list[dict[str, Any]]:
    """Return one row for each data set, number of blanks and method.

    Gains, in log-probability and in recall@1, are those over independent answers on the same texts: their
    intervals are paired.
    """
    groups: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    for record in records:
        groups.setdefault((record["data"], record["blanks"], record["method"]), []).append(record)
    rows = []
    for name in dict.fromkeys(record["data"] for record in records):
        for blanks in settings.blanks:
            alone = {_place(r): r for r in groups.get((name, blanks, "independent"), [])}
            for method in settings.methods:
                here = groups.get((name, blanks, method), [])
                named = {"data": name, "blanks": blanks, "method": method, "sentences": len(here)}
                rows.append(named | _numbers(here, alone))
    return rows


def _numbers(here: Sequence[dict[str, Any]], alone: dict[tuple[str, int], dict[str, Any]]) -> dict[str, Any]:
    scored = [r for r in here if r["log_prob"] is not None]
    gains = [r["log_prob"] - alone[_place(r)]["log_prob"] for r in scored if alone]
    found = [_hit(r, 1) - _hit(alone[_place(r)], 1) for r in here if alone]
    return {
        **{f"recall@{k}": share(sum(_hit(r, k) for r in here), len(here))._asdict() for k in RECALLS},
        "log_prob": mean([r["log_prob"] for r in scored])._asdict() if scored else None,
        "gain": mean(gains)._asdict() if gains else None,
        "recall_gain": mean(found)._asdict() if found else None,
    }


def _hit(record: dict[str, Any], k: int) -> int:
    return int(record["rank"] is not None and record["rank"] <= k)


def _place(record: dict[str, Any]) -> tuple[str, int]:
    return record["text"], record["first"]
