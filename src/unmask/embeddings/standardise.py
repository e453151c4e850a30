"""The standardiser: subtract the mean, divide by the standard deviation, dimension by dimension.

A few dimensions of a contextual vector are so large that they decide every cosine (Timkey & van Schijndel
2021, "All Bark and No Bite"); standardisation gives each dimension the same say. Means and deviations are
gathered chunk by chunk in float64, by the formula of Chan, Golub & LeVeque (1979) for joining two samples,
and saved as safetensors, under the name of the layers that they belong to.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from unmask.errors import RunError, UsageError

Array = np.ndarray[Any, Any]


class Moments:
    """Mean and deviation of vectors that come in chunks."""

    def __init__(self, width: int) -> None:
        self.count = 0
        self.mean = np.zeros(width)
        self.squares = np.zeros(width)  # sum of squared distances from the mean

    def add(self, vectors: Array) -> None:
        """Take in a chunk, [vectors, features]."""
        if not len(vectors):
            return
        chunk = vectors.astype(np.float64)
        mean = chunk.mean(axis=0)
        total = self.count + len(chunk)
        step = mean - self.mean
        self.squares += ((chunk - mean) ** 2).sum(axis=0) + step**2 * (self.count * len(chunk) / total)
        self.mean = self.mean + step * (len(chunk) / total)
        self.count = total

    def standardiser(self) -> Standardiser:
        """Return what has been learned; a dimension that never changes is only shifted."""
        if self.count < 2:
            raise UsageError(f"a standardiser needs at least two vectors, got {self.count}: give more text")
        deviation = np.sqrt(self.squares / self.count)
        tiny = deviation <= 1e-9 * np.maximum(np.abs(self.mean), 1e-30)
        return Standardiser(self.mean, np.where(tiny, 1.0, deviation))


class Standardiser:
    """The fitted shift and scale of each dimension, float64."""

    def __init__(self, mean: Array, deviation: Array) -> None:
        self.mean, self.deviation = mean, deviation

    @classmethod
    def fit(cls, vectors: Array) -> Standardiser:
        """Learn from vectors that are at hand."""
        moments = Moments(vectors.shape[1])
        moments.add(vectors)
        return moments.standardiser()

    def apply(self, vectors: Array) -> Array:
        """Return the vectors with zero mean and unit deviation, float32."""
        if vectors.shape[1] != len(self.mean):
            raise UsageError(
                f"the standardiser is for vectors of {len(self.mean)} dimensions, got {vectors.shape[1]}: "
                f"fit one on this model and these layers ('unmask isotropy --standardiser FILE')"
            )
        even: Array = ((vectors.astype(np.float64) - self.mean) / self.deviation).astype(np.float32)
        return even

    @classmethod
    def load(cls, path: Path, layers: str, weights: str | None = None) -> Standardiser:
        """Read the statistics of some layers from a file; those of other `weights` (a digest) are refused."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="np") as held:
                about = held.metadata() or {}
                if other_weights(about.get("weights"), weights):
                    raise UsageError(
                        f"'{path}' was fitted on other weights (of {about.get('model')}): fit it anew on "
                        "this model ('unmask isotropy --standardiser FILE')"
                    )
                names = sorted({name.rsplit("/", 1)[0] for name in held.keys()})  # noqa: SIM118
                if layers not in names:
                    raise UsageError(
                        f"'{path}' holds statistics of layers {', '.join(names)}, not of {layers}"
                    )
                return cls(held.get_tensor(f"{layers}/mean"), held.get_tensor(f"{layers}/deviation"))
        except FileNotFoundError:
            raise UsageError(
                f"no standardiser at '{path}': 'unmask isotropy --standardiser FILE' makes one"
            ) from None
        except (SafetensorError, OSError) as error:
            raise RunError(f"'{path}' is no standardiser that can be read ({error}): fit it anew") from None


def other_weights(fitted: str | None, given: str | None) -> bool:
    """Whether two digests of weights differ; where one is not known (on the hub), nobody can tell."""
    return fitted is not None and given is not None and fitted != given


def save_standardisers(fitted: dict[str, Standardiser], path: Path, about: dict[str, str]) -> None:
    """Write the statistics of several layers into one file."""
    from safetensors.numpy import save_file

    tensors = {}
    for layers, one in fitted.items():
        tensors[f"{layers}/mean"] = np.ascontiguousarray(one.mean)
        tensors[f"{layers}/deviation"] = np.ascontiguousarray(one.deviation)
    save_file(tensors, path, metadata=about)
