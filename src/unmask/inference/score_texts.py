"""`unmask.score_sentences`: the scores of texts, as rows that a program or a table can take.

The scores themselves are in `unmask.inference.sentence_scores`. The forward passes of all texts go together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, overload

from unmask.errors import UsageError
from unmask.inference.causal_scores import make_sentence_scorer
from unmask.inference.model_conditionals import PAIR_CANDIDATES
from unmask.inference.query import check_progress
from unmask.inference.scorable import Scorable, TextReader
from unmask.inference.sentence_scores import DISTRIBUTIONS, SentenceScore, check_orders, check_scores
from unmask.inference.sentences import Sentence
from unmask.lazy import require
from unmask.models.causal_lm import CausalLM
from unmask.models.in_memory import check_mlm
from unmask.models.load import load
from unmask.models.masked_lm import MaskedLM
from unmask.progress import Progress, silent
from unmask.text.support import Support
from unmask.text.vocabulary import Vocabulary
from unmask.values import Text, Whole, Word

if TYPE_CHECKING:
    import pandas

Metric = Literal["pll", "pll-word", "chain", "ag-chain"]
Per = Literal["sentence", "word", "token"]
BITS = 1 / math.log(2)


@dataclass(frozen=True)
class SentenceRow:
    """The score of a text."""

    text: str
    log_prob: float
    """In nats, as all log-probabilities are."""
    surprisal: float
    """-log2 of the same, in bits."""
    tokens: int
    per_token: float
    """Nats per token."""
    bits_per_byte: float | None
    """By which models with different tokens are compared; None for scores that are no probabilities."""


@dataclass(frozen=True)
class WordRow:
    """What one word adds to the score of its text, the pieces of it together."""

    sentence: int
    word: str
    log_prob: float
    surprisal: float
    tokens: int


@dataclass(frozen=True)
class TokenRow:
    """What one token adds to the score of its text."""

    sentence: int
    token: str
    word: int
    log_prob: float
    surprisal: float
    rank: int | None
    """1 if no token is likelier at its place; None where the score asks about a token at several places."""


Row = SentenceRow | WordRow | TokenRow


class SentenceScores(Sequence[Row]):
    """The rows of scores: one per text, word or token, as was asked for."""

    def __init__(self, rows: Sequence[Row], *, metric: str, per: str, model: str) -> None:
        self._rows, self.metric, self.per, self.model = tuple(rows), metric, per, model

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"<SentenceScores: {self.metric} of '{self.model}', {len(self)} rows, one per {self.per}>"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        rows = [asdict(row) for row in self._rows]
        return {"model": self.model, "metric": self.metric, "per": self.per, "rows": rows}

    def to_pandas(self) -> pandas.DataFrame:
        """Return a table, one row per text, word or token."""
        require("to_pandas", "tables", "pandas")
        import pandas

        return pandas.DataFrame([asdict(row) for row in self._rows])


def score_sentences(
    texts: str | Sequence[str],
    metric: Metric = "pll",
    *,
    prefix: str | Sequence[str] = "",
    suffix: str | Sequence[str] = "",
    per: Per = "sentence",
    mlm: MaskedLM | CausalLM | None = None,
    support: Literal["all", "words"] = "all",
    candidates: int = PAIR_CANDIDATES,
    orders: int = 1,
    seed: int = 0,
    progress: Progress = silent,
) -> SentenceScores:
    """Score sentences, alone or given what stands before and after them.

    Args:
        texts: one text or several; their forward passes go together.
        metric: `pll` (pseudo-log-likelihood), `pll-word` (the rest of a split word masked), `chain` or
            `ag-chain` (probabilities). A causal model has `chain`.
        prefix: stands before the text and is not scored; one for all texts, or one for each. A space is put
            between them if there is none.
        suffix: the same after the text.
        per: what a row of the result stands for: `sentence`, `word` or `token`.
        mlm: the model, masked or causal; the embedded one if none is given.
        support: the tokens that a text may hold, over which the model's answers are normalised.
        candidates: tokens per blank on which `ag-chain` joins a pair.
        orders: how many orders of the tokens `chain` is averaged over.
        seed: of the orders beyond left to right and right to left.
        progress: told of the forward passes.
    """
    check_progress(progress)
    given = _texts(texts)
    around = list(zip(_for_each("prefix", prefix, given), _for_each("suffix", suffix, given), strict=True))
    check_scores([metric])
    check_orders([metric], orders)
    candidates = Whole(1).check("candidates", candidates)
    Word(("sentence", "word", "token")).check("per", per)
    Word(("all", "words")).check("support", support)
    lm = load() if mlm is None else mlm if isinstance(mlm, CausalLM) else check_mlm(mlm)
    if isinstance(lm, CausalLM) and any(after for _, after in around):
        raise UsageError(f"'{lm.name}' is a causal language model, which sees no suffix: leave it out")
    tokens = Support.by_kind(lm.vocabulary, support)
    score = make_sentence_scorer(
        lm, [metric], support=tokens, candidates=candidates, orders=orders, seed=seed
    )
    read = TextReader(lm, tokens)
    spaced = lm.vocabulary.spaced
    sentences = [
        _sentence(read, n, text, _join(before, text, spaced), _join(after, text, spaced, after=True))
        for n, (text, (before, after)) in enumerate(zip(given, around, strict=True))
    ]
    found = score(sentences, progress)[metric]
    rows = (
        row
        for n, (text, sentence, values) in enumerate(zip(given, sentences, found, strict=True))
        for row in _rows(n, text, sentence, values, lm.vocabulary, metric, per)
    )
    return SentenceScores(list(rows), metric=metric, per=per, model=lm.name)


def _texts(given: Any) -> list[str]:
    texts = [given] if isinstance(given, str) else given
    if isinstance(texts, dict | bytes) or not hasattr(texts, "__iter__") or getattr(texts, "ndim", 1) == 0:
        raise UsageError(f"expected a text or a list of texts, got {type(given).__name__}")
    texts = list(texts)
    if not texts:
        raise UsageError("expected a text or a list of texts, got an empty list")
    for n, text in enumerate(texts):
        if not isinstance(text, str):
            raise UsageError(f"expected texts as strings, got {type(text).__name__} as text {n}")
        Text().check(f"text {n}", text)
    return texts


def _for_each(name: str, given: str | Sequence[str], texts: list[str]) -> list[str]:
    if isinstance(given, str):
        return [Text().check(name, given)] * len(texts)
    found = _texts(given)
    if len(found) != len(texts):
        raise UsageError(f"expected one {name}, or one for each of {len(texts)} texts, got {len(found)}")
    return found


def _join(context: str, text: str, spaced: bool, *, after: bool = False) -> str:
    """Return a prefix or a suffix with the space that parts it from the text, if there is to be one."""
    if not context or not spaced:
        return context
    first, second = (text, context) if after else (context, text)
    apart = first[-1:].isspace() or second[:1].isspace() or (after and not second[0].isalnum())
    return context if apart else f" {context}" if after else f"{context} "


def _sentence(read: TextReader, number: int, text: str, prefix: str, suffix: str) -> Sentence:
    found = read(text, prefix=prefix, suffix=suffix) if text.strip() else Scorable(None, 0)
    if found.sentence is None:
        raise UsageError(f"text {number} can't be scored: {found.note or 'it is empty'}")
    return found.sentence


def _rows(
    number: int,
    text: str,
    sentence: Sentence,
    score: SentenceScore,
    vocabulary: Vocabulary,
    metric: str,
    per: str,
) -> Iterator[Row]:
    """Go through the rows of one text."""
    total = score.log_prob
    if per == "sentence":
        size = len(text.encode())
        bits_per_byte = -total * BITS / size if metric in DISTRIBUTIONS else None
        yield SentenceRow(text, total, -total * BITS, len(sentence), total / len(sentence), bits_per_byte)
        return
    numbers = [word - sentence.words[0] for word in sentence.words]
    if per == "token":
        ranks = score.ranks or (None,) * len(sentence)
        for token, word, log_prob, rank in zip(sentence.tokens, numbers, score.log_probs, ranks, strict=True):
            yield TokenRow(number, vocabulary.token(token), word, log_prob, -log_prob * BITS, rank)
        return
    for word in dict.fromkeys(numbers):
        places = [place for place, other in enumerate(numbers) if other == word]
        log_prob = math.fsum(score.log_probs[place] for place in places)
        spelled = vocabulary.surface(*(sentence.tokens[place] for place in places))
        yield WordRow(number, spelled, log_prob, -log_prob * BITS, len(places))
