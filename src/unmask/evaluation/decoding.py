"""Decoding with fewer passes: what each scheme loses against filling one blank at a time.

A share of the tokens of a text is masked at random, and filled by every scheme of
`unmask.inference.parallel_decoding` in 1, 2, 3, ... passes, or within a bound. Measured for each:

- the log-probability of the true tokens under the scheme;
- how many of them the likeliest filling of each pass gets right;
- the log-probability that a sample of the scheme has when it is scored one blank at a time, in the order of
  confidence: what is drawn independently may not go together.

`unmask.evaluation.decoding_summary` makes curves of the records.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Unpack

import torch

from unmask.errors import UsageError
from unmask.evaluation.keyed_tasks import Record, Task, run_tasks, worker_with
from unmask.evaluation.sentences import read_sentences
from unmask.inference.pair_guess import check_has_head
from unmask.inference.parallel_decoding import (
    ParallelDecoder,
    Scheme,
    as_pairs,
    as_tree,
    by_confidence,
    by_entropy_bound,
    by_tree_bound,
    drawn,
    independently,
    known,
    likeliest,
)
from unmask.inference.sentences import SentenceReader
from unmask.models.digests import weights_digest
from unmask.models.masked_lm import MaskedLM
from unmask.runs.run import Spread
from unmask.runs.settings_record import RunKind
from unmask.text.cloze import Cloze
from unmask.text.support import Support

DECODING = RunKind("measurement of decoding")
FEWEST_BLANKS = 2
ONE_BY_ONE = "one by one"


@dataclass(frozen=True)
class DecodingSettings:
    """What a measurement depends on, beside the model and the data.

    Attributes:
        texts: per data set.
        rates: the shares of tokens that are masked.
        passes: the numbers of passes; as many as there are blanks is always among them.
        bounds: of the schemes that stay within one, in nats.
        most_tokens: longer texts are left out.
        seed: of the texts, the blanks and the samples.
    """

    texts: int = 100
    rates: tuple[float, ...] = (0.15, 0.3, 0.5)
    passes: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 12)
    bounds: tuple[float, ...] = (0.25, 1.0, 2.0, 4.0, 8.0)
    most_tokens: int = 48
    seed: int = 0

    def check(self) -> None:
        """Refuse what can't be."""
        if self.texts < 1:
            raise UsageError(f"expected at least 1 text, got {self.texts}")
        if not self.rates or not all(0 < rate < 1 for rate in self.rates):
            raise UsageError(f"expected shares of masked tokens between 0 and 1, got {list(self.rates)}")
        if not self.passes or min(self.passes) < 1 or list(self.passes) != sorted(set(self.passes)):
            raise UsageError(f"expected rising numbers of passes from 1 on, got {list(self.passes)}")


def schemes_of(blanks: int, settings: DecodingSettings) -> dict[str, Scheme]:
    """Return the schemes for a text of so many blanks, by names such as `tree:2`.

    With a pass for each blank nothing is joined, and all schemes of equal shares are `one by one`.
    """
    found = {ONE_BY_ONE: Scheme(by_confidence(blanks), independently)}
    for passes in (p for p in settings.passes if p < blanks):
        choose = by_confidence(passes)
        found[f"independent:{passes}"] = Scheme(choose, independently)
        found[f"tree:{passes}"] = Scheme(choose, as_tree)
        found[f"pairs:{passes}"] = Scheme(choose, as_pairs)
    for bound in settings.bounds:
        found[f"entropy bound:{bound:g}"] = Scheme(by_entropy_bound(bound), independently)
        found[f"tree bound:{bound:g}"] = Scheme(by_tree_bound(bound), as_tree)
    return found


def draw_texts(mlm: MaskedLM, texts: Sequence[str], rate: float, settings: DecodingSettings) -> list[Cloze]:
    """Mask a share of the tokens of texts that are drawn at random; at least two tokens of each."""
    words = set(Support.words(mlm.vocabulary).ids.tolist())
    read = SentenceReader(mlm)
    found: list[Cloze] = []
    for text in random.Random(settings.seed).sample(list(texts), len(texts)):
        sentence = read(text)
        places = [p for p in sentence.positions if sentence.ids[p] in words]
        count = round(rate * len(places))
        if count < FEWEST_BLANKS or len(places) > settings.most_tokens or len(sentence.ids) > mlm.window:
            continue
        blanks = sorted(random.Random(f"{settings.seed} {rate} {text}").sample(places, count))
        found.append(Cloze.of_ids(sentence.ids, blanks, mlm.vocabulary))
        if len(found) == settings.texts:
            break
    return found


class Decoding:
    """Fills texts with a model by every scheme, and says how each fared."""

    def __init__(self, mlm: MaskedLM, settings: DecodingSettings) -> None:
        self.mlm, self.settings = mlm, settings
        self._support = Support.words(mlm.vocabulary)

    @torch.inference_mode()
    def __call__(self, tasks: list[Task]) -> list[Record]:
        """Return the record of each text."""
        return [{**task, "schemes": self._measured(task)} for task in tasks]

    def _measured(self, task: Task) -> dict[str, Any]:
        cloze = Cloze.of_ids(task["ids"], task["blanks"], self.mlm.vocabulary)
        truth = cloze.truth
        assert truth is not None
        schemes = schemes_of(len(truth), self.settings)
        decode = ParallelDecoder(self.mlm, cloze, (self._support,) * len(truth))
        generator = torch.Generator().manual_seed(self.settings.seed)
        found = {}
        for name, scheme in schemes.items():
            scored = decode(scheme, known(truth))
            filled = decode(scheme, likeliest)
            alone = ParallelDecoder(self.mlm, cloze, decode.supports)
            began = time.process_time()
            sample = alone(scheme, drawn(generator))
            seconds = time.process_time() - began
            judged = decode(schemes[ONE_BY_ONE], known(sample.ids))
            found[name] = {
                "passes": scored.passes,
                "log_prob": scored.log_prob,
                "hits": sum(a == b for a, b in zip(filled.ids, truth, strict=True)),
                "sample_passes": sample.passes,
                "sample_log_prob": judged.log_prob,
                "seconds": round(seconds, 4),
            }
        return found


def measure_decoding(
    mlm: MaskedLM,
    data: Sequence[str],
    settings: DecodingSettings,
    *,
    out: Path | None = None,
    **spread: Unpack[Spread],
) -> list[Record]:
    """Decode texts of data such as `snli=FILE` by every scheme; with `out`, a killed run is resumed.

    Args:
        mlm: a model with a pair head.
        data: data sets as `evaluate` reads them.
        settings: what to measure.
        out: the file of records.
        spread: `ray`, `workers` and `progress`, as for `unmask.runs.run.Run.work`.
    """
    settings.check()
    check_has_head(mlm, wanted_by="decoding by a tree")
    tasks: list[Task] = []
    for named in data:
        name = named.partition("=")[0]
        texts = list(dict.fromkeys(read_sentences(named).texts))
        drawn_texts = {rate: draw_texts(mlm, texts, rate, settings) for rate in settings.rates}
        if not all(drawn_texts.values()):
            raise UsageError(f"no text of '{name}' is long enough to mask a share of it: give longer texts")
        tasks += [
            {
                "key": f"{name}:{rate:g}:{n}",
                "data": name,
                "rate": rate,
                "ids": [t if p not in cloze.blanks else _true(cloze, p) for p, t in enumerate(cloze.ids)],
                "blanks": list(cloze.blanks),
            }
            for rate, clozes in drawn_texts.items()
            for n, cloze in enumerate(clozes)
        ]
    return run_tasks(
        DECODING,
        tasks,
        worker_with(Decoding, mlm, settings, spread.get("ray")),
        {"model": mlm.name, "weights": weights_digest(mlm.name), **asdict(settings)},
        batch=1,
        out=out,
        stage="texts",
        **spread,
    )


def _true(cloze: Cloze, place: int) -> int:
    assert cloze.truth is not None
    return cloze.truth[cloze.blanks.index(place)]
