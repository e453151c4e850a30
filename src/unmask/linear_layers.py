"""Linear layers by whichever of torch's two libraries is faster on this processor.

torch multiplies matrices in single precision by MKL, which leaves the AVX-512 units of AMD's processors
unused; oneDNN, which torch carries too, uses them (measured: docs/background/forward-passes.md). Elsewhere
MKL stays. The two round differently, in the last digits.

oneDNN compiles a loop for every shape that it meets and keeps it, at half a megabyte each. So rows are padded
to a few sizes.
"""

from __future__ import annotations

import platform
from bisect import bisect_left
from functools import cache
from pathlib import Path
from typing import Literal, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

Module = TypeVar("Module", bound=nn.Module)

FEWEST_ROWS = 8
"""MKL is as fast for fewer."""
SIZES = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)
"""The numbers of rows that oneDNN is given; of more the largest at a time."""


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x weightᵀ + bias, [..., outputs], by oneDNN where that is faster, in inference mode.

    For weights [outputs, features] of few shapes, as the layers of a model have.
    """
    if not _by_onednn(x, weight):
        return functional.linear(x, weight, bias)
    return _padded(x, weight, bias, "none")


class FastLinear(nn.Linear):
    """A linear layer that computes by `linear`."""

    def forward(self, input: Tensor) -> Tensor:
        """Map [..., features] to [..., outputs]."""
        return linear(input, self.weight, self.bias)

    def gelu(self, input: Tensor) -> Tensor:
        """Return GELU of `forward`, the exact one, in the same step."""
        if not _by_onednn(input, self.weight):
            return functional.gelu(functional.linear(input, self.weight, self.bias))
        return _padded(input, self.weight, self.bias, "gelu")


def _by_onednn(x: Tensor, weight: Tensor) -> bool:
    """Whether oneDNN is faster and gives the same: it knows neither gradients nor other precisions."""
    return (
        onednn_is_faster()
        and bool(torch.backends.mkldnn.enabled)
        and torch.is_inference_mode_enabled()
        and not torch.is_autocast_enabled("cpu")
        and x.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and x.numel() >= FEWEST_ROWS * x.shape[-1]
    )


def _padded(x: Tensor, weight: Tensor, bias: Tensor | None, then: Literal["none", "gelu"]) -> Tensor:
    made = [_product(part, weight, bias, then) for part in x.reshape(-1, x.shape[-1]).split(SIZES[-1])]
    whole = made[0] if len(made) == 1 else torch.cat(made)
    return whole.view(*x.shape[:-1], len(weight))


def _product(rows: Tensor, weight: Tensor, bias: Tensor | None, then: Literal["none", "gelu"]) -> Tensor:
    size = SIZES[bisect_left(SIZES, len(rows))]
    padded = rows if size == len(rows) else functional.pad(rows, (0, 0, 0, size - len(rows)))
    product: Tensor = torch.ops.mkldnn._linear_pointwise(padded, weight, bias, then, [], "none")
    return product[: len(rows)]


def for_inference(model: Module) -> Module:
    """Return the module in evaluation mode, without gradients, its plain linear layers made fast."""
    if onednn_is_faster():
        for part in model.modules():
            if type(part) is nn.Linear:
                part.__class__ = FastLinear
    return model.eval().requires_grad_(False)


@cache
def onednn_is_faster() -> bool:
    """Whether this processor is one on which oneDNN was measured to be faster than MKL."""
    return (
        torch.backends.cpu.get_cpu_capability() == "AVX512"
        and torch.backends.mkl.is_available()
        and torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and _is_amd()
    )


def _is_amd() -> bool:
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as file:
            return any("AuthenticAMD" in file.readline() for _ in range(5))
    except OSError:  # not Linux
        return "AuthenticAMD" in platform.processor()
