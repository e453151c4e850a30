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


class FastLinear(nn.Linear):
    """A linear layer that computes by oneDNN where that is faster, in inference mode."""

    def forward(self, input: Tensor) -> Tensor:
        """Map [..., features] to [..., outputs]."""
        if not self._by_onednn(input):
            return functional.linear(input, self.weight, self.bias)
        return self._padded(input, "none")

    def gelu(self, input: Tensor) -> Tensor:
        """Return GELU of `forward`, the exact one, in the same step."""
        if not self._by_onednn(input):
            return functional.gelu(functional.linear(input, self.weight, self.bias))
        return self._padded(input, "gelu")

    def _by_onednn(self, x: Tensor) -> bool:
        """Whether oneDNN is faster and gives the same: it knows neither gradients nor other precisions."""
        return (
            onednn_is_faster()
            and bool(torch.backends.mkldnn.enabled)
            and torch.is_inference_mode_enabled()
            and not torch.is_autocast_enabled("cpu")
            and x.device.type == "cpu"
            and x.dtype == self.weight.dtype == torch.float32
            and x.numel() >= FEWEST_ROWS * self.in_features
        )

    def _padded(self, x: Tensor, then: Literal["none", "gelu"]) -> Tensor:
        rows = x.reshape(-1, self.in_features)
        made = [self._product(part, then) for part in rows.split(SIZES[-1])]
        whole = made[0] if len(made) == 1 else torch.cat(made)
        return whole.view(*x.shape[:-1], self.out_features)

    def _product(self, rows: Tensor, then: Literal["none", "gelu"]) -> Tensor:
        size = SIZES[bisect_left(SIZES, len(rows))]
        padded = rows if size == len(rows) else functional.pad(rows, (0, 0, 0, size - len(rows)))
        product: Tensor = torch.ops.mkldnn._linear_pointwise(padded, self.weight, self.bias, then, [], "none")
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
