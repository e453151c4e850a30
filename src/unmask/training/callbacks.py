"""What happens beside the steps: progress lines, and courtesy towards other work on the machine."""

from __future__ import annotations

import os
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

    def on_train_begin(self, args: Any, state: Any, _control: Any, **_: Any) -> None:
        """Start the clock; a resumed run counts from where it goes on, and saves as often as is asked now."""
        state.compute_steps(args, self.settings.steps)
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
                f"{rate:.0f} tokens/s  {clock(left)} left"
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
    """Leave busy cores to others, while this process is of lower priority than they.

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


def clock(seconds: float) -> str:
    """Write seconds as hours, minutes and seconds."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
