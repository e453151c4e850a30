"""The log-probability of a sentence, four ways.

For a sentence t_1 ... t_N, every sum running over its tokens:

- `pll`, the pseudo-log-likelihood: sum log p(t_i | all others) (Wang & Cho 2019; Salazar et al. 2020). No
  probability of anything: it counts each token's help to its neighbours on both sides.
- `pll-word`, the same with the rest of the token's own word hidden to its right, so that the pieces of a rare
  word don't give each other away: sum log p(t_i | all but the later pieces of its word) (Kauf & Ivanova
  2023).
- `chain`, one token after the other with all later ones masked: sum log p(t_i | t_1 ... t_(i-1), N - i + 1
  masks). An explicit distribution over the V^N sentences of N tokens, which sums to 1.
- `ag-chain`, the chain of blocks of two, each by the Arnold-Gokhale joint of its pair on the K likeliest
  tokens of each, with a tail over all others (`unmask.sequence.tailed`): again a distribution over all V^N
  sentences.

The first three need N masked copies of the sentence. Copies of all sentences of one length go through the
model together, at most a batch at a time, whatever the length; only the masked position's state goes through
the output layer. So long sentences take time and no memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.errors import Misuse
from unmask.mlm import MaskedLM
from unmask.progress import Progress, silent
from unmask.sequence.chain import Chain
from unmask.sequence.sentences import Hidden, Sentence, masked_copies
from unmask.sequence.tailed import pair_joint
from unmask.vocabulary import Support

ROWS_AT_ONCE = 64
DEFAULT_PAIR_CANDIDATES = 16


def _itself(_sentence: Sentence, place: int) -> Iterable[int]:
    return (place,)


def _rest_of_its_word(sentence: Sentence, place: int) -> Iterable[int]:
    word = sentence.words[place]
    return (i for i in range(place, len(sentence)) if sentence.words[i] == word)


def _all_that_follows(sentence: Sentence, place: int) -> Iterable[int]:
    return range(place, len(sentence))


ONE_AT_A_TIME: dict[str, Hidden] = {
    "pll": _itself,
    "pll-word": _rest_of_its_word,
    "chain": _all_that_follows,
}
SCORES = (*ONE_AT_A_TIME, "ag-chain")
DISTRIBUTIONS = ("chain", "ag-chain")
"""The scores that are log-probabilities of a distribution over sentences of a length."""


@dataclass(frozen=True)
class SentenceScore:
    """A sentence's log-probability, and what each of its units adds: a token, or a pair in `ag-chain`."""

    log_probs: tuple[float, ...]

    @property
    def log_prob(self) -> float:
        """The sum."""
        return sum(self.log_probs)


def check_scores(names: Sequence[str]) -> None:
    """Refuse a score that there is not."""
    for name in names:
        if name not in SCORES:
            raise Misuse(f"unknown score '{name}': expected one of {', '.join(SCORES)}")
    if not names or len(set(names)) != len(names):
        raise Misuse(f"expected one or more scores, each once, out of {', '.join(SCORES)}")


def score_sentences(
    mlm: MaskedLM,
    sentences: Sequence[Sentence],
    name: str,
    *,
    support: Support | None = None,
    candidates: int = DEFAULT_PAIR_CANDIDATES,
    progress: Progress = silent,
) -> list[SentenceScore]:
    """Score sentences, in the order in which they came.

    Args:
        mlm: the model.
        sentences: of at least one token each, and no longer than the model's window.
        name: one of `SCORES`.
        support: the tokens that a sentence may hold, over which the model's answers are normalised; every
            token by default.
        candidates: tokens a blank on which `ag-chain` joins a pair.
        progress: told of the forward passes.
    """
    check_scores([name])
    tokens = support or Support.everything(mlm.vocabulary)
    if name == "ag-chain":
        return [
            _pair_chain(mlm, s, tokens, candidates)
            for s in progress.over(sentences, total=len(sentences), stage="sentences")
        ]
    return _one_at_a_time(mlm, sentences, ONE_AT_A_TIME[name], tokens, progress)


@torch.inference_mode()
def _one_at_a_time(
    mlm: MaskedLM, sentences: Sequence[Sentence], hidden: Hidden, support: Support, progress: Progress
) -> list[SentenceScore]:
    groups: dict[int, list[int]] = defaultdict(list)
    for n, sentence in enumerate(sentences):
        groups[len(sentence.ids)].append(n)
    found = [torch.empty(len(sentence), dtype=torch.float64) for sentence in sentences]
    decode = mlm.decoder(support.ids)
    progress.started("forward passes", sum(len(sentence) for sentence in sentences))
    try:
        for length, members in sorted(groups.items()):
            # by place first: the copies of a batch are asked about few positions
            most = max(len(sentences[n]) for n in members)
            rows = [(n, place) for place in range(most) for n in members if place < len(sentences[n])]
            size = min(mlm.batch_size(length), ROWS_AT_ONCE)
            for start in range(0, len(rows), size):
                part = rows[start : start + size]
                ids = masked_copies(sentences, part, hidden, mlm.vocabulary.mask_id)
                log_probs = _at_targets(mlm, decode, support, sentences, part, ids)
                for (n, place), log_prob in zip(part, log_probs.tolist(), strict=True):
                    found[n][place] = log_prob
                progress.advanced(len(part))
    finally:
        progress.finished()
    return [SentenceScore(tuple(line.tolist())) for line in found]


def _at_targets(
    mlm: MaskedLM,
    decode: Callable[[Tensor], Tensor],
    support: Support,
    sentences: Sequence[Sentence],
    rows: Sequence[tuple[int, int]],
    ids: Tensor,
) -> Tensor:
    """Return the log-probability of each row's own token at its place, [rows]."""
    positions = [sentences[n].positions[place] for n, place in rows]
    asked = sorted(set(positions))
    where = torch.tensor([asked.index(position) for position in positions])
    states = mlm.states_at(ids, asked)[torch.arange(len(rows)), where.to(mlm.device)]
    targets = support.indices(torch.tensor([sentences[n].tokens[place] for n, place in rows]))
    logits = decode(states)
    normaliser = logits.logsumexp(-1).double()
    return logits[torch.arange(len(rows)), targets.to(logits.device)].double() - normaliser


def _pair_chain(mlm: MaskedLM, sentence: Sentence, support: Support, candidates: int) -> SentenceScore:
    chain = Chain(
        mlm,
        sentence.cloze(mlm.vocabulary),
        (support,) * len(sentence),
        pair=lambda cloze, supports: pair_joint(mlm, cloze, supports, candidates=candidates),
    )
    return SentenceScore(tuple(log_prob for _, log_prob in chain.path(*sentence.tokens)))
