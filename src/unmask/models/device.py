"""Devices by name: where a model computes."""

from __future__ import annotations

import torch

from unmask.errors import UsageError
from unmask.values import shown


def choose_device(name: str) -> torch.device:
    """Return the device of that name; `auto` takes CUDA or Apple's if there is one."""
    if not isinstance(name, str):
        raise UsageError(f"unknown device {shown(name)}: expected auto, cpu, cuda or mps")
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    device: torch.device | None
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda", "mps"):
        raise UsageError(f"unknown device '{name}': expected auto, cpu, cuda or mps")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UsageError("this machine has no CUDA device that torch can use: take device cpu")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise UsageError("this machine has no Apple GPU that torch can use: take device cpu")
    return device
