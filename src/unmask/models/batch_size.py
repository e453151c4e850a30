"""How many texts one forward pass takes within a memory budget."""

from __future__ import annotations

from unmask.errors import RunError
from unmask.memory import show_bytes

LARGEST_BATCH = 512


def fitting_batch(text_bytes: int, length: int, memory: int) -> int:
    """Return how many texts of `length` tokens, each of so many bytes, are passed at once.

    They take half of the budget at the most: what the passes fill wants the rest.
    """
    size = memory // (2 * text_bytes)
    if size < 1:
        raise RunError(
            f"one forward pass over {length} tokens needs about {show_bytes(2 * text_bytes)}, but the memory "
            f"budget is {show_bytes(memory)}: raise memory, or shorten the text"
        )
    return min(size, LARGEST_BATCH)
