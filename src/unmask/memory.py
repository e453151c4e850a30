"""Amounts of memory, as people write them: `4GB`, `512MB`, a number of bytes."""

from __future__ import annotations

import errno
import operator
import re
from decimal import Decimal

from unmask.errors import UsageError

UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
AMOUNT = re.compile(r"^\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*$")
MOST = 2**60
"""More bytes than any machine has."""


def parse_bytes(amount: int | str) -> int:
    """Return the number of bytes that `amount` stands for."""
    match = AMOUNT.match(amount) if isinstance(amount, str) else None
    if match is not None and match.group(2).upper() in UNITS:
        parsed = Decimal(match.group(1)) * UNITS[match.group(2).upper()]
    else:
        try:
            if isinstance(amount, str | bool):
                raise TypeError
            parsed = Decimal(operator.index(amount))
        except (TypeError, RuntimeError):  # the latter from tensors
            raise UsageError(
                f"expected an amount of memory such as 4GB or 512MB, got {_shown(amount)}"
            ) from None
    if parsed < 1:
        raise UsageError(f"expected a positive amount of memory such as 4GB, got {_shown(amount)}")
    if parsed > MOST:
        raise UsageError(f"expected at most 2^60 bytes of memory, such as 4GB, got {_shown(amount)}")
    return int(parsed)


SHORTAGES = (
    "allocate memory",  # torch's allocator
    "out of memory",  # CUDA
    "std::bad_alloc",  # any C++ code below torch
    "could not create a primitive",  # oneDNN gives no reason; for want of memory it can't compile its loops
    "can't start new thread",  # no room for its stack
)
"""What RuntimeErrors say when memory has run out."""


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or one that caused it, says that memory ran out: Python's, the system's, torch's."""
    while error is not None:
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
            return True
        if isinstance(error, RuntimeError) and any(told in str(error) for told in SHORTAGES):
            return True
        error = error.__cause__
    return False


def show_bytes(amount: int) -> str:
    """Write a number of bytes for people."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if amount >= size:
            return f"{amount / size:.3g} {unit}"
    return f"{amount} bytes"


def _shown(amount: object) -> str:
    """Return what was given as a message shows it; Python refuses to write numbers of very many digits."""
    return repr(amount)[:40] if not isinstance(amount, int) or amount.bit_length() < 200 else "more than that"
