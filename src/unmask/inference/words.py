"""Blanks that hold whole words, of one to three tokens each, compared fairly across lengths.

A word is a token that starts one, followed by tokens that go on inside it; it has a letter or a digit. For
each number L of tokens the text is written with L masks in the blank, and the one-token chain, left to right,
gives the probability q_L of any L tokens there, over all V^L of them. The word w of the pieces w_1 ... w_L is
worth

    q(w) = prior(L) q_L(w_1, ..., w_L),

the prior over lengths being even unless it is given. This is what *fairly* means here:

- every piece is paid for: no length is favoured by an average over tokens;
- the end of the word is paid for: after a first piece the model could start another word in the next mask,
  and the mass that it puts there is lost to the words of that length. A length at which the model rather sees
  several words, or none, keeps little mass, and nothing is renormalised within a length;
- all lengths share one unit of mass: summed over all lengths and all token sequences, q is 1. The words are a
  part of these, so their probabilities sum to less than 1, the rest being on sequences that are no words.

With several blanks the lengths are combined, and the chain runs over the tokens of all of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.errors import UsageError
from unmask.inference.model_conditionals import ModelConditionals
from unmask.joints.blank_conditionals import MASKED
from unmask.joints.chain import State
from unmask.models.masked_lm import MaskedLM
from unmask.progress import Progress, silent
from unmask.text.cloze import Cloze, expanded
from unmask.text.support import Support
from unmask.text.vocabulary import word_parts
from unmask.values import plural

MOST_TOKENS = 3
MOST_BLANKS = 4
BEAM = 24


@dataclass(frozen=True)
class WordFilling:
    """Words for the blanks: their pieces, the text that they make, and the log of their joint probability."""

    words: tuple[str, ...]
    ids: tuple[tuple[int, ...], ...]
    text: str
    log_prob: float


@dataclass(frozen=True)
class WordFillings:
    """The likeliest words of a text's blanks, and what was asked to find them."""

    fillings: list[WordFilling]
    prior: tuple[float, ...]
    passes: int
    cloze: Cloze


@torch.inference_mode()
def fill_words(
    mlm: MaskedLM,
    cloze: Cloze,
    *,
    top: int = 10,
    most_tokens: int = MOST_TOKENS,
    prior: Sequence[float] | None = None,
    beam: int = BEAM,
    progress: Progress = silent,
) -> WordFillings:
    """Return the likeliest words for the blanks of a text, each of 1 to `most_tokens` tokens.

    Args:
        mlm: the model.
        cloze: the text, a mask for each word.
        top: how many fillings.
        most_tokens: the longest word.
        prior: the probability of each length, before the model is asked; even by default.
        beam: how many partial fillings are kept while searching.
        progress: told of the combinations of lengths.
    """
    blanks = len(cloze.blanks)
    if blanks > MOST_BLANKS:
        raise UsageError(
            f"whole words fit in at most {MOST_BLANKS} blanks, and the text has {blanks}: leave fewer"
        )
    if not 1 <= most_tokens <= MOST_TOKENS:
        raise UsageError(f"expected words of 1 to {MOST_TOKENS} tokens, got {most_tokens}")
    shares = _checked_prior(prior, most_tokens)
    starts, insides = word_parts(mlm.vocabulary)
    if most_tokens > 1 and not insides.any():
        raise UsageError(
            "this vocabulary has no tokens that go on inside a word: take words of 1 token (--pieces 1)"
        )
    longest = len(cloze.ids) + blanks * (most_tokens - 1)
    if longest > mlm.window:
        raise UsageError(
            f"with words of {plural(most_tokens, 'token')} the text is {longest} tokens long, but the "
            f"model's window holds {mlm.window}: shorten it, or take shorter words"
        )
    support = Support.words(mlm.vocabulary)
    allowed = (starts[support.ids], insides[support.ids])
    found: list[WordFilling] = []
    passes = 0
    combinations = list(itertools.product(range(1, most_tokens + 1), repeat=blanks))
    for lengths in progress.over(combinations, total=len(combinations), stage="combinations of lengths"):
        longer = expanded(cloze, lengths)
        conditionals = ModelConditionals(mlm, longer, (support,) * len(longer.blanks))
        log_prior = sum(math.log(shares[n - 1]) if shares[n - 1] else -math.inf for n in lengths)
        if log_prior > -math.inf:
            for ids, log_prob in _search(conditionals, lengths, allowed, max(beam, top)):
                found.append(_filling(longer, lengths, ids, log_prior + log_prob))
        passes += conditionals.passes
    found.sort(key=lambda filling: -filling.log_prob)
    return WordFillings(found[:top], shares, passes, cloze)


def _search(
    conditionals: ModelConditionals, lengths: Sequence[int], allowed: tuple[Tensor, Tensor], beam: int
) -> list[tuple[State, float]]:
    """Return the likeliest words of these lengths that a beam search finds, as ids and log-probabilities."""
    kept: list[tuple[State, float]] = [((MASKED,) * conditionals.blanks, 0.0)]
    heads = [n == 0 for length in lengths for n in range(length)]
    support = conditionals.supports[0]
    for blank, head in enumerate(heads):
        log_probs = conditionals.log_probs(torch.tensor([state for state, _ in kept]), blank).cpu()
        log_probs += torch.tensor([log_prob for _, log_prob in kept], dtype=torch.float64)[:, None]
        log_probs[:, ~allowed[0 if head else 1]] = -torch.inf
        best = log_probs.flatten().topk(min(beam, log_probs.numel()))
        longer = []
        for where, log_prob in zip(best.indices.tolist(), best.values.tolist(), strict=True):
            if log_prob > -math.inf:
                state = kept[where // len(support)][0]
                token = int(support.ids[where % len(support)])
                longer.append(((*state[:blank], token, *state[blank + 1 :]), log_prob))
        kept = longer
    return kept


def _filling(cloze: Cloze, lengths: Sequence[int], ids: State, log_prob: float) -> WordFilling:
    ends = list(itertools.accumulate(lengths))
    parts = tuple(ids[end - length : end] for end, length in zip(ends, lengths, strict=True))
    words = tuple(cloze.vocabulary.surface(*part) for part in parts)
    return WordFilling(words, parts, cloze.filled(ids), log_prob)


def _checked_prior(prior: Sequence[float] | None, most_tokens: int) -> tuple[float, ...]:
    if prior is None:
        return (1 / most_tokens,) * most_tokens
    if len(prior) != most_tokens or min(prior) < 0 or not 0.999 < sum(prior) < 1.001:
        raise UsageError(
            f"expected the probabilities of words of 1 to {most_tokens} tokens, which sum to 1, got "
            f"{', '.join(str(p) for p in prior)}"
        )
    return tuple(float(p) / sum(prior) for p in prior)
