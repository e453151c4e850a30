"""Progress lines of a training loop: step, loss, rate and time left on standard error."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from transformers import TrainerCallback

from unmask.errors import RunError


class StepLines(TrainerCallback):  # type: ignore[misc]
    """One line on standard error for every log: step, loss, rate, time left; and one for an evaluation.

    Attributes:
        steps: how many the run has.
        units: what a step works through, in the unit that the rate is told in.
        unit: its name, as in `tokens`.
        remedy: what to do about a loss that is lost.
    """

    def __init__(self, steps: int, units: float, unit: str, remedy: str) -> None:
        self.steps, self.units, self.unit, self.remedy = steps, units, unit, remedy
        self.begun, self.first, self.before = time.monotonic(), 0, 0.0

    def on_train_begin(self, args: Any, state: Any, _control: Any, **_: Any) -> None:
        """Start the clock; a resumed run goes on counting, and saves and evaluates as often as asked now."""
        state.compute_steps(args, self.steps)
        self.begun, self.first = time.monotonic(), state.global_step
        self.before = spent(state.log_history)

    def on_log(
        self, _args: Any, state: Any, _control: Any, logs: dict[str, float] | None = None, **_: Any
    ) -> None:
        """Write the lines, and stop a run whose loss is lost."""
        logs = logs or {}
        if state.log_history:  # the Trainer has put the log there already
            state.log_history[-1]["seconds"] = self.before + time.monotonic() - self.begun
        if "loss" in logs and not math.isfinite(logs["loss"]):
            raise RunError(
                f"the loss became {logs['loss']} at step {state.global_step}: {self.remedy}; the last "
                f"checkpoint is kept"
            )
        if not state.is_world_process_zero:
            return
        where = f"step {state.global_step}/{self.steps}"
        if "loss" in logs:
            a_step = (time.monotonic() - self.begun) / max(state.global_step - self.first, 1)
            named = {name.removesuffix("_part"): part for name, part in logs.items() if "_part" in name}
            parts = [f"{name} {part:.4f}" for name, part in named.items()]
            told = f" ({', '.join(parts)})" if parts else ""
            self._say(
                f"{where}  loss {logs['loss']:.4f}{told}  {self.units / a_step:.0f} {self.unit}/s  "
                f"{clock(a_step * (self.steps - state.global_step))} left"
            )
        measured = self.measured({n[5:]: value for n, value in logs.items() if n.startswith("eval_")})
        if measured:
            self._say(f"{where}  {measured}")

    def measured(self, found: dict[str, float]) -> str:
        """Tell what an evaluation found, by name; nothing if there was none."""
        return "  ".join(f"{name} {value:.4f}" for name, value in found.items())

    def _say(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)


def spent(history: Sequence[Mapping[str, float]]) -> float:
    """The seconds of a run up to its last log, over all its sittings."""
    return max((entry.get("seconds", 0.0) for entry in history), default=0.0)


def clock(seconds: float) -> str:
    """Write seconds as hours, minutes and seconds."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
