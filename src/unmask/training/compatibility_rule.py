"""The settings of the compatibility penalty, checked without torch (`unmask.training.compatibility`)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from unmask.errors import UsageError

FILLINGS = ("true", "drawn")
"""What is set against a drawn filling: the true token, or another drawn one."""


@dataclass(frozen=True)
class Compatibility:
    """How much, on how many texts of a batch, how far apart, where the square turns into a line, and what."""

    weight: float = 0.0
    texts: int = 4
    nearest: int = 1
    farthest: int = 8
    huber: float = 1.0
    fillings: str = "true"

    def __post_init__(self) -> None:
        fit = 0 <= self.weight < math.inf and self.texts >= 1 and 0 < self.huber < math.inf
        if not (fit and 1 <= self.nearest <= self.farthest):
            raise UsageError(
                "the penalty needs weight ≥ 0, texts ≥ 1, huber > 0 and 1 ≤ nearest ≤ farthest, got "
                f"{self.weight}, {self.texts}, {self.huber}, {self.nearest} and {self.farthest}"
            )
        if self.fillings not in FILLINGS:
            raise UsageError(
                f"expected compatibility_fillings {' or '.join(FILLINGS)}, got {self.fillings!r}"
            )
