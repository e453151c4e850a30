"""Callbacks of the training loop: progress lines, and cores left to other work on the machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from unmask.runs.step_lines import StepLines
from unmask.training.settings import Settings


class ProgressLines(StepLines):
    """The lines of a training run: tokens per second, evaluation losses."""

    def __init__(self, settings: Settings) -> None:
        remedy = "lower encoder_lr and head_lr or raise warmup_steps"
        super().__init__(settings.max_steps, settings.batch_size * settings.max_length, "tokens", remedy)
        self.save_steps = settings.save_steps

    def on_step_end(self, _args: Any, state: Any, control: Any, **_: Any) -> None:
        """Log at every checkpoint too, so that no logged mean spans a resumption."""
        if state.global_step % self.save_steps == 0:
            control.should_log = True

    def measured(self, found: dict[str, float]) -> str:
        """Tell the evaluation losses."""
        losses = {n.removesuffix("_loss"): value for n, value in found.items() if n.endswith("_loss")}
        return f"eval loss: {super().measured(losses)}" if losses else ""


class YieldCores(TrainerCallback):  # type: ignore[misc]
    """Leave busy cores to other processes while this one has a lower priority (`nice`).

    A job of low priority whose threads share a core with others waits at every barrier for the slowest.
    So before each step the threads are set to the cores that others have left free lately (Linux only).
    """

    def __init__(self, cores: int) -> None:
        self.cores, self.last = cores, _ticks()

    def on_step_begin(self, _args: Any, _state: Any, _control: Any, **_: Any) -> None:
        """Look at what others have used since the last look."""
        now = _ticks()
        if self.last is None or now is None or now[1] - self.last[1] < 30 * self.cores:
            return
        others = self.cores * (now[0] - self.last[0]) / (now[1] - self.last[1])
        self.last = now
        yielding = os.getpriority(os.PRIO_PROCESS, 0) > 0
        free = max(1, self.cores - int(others + 0.65)) if yielding else self.cores
        if free != torch.get_num_threads():
            torch.set_num_threads(free)


def _ticks() -> tuple[float, int] | None:
    """Clock ticks that other processes have used, and all that have passed, of all cores together."""
    try:
        passed = list(map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9]))
    except (OSError, ValueError):
        return None
    own = sum(os.times()[:2]) * os.sysconf("SC_CLK_TCK")
    return sum(passed[:3]) - own, sum(passed)
