"""Fillings as people and programs give them, turned into indices of the supports.

A filling is one token per blank. A program gives a tensor of token ids [..., blanks]; a person types tokens:
`["boy", "is"]`, a list of such fillings, or a bare token where there is one blank.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from unmask.errors import UsageError
from unmask.text.support import Support
from unmask.values import plural, shown

Token: TypeAlias = int | str
"""A token, by its spelling or its id."""
Value: TypeAlias = Tensor | Token | Sequence[Any]
"""One filling or many: token ids [..., blanks], or nested sequences of tokens."""

MOST_SAMPLES = 10**8
"""The most fillings that are drawn at once."""


def index_fillings(value: Value, supports: Sequence[Support]) -> list[Tensor]:
    """Return fillings as indices into the supports, one tensor [...] per blank."""
    blanks = len(supports)
    if isinstance(value, np.ndarray) and value.ndim:
        # strings, and whatever torch has no numbers for, are looked at one by one
        value = torch.from_numpy(value) if value.dtype.kind in "biufc" else value.tolist()
    if isinstance(value, Tensor):
        _check_tensor(value, blanks)
        if value.ndim == 0:
            value = value[None]
        return [support.indices(value[..., i]) for i, support in enumerate(supports)]
    if _is_token(value):
        if blanks != 1:
            raise UsageError(
                f"expected fillings of {blanks} tokens, one per blank, got the token {shown(value)}"
            )
        return [supports[0].indices(value)]
    return list(_index_nested(value, supports).unbind(-1))


def index_filling(value: Value, supports: Sequence[Support]) -> list[Tensor]:
    """Return one filling as indices into the supports, one scalar per blank."""
    indices = index_fillings(value, supports)
    if indices[0].ndim:
        raise UsageError(f"expected one filling of {plural(len(supports), 'token')}, got several")
    return indices


def check_generator(generator: Any) -> None:
    """Refuse what is neither None nor torch's generator."""
    if generator is not None and not isinstance(generator, torch.Generator):
        raise UsageError(
            f"expected a generator such as torch.Generator().manual_seed(0), got {shown(generator)}"
        )


def _check_tensor(value: Tensor, blanks: int) -> None:
    if value.is_meta or value.layout != torch.strided or value.is_quantized:
        raise UsageError(f"expected a dense tensor of token ids [..., {blanks}], got {value.layout}")
    if value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
        raise UsageError(f"expected token ids, which are whole numbers, got a tensor of {value.dtype}")
    shape = list(value.shape)
    if not (shape and shape[-1] == blanks) and not (blanks == 1 and not shape):
        raise UsageError(
            f"expected token ids of shape [..., {blanks}], one per blank in the last dimension, got {shape}"
        )


def _index_nested(value: Any, supports: Sequence[Support]) -> Tensor:
    """Return nested sequences of tokens as indices [..., blanks]."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise UsageError(
            f"expected a filling of {plural(len(supports), 'token')}, one per blank, got "
            f"{type(value).__name__}"
        )
    if not value or any(_is_token(part) for part in value):
        if len(value) != len(supports):
            raise UsageError(f"expected {plural(len(supports), 'token')}, one per blank, got {len(value)}")
        return torch.tensor([s.index(token) for s, token in zip(supports, value, strict=True)])
    parts = [_index_nested(part, supports) for part in value]
    if any(part.shape != parts[0].shape for part in parts):
        raise UsageError("expected fillings of one shape, got lists of different lengths")
    return torch.stack(parts)


def _is_token(value: Any) -> bool:
    if isinstance(value, str):
        return True
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def whole_number(value: Any, what: str, least: int) -> int:
    """Return a whole number of at least `least`; numpy's and torch's are taken, 1.0 and True are not."""
    if not isinstance(value, bool | str) and _is_token(value) and (number := operator.index(value)) >= least:
        return number
    raise UsageError(f"expected {what}, a whole number of at least {least}, got {shown(value)}")


def sample_size(sample_shape: Any) -> torch.Size:
    """Return the shape of samples, which may be given as a number."""
    shape = (sample_shape,) if _is_token(sample_shape) else sample_shape
    if isinstance(shape, np.ndarray):
        shape = shape.tolist()
    if isinstance(shape, str) or not isinstance(shape, Sequence):
        raise UsageError(f"expected a sample shape such as (5,), or a number, got {shown(sample_shape)}")
    size = [whole_number(part, "a sample shape such as (5,)", 0) for part in shape]
    if max(math.prod(size), *size, 0) > MOST_SAMPLES:
        raise UsageError(
            f"expected at most {MOST_SAMPLES:,} samples at once, got {shown(sample_shape)}: draw in parts"
        )
    return torch.Size(size)
