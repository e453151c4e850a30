"""The progress lines of a training run."""

from __future__ import annotations

from typing import Any

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
