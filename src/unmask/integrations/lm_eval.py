"""lm-evaluation-harness: masked language models as the model `unmask`, scored by their chains.

    python -m unmask.integrations.lm_eval --model unmask --model_args pretrained=english,metric=chain \\
        --tasks blimp

The harness has no place for plugins, so this module registers the model and then starts the harness's own
command line; in Python, importing it is enough.

`loglikelihood(context, continuation)` is the chain's log-probability of the continuation's N tokens given the
context: log p(t_i | context, t_1 ... t_(i-1), N - i + 1 masks), a distribution over the continuations of N
tokens. `loglikelihood_rolling` cuts what is longer than the model's window into stretches of half a window,
each given the half before it.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from typing import Any

from unmask.errors import UnmaskError, UsageError
from unmask.inference.causal_scores import make_sentence_scorer
from unmask.inference.sentence_scores import DISTRIBUTIONS, SentenceScore, check_scores
from unmask.inference.sentences import Sentence, SentenceReader
from unmask.lazy import require
from unmask.models.load import load_language_model
from unmask.progress import silent

require("the model of lm-evaluation-harness", "lm-eval", "lm_eval")

from lm_eval.api.model import LM  # noqa: E402
from lm_eval.api.registry import register_model  # noqa: E402
from tqdm import tqdm  # noqa: E402

REQUESTS_AT_ONCE = 64


@register_model("unmask")
class UnmaskLM(LM):  # type: ignore[misc]
    """A language model of the harness.

    Args:
        pretrained: `english` (embedded), a checkpoint's directory or a hub name; masked, or causal.
        metric: `chain` or `ag-chain`, which are probabilities; or `pll` or `pll-word`, to rank choices.
        orders: how many orders of the tokens `chain` is averaged over.
        device: `auto`, `cpu`, `cuda` or `mps`.
        memory: what the work may take beyond the model, as in `4GB`; it decides the batches.
        allow_pickle: read pickled weights, which can run code.
        batch_size, max_batch_size: the harness gives them; `memory` counts instead.
    """

    def __init__(
        self,
        pretrained: str = "english",
        metric: str = "chain",
        *,
        orders: int = 1,
        device: str | None = None,
        memory: str = "4GB",
        allow_pickle: bool = False,
        batch_size: int | str | None = None,  # noqa: ARG002
        max_batch_size: int | None = None,  # noqa: ARG002
        **unknown: Any,
    ) -> None:
        super().__init__()
        for name in unknown:
            raise UsageError(
                f"the model unmask has no argument '{name}': expected pretrained, metric, orders, device, "
                f"memory or allow_pickle"
            )
        check_scores([metric])
        self.metric = metric
        self.lm = load_language_model(
            pretrained, device=device or "auto", memory=memory, allow_pickle=allow_pickle
        )
        self._score = make_sentence_scorer(self.lm, [metric], orders=orders)
        self._read = SentenceReader(self.lm)
        one = self._read.of_ids([self.lm.vocabulary.size - 1])
        self._before, self._room = one.positions[0], self.lm.window - len(one.ids) + 1

    @property
    def tokenizer_name(self) -> str:
        """The name under which the harness keeps requests."""
        return self.lm.name

    def loglikelihood(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Return the log-probability of each continuation, and whether all its tokens are the likeliest."""
        sentences = [self._fitted(*request.args) for request in requests]
        return [
            (score.log_prob, score.ranks is not None and all(rank == 1 for rank in score.ranks))
            for score in self._scores(sentences, disable_tqdm)
        ]

    def loglikelihood_rolling(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[float]:
        """Return the log-probability of each text, of whatever length."""
        if self.metric not in DISTRIBUTIONS:
            raise UsageError(
                f"the likelihood of a text wants a distribution, metric={' or '.join(DISTRIBUTIONS)}, and "
                f"{self.metric} is none"
            )
        parts = [self._stretches(request.args[0]) for request in requests]
        scores = iter(self._scores([part for stretches in parts for part in stretches], disable_tqdm))
        return [sum(next(scores).log_prob for _ in stretches) for stretches in parts]

    def generate_until(self, requests: Sequence[Any]) -> list[str]:  # noqa: ARG002
        """Refuse: texts of a given length are drawn by `unmask sample`."""
        raise UsageError(
            "the model unmask scores texts and does not write them: choose tasks of loglikelihood or "
            "multiple_choice, or draw texts by unmask sample"
        )

    def _fitted(self, context: str, continuation: str) -> Sentence:
        """Return the continuation given as much of the end of its context as the window holds."""
        sentence = self._read(continuation, prefix=context)
        surplus = len(sentence.ids) - self.lm.window
        if surplus <= 0:
            return sentence
        if len(sentence) > self._room:
            raise UsageError(
                f"a continuation of {len(sentence)} tokens does not fit the model's window of "
                f"{self.lm.window}: choose a task with shorter ones"
            )
        body = sentence.ids[self._before : self._before + self._room + surplus]
        first = sentence.positions[0] - self._before - surplus
        return self._read.of_ids(body[surplus:], range(first, first + len(sentence)))

    def _stretches(self, text: str) -> list[Sentence]:
        """Cut a text into what the window holds: all of it, or stretches each given what stands before it."""
        tokens = self._read(text).tokens
        ends = [0, *range(self._room, len(tokens), max(1, self._room // 2)), len(tokens)]
        stretches = []
        for start, stop in itertools.pairwise(ends):
            seen = max(0, stop - self._room)
            stretches.append(self._read.of_ids(tokens[seen:stop], range(start - seen, stop - seen)))
        return stretches

    def _scores(self, sentences: Sequence[Sentence], quiet: bool) -> list[SentenceScore]:
        """Score sentences some at a time; those that begin alike stand together and share passes."""
        order = sorted(range(len(sentences)), key=lambda n: (len(sentences[n].ids), sentences[n].ids))
        found: dict[int, SentenceScore] = {n: SentenceScore((), ()) for n in order}
        order = [n for n in order if len(sentences[n])]
        with tqdm(total=len(order), disable=quiet, desc=f"unmask {self.metric}", file=sys.stderr) as bar:
            for start in range(0, len(order), REQUESTS_AT_ONCE):
                part = order[start : start + REQUESTS_AT_ONCE]
                scores = self._score([sentences[n] for n in part], silent)[self.metric]
                found |= dict(zip(part, scores, strict=True))
                bar.update(len(part))
        return [found[n] for n in range(len(sentences))]


def main() -> None:
    """Run the harness's own command line, in which the model `unmask` is known."""
    from lm_eval.__main__ import cli_evaluate

    try:
        cli_evaluate()
    except UnmaskError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2 if isinstance(error, UsageError) else 1) from None


if __name__ == "__main__":
    main()
