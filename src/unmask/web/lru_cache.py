"""LRUCache: the most recently used values, within a budget of bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

Kept = TypeVar("Kept")


class LRUCache(Generic[Kept]):
    """Keeps values by key, the least recently used leaving first; one that is too large is not kept."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self._kept: OrderedDict[Hashable, tuple[Kept, int]] = OrderedDict()
        self._lock = threading.Lock()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def bytes(self) -> int:
        """What the values take."""
        return self._bytes

    def get(self, key: Hashable) -> Kept | None:
        """Return the value, and count it as used."""
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            return self._kept[key][0]

    def put(self, key: Hashable, value: Kept, size: int) -> None:
        """Keep a value of so many bytes."""
        with self._lock:
            self._drop(key)
            if size > self.budget:
                return
            self._kept[key] = (value, size)
            self._bytes += size
            self._make_room()

    def resize(self, key: Hashable, value: Kept, size: int) -> None:
        """Take note that a value takes so many bytes by now, if it is still kept."""
        with self._lock:
            kept, before = self._kept.get(key, (None, 0))
            if kept is value:
                self._kept[key] = (value, size)
                self._bytes += size - before
                self._make_room()

    def drop_where(self, condition: Callable[[Any], bool]) -> None:
        """Drop the values whose keys fulfil a condition."""
        with self._lock:
            for key in [key for key in self._kept if condition(key)]:
                self._drop(key)

    def _make_room(self) -> None:
        while self._bytes > self.budget:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: Hashable) -> None:
        if key in self._kept:
            self._bytes -= self._kept.pop(key)[1]
