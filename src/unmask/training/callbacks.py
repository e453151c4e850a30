"""What happens beside the steps: progress lines, and courtesy towards other work on the machine."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from unmask.errors import Failure
from unmask.training.settings import Settings


class Progress(TrainerCallback):  # type: ignore[misc]
    """One line on standard error for every log: step, loss, tokens a second, time left; held-out losses."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.begun, self.first = time.monotonic(), 0

    def on_train_begin(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
        """Start the clock; a resumed run counts from where it goes on."""
        self.begun, self.first = time.monotonic(), state.global_step

    def on_step_end(self, _args: Any, state: Any, control: Any, **_: Any) -> None:
        """Log at every checkpoint too, so that no logged mean spans a resumption."""
        if state.global_step % self.settings.save_every == 0:
            control.should_log = True

    def on_log(
        self, _args: Any, state: Any, _control: Any, logs: dict[str, float] | None = None, **_: Any
    ) -> None:
        """Write the line, and stop a run whose loss is lost."""
        logs = logs or {}
        if "loss" in logs:
            self._refuse_nonfinite(logs["loss"], state.global_step)
        if not state.is_world_process_zero:
            return
        if "loss" in logs:
            done = state.global_step - self.first
            a_step = (time.monotonic() - self.begun) / max(done, 1)
            rate = self.settings.batch * self.settings.max_length / a_step
            left = a_step * (self.settings.steps - state.global_step)
            self._say(
                f"step {state.global_step}/{self.settings.steps}  loss {logs['loss']:.4f}  "
                f"{rate:.0f} tokens/s  {_clock(left)} left"
            )
        held = {
            name: value for name, value in logs.items() if name.startswith("eval_") and name.endswith("_loss")
        }
        if held:
            losses = "  ".join(f"{name[5:-5]} {value:.4f}" for name, value in held.items())
            self._say(f"step {state.global_step}/{self.settings.steps}  held out: {losses}")

    def _say(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    def _refuse_nonfinite(self, loss: float, step: int) -> None:
        if loss != loss or loss in (float("inf"), float("-inf")):
            raise Failure(
                f"the loss became {loss} at step {step}: lower body_rate and head_rate or lengthen warmup; "
                "the last checkpoint is kept"
            )


class CourteousThreads(TrainerCallback):  # type: ignore[misc]
    """Leave busy cores to others.

    A job of low priority whose threads share a core with others waits at every barrier for the slowest.
    So before each step the threads are set to the cores that others have left free lately (Linux only).
    """

    def __init__(self, cores: int) -> None:
        self.cores, self.last = cores, _busy()

    def on_step_begin(self, _args: Any, _state: Any, _control: Any, **_: Any) -> None:
        """Count what ran at normal priority since the last look, ours being nice."""
        now = _busy()
        if self.last is None or now is None or now[1] - self.last[1] < 30 * self.cores:
            return
        others = self.cores * (now[0] - self.last[0]) / (now[1] - self.last[1])
        self.last = now
        free = max(1, self.cores - int(others + 0.65))
        if free != torch.get_num_threads():
            torch.set_num_threads(free)


def _busy() -> tuple[int, int] | None:
    """Clock ticks at normal priority, and all ticks, of all cores together."""
    try:
        user, _, system, *rest = map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9])
    except (OSError, ValueError):
        return None
    return user + system, user + _ + system + sum(rest)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
