"""Isotropy: how evenly the vectors of words lie in space, layer by layer.

The expected cosine of two random words is 0 if directions are evenly spread and near 1 if all vectors lie in
a narrow cone (Ethayarajh 2019). It is computed over all pairs at once, from unit vectors u:
(‖Σu‖² − n) / n(n − 1). Its largest share that comes from one single dimension tells a rogue dimension from a
cone (Timkey & van Schijndel 2021). The share of the variance in the leading directions is that of the largest
eigenvalues λ of the covariance; (Σλ)² / Σλ² says how many directions the variance fills.

Two remedies are measured beside the raw vectors: standardisation, and the removal of the mean and of the
leading components (Mu & Viswanath 2018, "All-but-the-Top"). Both are fitted on one half of the texts and
measured on the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from unmask.embeddings.encoder import Encoder
from unmask.embeddings.files import Text
from unmask.embeddings.standardise import Array, Standardiser
from unmask.errors import UsageError
from unmask.progress import Progress, silent
from unmask.runs.run import in_batches

TEXTS_A_CHUNK = 256
REMEDIES = ("raw", "standardised", "top removed")


@dataclass(frozen=True)
class Isotropy:
    """The measures of one sample of vectors."""

    cosine: float  # expected cosine of two random words
    one_dimension: float  # the largest part of it that is owed to a single dimension
    leading_1: float  # share of the variance in the leading direction
    leading_3: float
    leading_10: float
    directions: float  # how many directions the variance fills

    def record(self) -> dict[str, float]:
        """The numbers by name."""
        return asdict(self)


@dataclass(frozen=True)
class LayerIsotropy:
    """The measures by layers and remedy, and the standardisers that were fitted."""

    measures: dict[str, dict[str, Isotropy]]
    standardisers: dict[str, Standardiser]
    texts: int
    words: int  # vectors that were measured; about as many were fitted on
    removed: int  # leading components that were removed


def measure(vectors: Array) -> Isotropy:
    """Return the measures of vectors, [words, features]."""
    if len(vectors) < 2:
        raise UsageError(f"isotropy is measured between words, got {len(vectors)}: give more text")
    x = vectors.astype(np.float64)
    unit = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    by_dimension = (unit.sum(axis=0) ** 2 - (unit**2).sum(axis=0)) / (len(x) * (len(x) - 1))
    eigenvalues = np.maximum(np.linalg.eigvalsh(np.cov(x.T, bias=True))[::-1], 0)
    total = max(float(eigenvalues.sum()), 1e-30)
    return Isotropy(
        cosine=float(by_dimension.sum()),
        one_dimension=float(by_dimension.max()),
        leading_1=float(eigenvalues[:1].sum() / total),
        leading_3=float(eigenvalues[:3].sum() / total),
        leading_10=float(eigenvalues[:10].sum() / total),
        directions=float(total**2 / max((eigenvalues**2).sum(), 1e-30)),
    )


def remover(vectors: Array, components: int) -> Callable[[Array], Array]:
    """Return the function that takes away the mean and the leading components of these vectors."""
    x = vectors.astype(np.float64)
    mean = x.mean(axis=0)
    _, leading = np.linalg.eigh(np.cov(x.T, bias=True))
    top = leading[:, -components:] if components else np.zeros((x.shape[1], 0))

    def apply(others: Array) -> Array:
        centred = others.astype(np.float64) - mean
        rest: Array = (centred - (centred @ top) @ top.T).astype(np.float32)
        return rest

    return apply


def isotropy_by_layer(
    encoder: Encoder,
    texts: Iterable[Text],
    layers: Iterable[str] | None = None,
    *,
    sample: int = 2000,
    remove: int | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> LayerIsotropy:
    """Measure the words of up to `sample` texts, drawn at random, at each of the layers (by default all).

    `remove` is the number of leading components taken away, by default a hundredth of the dimensions.
    """
    choices = [encoder.layers(name) for name in layers or map(str, range(encoder.depth + 1))]
    narrowest = min(map(encoder.width_of, choices))
    if remove is not None and remove >= narrowest:
        raise UsageError(
            f"the vectors have {narrowest} dimensions, of which {remove} can't be removed: take fewer"
        )
    drawn = draw(texts, sample, np.random.default_rng(seed))
    if len(drawn) < 2:
        raise UsageError(f"isotropy needs at least two texts, got {len(drawn)}: give more, one per line")
    reader = encoder.reader()
    halves: list[list[list[Array]]] = [[[] for _ in choices] for _ in range(2)]
    parts = ((half, c) for half in (0, 1) for c in in_batches(drawn[half::2], TEXTS_A_CHUNK))
    for half, chunk in progress.over(parts, total=len(drawn), size=lambda p: len(p[1]), stage="texts"):
        found = encoder.embed(list(reader.read_all(chunk)), reader, choices)
        for into, vectors in zip(halves[half], found, strict=True):
            into.append(vectors)
    measures, standardisers = {}, {}
    words = removed = 0
    for i, choice in enumerate(choices):
        fitted, held = (np.concatenate(half[i]) for half in halves)
        words = len(held)
        removed = max(1, fitted.shape[1] // 100) if remove is None else remove
        even = standardisers[choice.name] = Standardiser.fit(fitted)
        remedied = (held, even.apply(held), remover(fitted, removed)(held))
        measures[choice.name] = dict(zip(REMEDIES, map(measure, remedied), strict=True))
    return LayerIsotropy(measures, standardisers, len(drawn), words, removed)


def draw(texts: Iterable[Text], size: int, generator: np.random.Generator) -> list[Text]:
    """Return a random sample of a stream (Vitter's algorithm R), in random order."""
    kept: list[Any] = []
    for number, text in enumerate(texts):
        if number < size:
            kept.append(text)
        elif (place := int(generator.integers(number + 1))) < size:
            kept[place] = text
    return [kept[i] for i in generator.permutation(len(kept))]
