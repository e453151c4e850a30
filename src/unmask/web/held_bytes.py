"""held_bytes: how much memory something takes that was made for one text, to the last dictionary."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor, nn

from unmask.models.masked_lm import MaskedLM
from unmask.text.vocabulary import Vocabulary

SHARED = (MaskedLM, Vocabulary, nn.Module)
"""What all texts have in common."""
BESIDE_NUMBERS = 460
"""Bytes of a tensor beside its numbers, measured: Python's object, torch's, and those of its storage."""


def held_bytes(value: Any, model: nn.Module) -> int:
    """Return the bytes of all that a value refers to, each storage once and whole, without the model's."""
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    seen: set[int] = set()
    storages: dict[int, int] = {}
    total, found = 0, [value]
    while found:
        one = found.pop()
        if id(one) in seen or isinstance(one, (*SHARED, type)):
            continue
        seen.add(id(one))
        if isinstance(one, Tensor):
            storage = one.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
            total += BESIDE_NUMBERS
            continue
        total += sys.getsizeof(one)
        if isinstance(one, np.ndarray):
            found.append(one.base)  # its numbers, if they are another's
        elif isinstance(one, Mapping):
            found += [*list(one), *list(one.values())]  # lists: another thread may add to it
        elif isinstance(one, tuple | list | set | frozenset):
            found += one
        if hasattr(one, "__dict__") and type(one).__module__.partition(".")[0] == "unmask":
            found.append(vars(one))
    return total + sum(size for at, size in storages.items() if at not in weights)
