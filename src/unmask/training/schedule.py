"""The learning rate over a run: warm up, stay, decay.

The rate rises linearly over `warmup` steps, stays, and falls linearly to zero over the last `decay` steps.
While it stays, the run does not know how long it will be: it can be resumed for another attempt with more
steps, and a decay can be branched off any checkpoint of the stable part. With decay equal to steps − warmup
this is the usual linear schedule.
"""

from __future__ import annotations

from dataclasses import dataclass

from unmask.errors import UsageError


@dataclass(frozen=True)
class Schedule:
    """Lengths in optimiser steps."""

    steps: int
    warmup: int
    decay: int

    def __post_init__(self) -> None:
        if self.steps < 1 or min(self.warmup, self.decay) < 0 or self.warmup + self.decay > self.steps:
            raise UsageError(
                f"expected at least one step, and warmup and decay that fit in, got steps={self.steps}, "
                f"warmup={self.warmup}, decay={self.decay}"
            )

    def factor(self, step: int) -> float:
        """The share of the peak rate at `step`, counted from 0."""
        rising = (step + 1) / (self.warmup + 1)
        falling = (self.steps - step) / (self.decay + 1)
        return max(0.0, min(1.0, rising, falling))
