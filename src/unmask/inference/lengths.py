"""Length distributions: what makes a chain a language model over texts of any length.

A chain is a distribution over the V^N sentences of N tokens, for each N. With a distribution over N,

    log P(sentence) = log P(N) + log q_N(t_1 ... t_N),

the sum over all sentences of all lengths is 1. `parse_lengths` reads one of

- `empirical`: the lengths of the very file that is scored;
- a file of sentences, or of JSON {"length": probability};
- `uniform:M`: 1 to M alike; `geometric:M`: with mean M.

Counted lengths are mixed with a geometric of the same mean (of 2 at least, which a geometric of more than one
length needs), at 1 part in count + 1, so that no length is impossible and the whole still sums to 1.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np

from unmask.errors import UsageError


class Lengths:
    """A distribution over the number of a sentence's tokens, from 1 on.

    Args:
        name: what to call it in reports.
        log_prob: the log-probability of a length.
        parameters: all that it depends on, the same for the same distribution.

    Attributes:
        digest: tells distributions of one name apart.
    """

    def __init__(self, name: str, log_prob: Callable[[int], float], parameters: object) -> None:
        self.name = name
        self.digest = hashlib.sha256(repr(parameters).encode()).hexdigest()[:24]
        self._log_prob = log_prob

    def log_prob(self, length: int) -> float:
        """Return the log-probability of a length; -inf for one that can't be."""
        return self._log_prob(length) if length >= 1 else -math.inf


def counted(lengths: Iterable[int], name: str = "empirical") -> Lengths:
    """Return the distribution of counted lengths, mixed with a little of a geometric of the same mean."""
    counts = Counter(n for n in lengths if n >= 1)
    total = sum(counts.values())
    if not total:
        raise UsageError(
            "no sentence has a token, so that there are no lengths to count: take uniform:M or geometric:M"
        )
    mean = sum(n * c for n, c in counts.items()) / total
    tail, share = geometric(max(2.0, mean)), 1 / (total + 1)

    def log_prob(n: int) -> float:
        seen = math.log((1 - share) * counts[n] / total) if counts[n] else -math.inf
        return float(np.logaddexp(seen, math.log(share) + tail.log_prob(n)))

    return Lengths(name, log_prob, sorted(counts.items()))


def geometric(mean: float) -> Lengths:
    """Return P(n) = (1 - s)^(n-1) s with mean 1/s."""
    if not 1 <= mean < math.inf:
        raise UsageError(f"the mean of a geometric length is a number from 1 on, got {mean}")
    stop = 1 / mean
    go_on = math.log1p(-stop) if stop < 1 else -math.inf
    return Lengths(
        f"geometric:{mean:g}",
        lambda n: math.log(stop) + (n - 1) * go_on if n > 1 else math.log(stop),
        ("geometric", mean),
    )


def uniform(most: int) -> Lengths:
    """Return P(n) = 1 / most for 1 <= n <= most."""
    if most < 1:
        raise UsageError(f"the longest length of a uniform distribution is 1 or more, got {most}")
    return Lengths(
        f"uniform:{most}", lambda n: -math.log(most) if n <= most else -math.inf, ("uniform", most)
    )


def given(probabilities: Mapping[int, float], name: str = "given") -> Lengths:
    """Return the distribution with these probabilities, which must sum to 1."""
    # written so that NaN, which is neither above nor below anything, is refused
    for length, p in probabilities.items():
        if not (length >= 1 and 0 <= p <= 1):
            raise UsageError(
                f"expected probabilities from 0 to 1 of lengths from 1 on, got {p:g} for the length {length}"
            )
    total = math.fsum(probabilities.values())
    if abs(total - 1) > 1e-6:
        raise UsageError(f"expected probabilities of lengths that sum to 1, got some that sum to {total:g}")
    return Lengths(
        name,
        lambda n: math.log(probabilities[n]) if probabilities.get(n, 0) > 0 else -math.inf,
        sorted(probabilities.items()),
    )


def parse_lengths(text: str, count: Callable[[Path], Iterable[int]], scored: Path) -> Lengths:
    """Read what --lengths says; `count` gives the lengths of the sentences of a file."""
    if text == "empirical":
        return counted(count(scored))
    kind, colon, number = text.partition(":")
    try:
        if colon and kind == "uniform":
            return uniform(int(number))
        if colon and kind == "geometric":
            return geometric(float(number))
    except ValueError as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"expected a number after '{kind}:', got '{number}'") from None
    path = Path(text)
    if not path.is_file():
        raise UsageError(
            f"expected lengths as empirical, uniform:M, geometric:M or a file, got '{text}', which is no file"
        )
    if path.suffix == ".json":
        try:
            table = {int(n): float(p) for n, p in json.loads(path.read_text(encoding="utf-8")).items()}
        except (ValueError, AttributeError, TypeError):
            raise UsageError(
                f'{path}: expected JSON like {{"1": 0.2, "2": 0.8}}, length: probability'
            ) from None
        return given(table, str(path))
    return counted(count(path), str(path))
