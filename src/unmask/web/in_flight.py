"""InFlight: what is being computed, so that nothing is computed twice at the same time."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager

from unmask.web.deadline import POLL_INTERVAL, Deadline


class InFlight:
    """The keys that somebody works on."""

    def __init__(self) -> None:
        self._keys: set[Hashable] = set()
        self._changed = threading.Condition()

    @contextmanager
    def claim(self, keys: Iterable[Hashable], deadline: Deadline) -> Iterator[None]:
        """Within, the keys are the caller's; while another has one of them, he is waited for.

        All are claimed at once, so that no two callers wait for one another.
        """
        wanted = set(keys)
        with self._changed:
            while self._keys & wanted:
                self._changed.wait(POLL_INTERVAL)
                deadline.check()
            self._keys |= wanted
        try:
            yield
        finally:
            with self._changed:
                self._keys -= wanted
                self._changed.notify_all()
