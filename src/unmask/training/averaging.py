"""The mean of a run's last checkpoints: it takes out the noise of the steps, as a falling learning rate does.

Izmailov et al. (2018), "Averaging Weights Leads to Wider Optima and Better Generalization".
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from unmask.errors import UsageError
from unmask.runs.checkpoints import whole_checkpoints


def average_into(model: Any, out: Path, count: int) -> None:
    """Give a model the mean weights of the last `count` checkpoints of its run."""
    found = whole_checkpoints(out)[-count:]
    if len(found) < count:
        raise UsageError(
            f"expected {count} checkpoints to average, {out} has {len(found)}: lower average_checkpoints, "
            "or start anew in another directory (a run keeps as many as it was first asked to average)"
        )
    sums = {name: torch.zeros_like(value, dtype=torch.float64) for name, value in model.named_parameters()}
    for checkpoint in found:
        for name, value in type(model).from_pretrained(checkpoint).named_parameters():
            sums[name] += value.detach().to(sums[name])
    with torch.no_grad():
        for name, value in model.named_parameters():
            value.copy_(sums[name] / count)
