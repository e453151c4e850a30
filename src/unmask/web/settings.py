"""Settings of a server: its models, its limits, who may send requests.

Whatever a client could ask too much of has a limit here, and a status of its own when the limit is passed
(422 for a number, 413 for a size, 503 for a full queue, 504 for time).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class Limits:
    """How much one request may ask for, and how much all of them together."""

    text: int = 2_000
    """Characters of a text."""
    texts: int = 64
    """Texts of a list."""
    blanks: int = 16
    """Blanks of a text."""
    candidates: int = 1_024
    """Candidates per blank; `all` counts as the size of the support."""
    include: int = 64
    """Tokens evaluated in any case, beside the candidates."""
    support: int = 20_000
    """Tokens that a blank may hold, where a number of them is asked for."""
    top: int = 1_000
    """Fillings or tokens in an answer."""
    samples: int = 1_000
    """Fillings drawn."""
    map_size: int = 64
    """Tokens at each side of a heat map."""
    body: int = 64 * 1024
    """Bytes of a request."""
    seconds: float = 60.0
    """From a request's arrival to its answer, waiting included."""
    body_seconds: float = 10.0
    """From a request's first byte to its last."""
    workers: int = 2
    """Requests worked on at once."""
    queue: int = 16
    """Requests that wait for a worker."""
    models: int = 2
    """Models held in memory."""
    tables: int = 5 * 10**8
    """Bytes of conditionals kept, so that another request about a text needs no forward pass."""
    answers: int = 32 * 10**6
    """Bytes of answers kept for identical requests."""


@dataclass(frozen=True)
class Settings:
    """How a server is set up.

    Attributes:
        models: the name that clients use -> what `unmask.load` opens; the first is the default, and is
            loaded at the start.
        limits: how much may be asked for.
        token: if given, every request to /v1 and /metrics has to carry it as a bearer token.
        hosts: the names under which the server may be addressed; None for any. Against pages elsewhere that
            point a name of theirs at this machine.
        device: where the models run.
        memory: what one piece of work may take beyond the model, as in `4GB`.
        allow_pickle: read pickled weights.
    """

    models: Mapping[str, str] = field(default_factory=lambda: {"english": "english"})
    limits: Limits = Limits()
    token: str | None = None
    hosts: tuple[str, ...] | None = LOOPBACK
    device: str = "auto"
    memory: str = "4GB"
    allow_pickle: bool = False

    @property
    def default(self) -> str:
        """The model of a request that names none."""
        return next(iter(self.models))
