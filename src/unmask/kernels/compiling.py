"""Compiled loops: numba compiles each at its first use and keeps it on the disk.

That first use, once after installation, takes some seconds. `tell` is called with one line before it: the
command line shows that line on a terminal, and a program finds it in the log named `unmask`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from typing import Any

MESSAGE = "compiling the solver's loops, once after installation (a few seconds)"

tell: Callable[[str], None] = logging.getLogger("unmask").info
"""Told when loops are compiled, before they are."""


@cache
def announce_compilation() -> None:
    """Have `tell` called before the first loop of this process that is not found on the disk."""
    from numba.core import event

    told: list[str] = []

    class Listener(event.Listener):  # type: ignore[misc]
        def on_start(self, event: Any) -> None:  # noqa: ARG002
            if not told:
                told.append(MESSAGE)
                tell(MESSAGE)

        def on_end(self, event: Any) -> None:
            pass

    event.register("numba:compile", Listener())
