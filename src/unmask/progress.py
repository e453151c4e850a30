"""Progress of long work, shown by whoever wants to show it.

The library reports to a `Progress` and never prints; `silent` drops the reports. The command line passes
one that draws a bar on a terminal, the server one that sends events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


class Progress:
    """Receives how much of the work is done; this one drops it."""

    def started(self, stage: str, total: int) -> None:
        """Work on `total` units of a stage begins."""

    def advanced(self, units: int) -> None:
        """So many units more are done."""

    def finished(self) -> None:
        """The stage is over."""

    def resumed(self, done: int, total: int, torn: bool) -> None:
        """So much was done before; `torn` if the last piece of it was cut off, and is done anew."""

    def over(
        self,
        items: Iterable[Item],
        *,
        total: int,
        size: Callable[[Item], int] = lambda _: 1,
        stage: str = "forward passes",
    ) -> Iterator[Item]:
        """Go through items and report each when it is done."""
        self.started(stage, total)
        try:
            for item in items:
                yield item
                self.advanced(size(item))
        finally:
            self.finished()


silent = Progress()
