"""Files of sentences, scored line by line: streamed, resumed, and spread over a cluster.

Lines are read and scored some at a time, so that a file of any size takes no more memory than these; each
line becomes one record, in the order of the file. An empty line keeps its place and has null scores, and so
does, with a note, a line that is longer than the model's window, or that spells one of its special tokens: a
mask in a sentence is a blank, and no token to be scored. A line with tokens that the model does not know is
scored, with a note. With a file of records a killed run is resumed (`unmask.runs.run`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, Unpack

from unmask.errors import UsageError
from unmask.inference.causal_scores import make_sentence_scorer
from unmask.inference.lengths import Lengths
from unmask.inference.model_conditionals import PAIR_CANDIDATES
from unmask.inference.query import Query
from unmask.inference.scorable import TextReader
from unmask.inference.sentence_scores import DISTRIBUTIONS, SCORES, check_orders, check_scores
from unmask.inference.sentences import Sentence, SentenceReader
from unmask.models.causal_lm import CausalLM
from unmask.models.digests import weights_digest
from unmask.models.embedded import absolute
from unmask.models.load import load_language_model
from unmask.models.masked_lm import MaskedLM
from unmask.runs.run import Run, Spread
from unmask.runs.settings_record import RunKind
from unmask.text.lines import Line, read_lines
from unmask.text.support import Support

LINES_AT_ONCE = 64
WORK_AT_ONCE = 2**18
"""The sum of squared characters of lines scored together: records come steadily, however long these are."""
SCORES_OF_A_FILE = RunKind("scores of a file")
Record = dict[str, Any]
Scorer = Callable[[list[Line]], list[Record]]


@dataclass(frozen=True)
class ScoreSettings:
    """All that the scores of a file depend on, beside the file."""

    model: str = "english"
    scores: tuple[str, ...] = SCORES
    support: int | str = "all"
    candidates: int = PAIR_CANDIDATES
    orders: int = 1
    truncate: bool = False
    device: str = "auto"
    memory: str = "4GB"
    allow_pickle: bool = False
    pair_head: str | None = "auto"

    def check(self) -> None:
        """Refuse what can't be, before a model is loaded."""
        check_scores(self.scores)
        check_orders(self.scores, self.orders)
        if self.support not in ("all", "words"):
            raise UsageError(f"sentences are scored over the support all or words, got '{self.support}'")
        Query(candidates=self.candidates, truncate=self.truncate)

    def to_dict(self) -> dict[str, Any]:
        """Return what the records depend on as plain data; the weights count by what they hold."""
        free = {"device", "memory", *(["pair_head"] if self.candidates else ())}
        free |= {"orders"} if self.orders == 1 else set()
        fixed = {name: value for name, value in asdict(self).items() if name not in free}
        return fixed | {"scores": list(self.scores), "weights": weights_digest(self.model)}


def make_scorer(settings: ScoreSettings) -> Scorer:
    """Load the model and return what scores lines with it; also what a worker of a cluster does first."""
    where = {name: getattr(settings, name) for name in ("device", "memory", "allow_pickle", "pair_head")}
    return LineScorer(load_language_model(settings.model, **where), settings)


class LineScorer:
    """Scores lines with a model; what the lines of earlier calls share with later ones is kept."""

    def __init__(self, mlm: MaskedLM | CausalLM, settings: ScoreSettings) -> None:
        settings.check()
        self.mlm, self.settings = mlm, settings
        support = Support.by_kind(mlm.vocabulary, settings.support)
        self._read = TextReader(mlm, support, truncate=settings.truncate)
        self._score = make_sentence_scorer(
            mlm, settings.scores, support=support, candidates=settings.candidates, orders=settings.orders
        )

    def __call__(self, lines: list[Line]) -> list[Record]:
        """Score some lines; one record per line, in their order."""
        records = [self._record(number, text) for number, text in lines]
        scored = [(record, sentence) for record, sentence in records if sentence is not None]
        found = self._score([sentence for _, sentence in scored])
        for name, scores in found.items():
            for (record, sentence), score in zip(scored, scores, strict=True):
                record["scores"][name] = {
                    "log_prob": score.log_prob,
                    "per_token": score.log_prob / len(sentence),
                    "log_probs": list(score.log_probs),
                }
                if name in DISTRIBUTIONS and not record.get("note", "").startswith("cut"):
                    size = len(record["text"].encode())
                    record["scores"][name]["bits_per_byte"] = -score.log_prob / math.log(2) / size
        return [record for record, _ in records]

    def _record(self, number: int, text: str) -> tuple[Record, Sentence | None]:
        """Return a line's record without its scores, and its sentence if it can be scored."""
        found = self._read(text)
        record: Record = {"key": number, "text": text, "length": found.length, "scores": None}
        if found.note is not None:
            record["note"] = found.note
        if found.sentence is not None:
            tokens = [self.mlm.vocabulary.token(token) for token in found.sentence.tokens]
            record |= {"tokens": tokens, "scores": {}}
        return record, found.sentence


def with_lengths(record: Record, lengths: Lengths | None) -> Record:
    """Add the log-probability as a text of any length to the scores that are distributions."""
    if lengths is not None and record["scores"]:
        of_length = lengths.log_prob(record["length"])
        for name in set(DISTRIBUTIONS) & set(record["scores"]):
            total = record["scores"][name]["log_prob"] + of_length
            # JSON knows no infinity: a length that can't be makes the text impossible
            record["scores"][name]["log_prob_of_text"] = total if total > float("-inf") else None
    return record


def count_lengths(path: Path, read: SentenceReader, most: int | None = None) -> Iterator[int]:
    """Go through the numbers of tokens of a file's sentences, cut to windows of `most` if one is given."""
    for _, text in read_lines(path):
        sentence = read(text)
        yield len(sentence) - (max(0, len(sentence.ids) - most) if most else 0)


def score_file(
    path: Path,
    settings: ScoreSettings,
    *,
    out: Path | None = None,
    lengths: Lengths | None = None,
    scorer: Scorer | None = None,
    **spread: Unpack[Spread],
) -> Iterator[Record]:
    """Score the lines of a file and yield their records, in the file's order.

    Args:
        path: the file, a sentence per line.
        settings: what to score by.
        out: a file of records; those that it holds are not made again.
        lengths: the distribution of lengths that makes the chains a model over texts of any length.
        scorer: what scores lines; by default one with the model of the settings.
        spread: `ray`, `workers` and `progress`, as for `unmask.runs.run.Run.work`.
    """
    settings.check()
    if out is not None and out.exists() and path.exists() and out.samefile(path):
        raise UsageError(f"{path} is the file that is scored: give another --out for the records")
    of_any_length = None if lengths is None else {"name": lengths.name, "digest": lengths.digest}
    there = replace(settings, model=absolute(settings.model))
    with Run.in_file(SCORES_OF_A_FILE, out, settings.to_dict() | {"lengths": of_any_length}) as run:
        run.check_keys()
        done = {r["key"]: hash(r.get("text")) for r in run}
        total = _check_lines(path, done)
        yield from run
        yield from run.work(
            read_lines(path),
            partial(make_scorer, there)
            if scorer is None or spread.get("ray") is not None
            else lambda: scorer,
            key=itemgetter(0),
            batches=_in_chunks,
            keep=partial(with_lengths, lengths=lengths),
            ordered=True,
            total=total,
            done=len(done),
            stage="lines",
            **spread,
        )


def _in_chunks(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Cut lines into parts of about the same work: a copy of each token, as long as the line."""
    chunk: list[Line] = []
    work = 0
    for line in lines:
        if chunk and (len(chunk) == LINES_AT_ONCE or work + len(line[1]) ** 2 > WORK_AT_ONCE):
            yield chunk
            chunk, work = [], 0
        chunk.append(line)
        work += len(line[1]) ** 2
    if chunk:
        yield chunk


def _check_lines(path: Path, done: dict[int, int]) -> int:
    """Return the number of the file's lines; refuse it if a line that was scored is another now, or gone."""
    last = 0
    for last, text in read_lines(path):
        if last in done and done[last] != hash(text):
            raise UsageError(
                f"line {last} of {path} is not the one that was scored before: give another --out"
            )
    gone = [number for number in done if number not in range(1, last + 1)]
    if gone:
        raise UsageError(
            f"{path} has {last} lines, and line {gone[0]} was scored before: give another --out, or the same "
            f"file"
        )
    return last
