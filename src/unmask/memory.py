"""Amounts of memory, as people write them: `4GB`, `512MB`, a number of bytes."""

from __future__ import annotations

import re

from unmask.errors import UsageError

UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
AMOUNT = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*$")


def parse_bytes(amount: int | str) -> int:
    """Return the number of bytes that `amount` stands for."""
    if isinstance(amount, int):
        parsed = amount
    else:
        match = AMOUNT.match(amount)
        if match is None or match.group(2).upper() not in UNITS:
            raise UsageError(f"expected an amount of memory such as 4GB or 512MB, got '{amount}'")
        parsed = int(float(match.group(1)) * UNITS[match.group(2).upper()])
    if parsed <= 0:
        raise UsageError(f"expected a positive amount of memory such as 4GB, got '{amount}'")
    return parsed


def show_bytes(amount: int) -> str:
    """Write a number of bytes for people."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if amount >= size:
            return f"{amount / size:.3g} {unit}"
    return f"{amount} bytes"
