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

    max_steps: int
    warmup_steps: int
    decay_steps: int

    def __post_init__(self) -> None:
        least = min(self.warmup_steps, self.decay_steps)
        if self.max_steps < 1 or least < 0 or self.warmup_steps + self.decay_steps > self.max_steps:
            raise UsageError(
                "expected at least one step, and warmup_steps and decay_steps that fit in, got "
                f"max_steps={self.max_steps}, warmup_steps={self.warmup_steps} and "
                f"decay_steps={self.decay_steps}"
            )

    def factor(self, step: int) -> float:
        """The share of the peak rate at `step`, counted from 0."""
        rising = (step + 1) / (self.warmup_steps + 1)
        falling = (self.max_steps - step) / (self.decay_steps + 1)
        return max(0.0, min(1.0, rising, falling))
