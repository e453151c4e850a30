"""The chain in several orders, averaged: q(t) = 1/n Σ_o q_o(t).

q_o fills the N tokens of a sentence in the order o: log q_o(t) = Σ log p(t_i | the tokens before i in o, and
masks elsewhere). Each q_o is a distribution over the V^N sentences of N tokens, and so is their average,
because the orders depend on N and a seed alone, never on the tokens. The average is never worse than the mean
of its orders: log q ≥ mean of log q_o, by Jensen's inequality. (A masked language model is trained for all
orders at once; Uria et al. 2014 averaged over orders in the same way.)

With the orders' posterior weights w_o = q_o / Σ q_o', log q = Σ w_o log q_o + H(w) - log n. A token's share
is the average of its log-probabilities by these weights, and an equal part of H(w) - log n.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch

from unmask.inference.sentences import Sentence


@dataclass(frozen=True)
class Order:
    """The n-th order of a seed: left to right, right to left, and random ones from then on."""

    number: int
    seed: int = 0

    def ranks(self, length: int) -> tuple[int, ...]:
        """Return when each of so many tokens is filled: 0 for the first one."""
        return _ranks(self.number, self.seed, length)


@lru_cache(maxsize=4096)
def _ranks(number: int, seed: int, length: int) -> tuple[int, ...]:
    if number < 2:
        return tuple(range(length)[:: -1 if number else 1])
    order = list(range(length))
    random.Random(f"{seed} {number} {length}").shuffle(order)
    return tuple(order)


@dataclass(frozen=True)
class Following:
    """Masks a token and all that come later in an order."""

    order: Order

    def __call__(self, sentence: Sentence, place: int) -> Iterable[int]:
        """Return the places that are masked when one is asked for."""
        ranks = self.order.ranks(len(sentence))
        return [other for other, rank in enumerate(ranks) if rank >= ranks[place]]


def mixture(log_probs: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Return each token's share in the average over orders, from its log-probabilities [orders, tokens]."""
    of_orders = torch.tensor(log_probs, dtype=torch.float64)
    total = of_orders.sum(1)
    weights = total.softmax(0)
    shares = weights @ of_orders
    left = (total.logsumexp(0) - torch.tensor(float(len(total)), dtype=torch.float64).log()) - shares.sum()
    return tuple((shares + left / len(shares)).tolist())
