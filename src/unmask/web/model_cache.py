"""ModelCache: the configured models, a few of them in memory.

The first one is loaded at the start and stays; others are loaded when first asked for, and the least
recently used makes room. Clients name a model by its name in the configuration, never by a path.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from queue import LifoQueue

from unmask.errors import RunError, UnmaskError
from unmask.models.masked_lm import MaskedLM
from unmask.web.deadline import Deadline
from unmask.web.free_memory import check_room
from unmask.web.settings import Settings

ROOM_FOR_A_MODEL = 2**28
"""Bytes that are free before a model is loaded: what importing transformers and a small model take. Where
memory runs out in the midst of an import, Python is left with half a module, or crashes."""


class LoadedModel:
    """A model in memory, and twins on the same weights: each of them serves one caller at a time."""

    def __init__(self, mlm: MaskedLM, callers: int) -> None:
        self.mlm = mlm
        self._free: LifoQueue[MaskedLM] = LifoQueue()
        for _ in range(callers - 1):
            self._free.put(mlm.twin())
        self._free.put(mlm)

    @contextmanager
    def running(self, deadline: Deadline) -> Iterator[MaskedLM]:
        """Within, the model or a twin of it is the caller's; it is waited for."""
        mlm = deadline.waiting_for(self._free)
        try:
            yield mlm
        finally:
            self._free.put(mlm)


class ModelCache:
    """Loads models by name, and keeps up to `limits.models` of them."""

    def __init__(self, settings: Settings, on_removal: Callable[[str], None]) -> None:
        self._settings = settings
        self._on_removal = on_removal
        self._loaded: dict[str, LoadedModel] = {}
        self._lock = threading.Lock()
        self._loading = {name: threading.Lock() for name in settings.models}
        self.loads = 0

    @property
    def loaded(self) -> Mapping[str, LoadedModel]:
        """The models in memory."""
        return dict(self._loaded)

    def take(self, name: str, deadline: Deadline) -> LoadedModel:
        """Return the model of that name, loading it if need be."""
        with deadline.holding(self._loading[name]):
            with self._lock:
                found = self._loaded.pop(name, None)
                if found is not None:
                    self._loaded[name] = found  # the last one is the most recently used
                    return found
            deadline.started(f"loading {name}", 0)
            check_room(ROOM_FOR_A_MODEL)
            loaded = LoadedModel(self._load(name), self._settings.limits.workers)
            with self._lock:
                self._make_room()
                self._loaded[name] = loaded
                self.loads += 1
        return loaded

    def _load(self, name: str) -> MaskedLM:
        settings = self._settings
        try:
            mlm = MaskedLM.load(
                settings.models[name],
                name=name,
                device=settings.device,
                memory=settings.memory,
                allow_pickle=settings.allow_pickle,
            )
        except UnmaskError as error:
            # the message may name a directory of this machine: that is for the server's log
            raise ModelUnavailable(name) from error
        return mlm

    def _make_room(self) -> None:
        others = [name for name in self._loaded if name != self._settings.default]
        while others and len(self._loaded) >= max(self._settings.limits.models, 1):
            name = others.pop(0)
            del self._loaded[name]
            self._on_removal(name)


class ModelUnavailable(RunError):
    """A configured model can't be loaded."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the model '{name}' can't be loaded here: whoever runs this server finds why in its log"
        )
