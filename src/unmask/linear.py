"""Linear layers by whichever of torch's two libraries is faster on this processor.

torch multiplies matrices in single precision by MKL, which leaves the AVX-512 units of AMD's processors
unused; oneDNN, which torch carries too, uses them: 2.2 times the speed on an AMD EPYC (measured:
docs/background/forward-passes.md). Elsewhere MKL stays. Both round differently, in the last digits.

`linear` does what `torch.nn.functional.linear` does, `gelu_of_linear` goes on to GELU in the same step.
`for_inference` makes the linear layers of a module use `linear`.
"""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

Module = TypeVar("Module", bound=nn.Module)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x weightᵀ + bias, [..., outputs]; `weight` is [outputs, features]."""
    if not _by_onednn(x, weight):
        return functional.linear(x, weight, bias)
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return product


def gelu_of_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return GELU(x weightᵀ + bias), the exact one, [..., outputs]."""
    if not _by_onednn(x, weight):
        return functional.gelu(functional.linear(x, weight, bias))
    made: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "gelu", [], "none")
    return made


class FastLinear(nn.Linear):
    """A linear layer whose result is made by `linear`."""

    def forward(self, input: Tensor) -> Tensor:
        """Map [..., features] to [..., outputs]."""
        return linear(input, self.weight, self.bias)


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


def _by_onednn(x: Tensor, weight: Tensor) -> bool:
    return (
        onednn_is_faster()
        and x.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and not (torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad))
    )


def _is_amd() -> bool:
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as file:
            return any("AuthenticAMD" in file.readline() for _ in range(5))
    except OSError:  # not Linux
        return "AuthenticAMD" in platform.processor()
