"""The checkpoints of a training run: which are whole, where to resume, and whether the disk can hold them."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import torch

from unmask.errors import RunError, UsageError
from unmask.memory import show_bytes


def last_checkpoint(out: Path) -> str | None:
    """The newest checkpoint that was written to its end."""
    return next(reversed(whole_checkpoints(out)), None)


def step_of(checkpoint: str) -> int:
    """The step at which a whole checkpoint was written."""
    return int(json.loads((Path(checkpoint) / "trainer_state.json").read_text())["global_step"])


def whole_checkpoints(out: Path) -> list[str]:
    """The checkpoints that were written to their ends (`trainer_state.json` comes last), oldest first."""
    whole = []
    for path in out.glob("checkpoint-*"):
        try:
            state = json.loads((path / "trainer_state.json").read_text())
        except (OSError, json.JSONDecodeError):
            continue
        whole.append((int(state["global_step"]), str(path)))
    return [path for _, path in sorted(whole)]


def check_checkpoint(checkpoint: str | None) -> None:
    """Raise for a file of a checkpoint that was cut off or changed after it was written.

    None is no checkpoint. Of the weights the length is looked at, of the other files every byte.
    """
    from safetensors import SafetensorError, safe_open

    for path in sorted(Path(checkpoint).iterdir()) if checkpoint else ():
        try:
            if path.suffix in (".pt", ".pth"):
                with zipfile.ZipFile(path) as archive:
                    whole = archive.testzip() is None
            else:
                whole = path.suffix != ".safetensors" or safe_open(path, "pt") is not None
        except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError, SafetensorError):
            whole = False  # a damaged header may name a compression that zipfile does not know
        if not whole:
            raise RunError(
                f"{path} is damaged: restore it, or remove {path.parent} and start the same command again; "
                "it resumes from the checkpoint before, if there is one"
            )


def check_disk_space(out: Path, parameters: int, kept: int = 2) -> None:
    """Raise unless there is room for the checkpoints, each with the weights and two moments of Adam.

    While a new one is written there is one more than are kept.
    """
    need = max(1, kept + 1 - len(whole_checkpoints(out))) * 3 * 4 * parameters
    free = shutil.disk_usage(out).free
    if free < need:
        raise RunError(
            f"{out}: the checkpoints need about {show_bytes(need)}, the disk has {show_bytes(free)} free: "
            "make room or give an output directory on another disk"
        )


def average_into(model: Any, out: Path, count: int) -> None:
    """Give a model the mean weights of the last `count` checkpoints of its run.

    The mean takes out the noise of the steps, as a falling learning rate does (Izmailov et al. 2018,
    "Averaging Weights Leads to Wider Optima and Better Generalization").
    """
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
