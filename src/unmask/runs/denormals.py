"""Numbers too small to matter count as zero while a model trains: they make arithmetic many times slower.

The processor keeps to it until told otherwise, for everything that the process computes; so it is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def without_denormals() -> Iterator[None]:
    """Within, denormal numbers count as zero on the CPU."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
