"""The Hugging Face hub: whether it can be reached, and what was downloaded from it before."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from unmask.errors import UsageError

PATIENCE = 3.0
"""Seconds to wait for a connection, the look-up of the name included."""


def reachable(address: str, patience: float = PATIENCE) -> bool:
    """Tell whether a server, or the proxy that stands before it, takes a connection.

    Without a network the hub's own client tries for half a minute before it gives up; one connection, asked
    for beforehand, tells as much.
    """
    asked = urlsplit(address)
    proxy = getproxies().get(asked.scheme)
    if proxy and not proxy_bypass(asked.hostname or ""):
        asked = urlsplit(proxy if "//" in proxy else f"//{proxy}")
    port = asked.port or (443 if asked.scheme == "https" else 80)
    answers: list[bool] = []

    def connect() -> None:
        try:
            socket.create_connection((asked.hostname, port), timeout=patience).close()
        except OSError:
            return
        answers.append(True)

    # in a thread of its own: no timeout can be given to the look-up of a name
    asking = threading.Thread(target=connect, name="unmask-hub", daemon=True)
    asking.start()
    asking.join(patience)
    return bool(answers)


def downloaded(name: str) -> Path | None:
    """Return the directory of what was downloaded before of a model of the hub; None if nothing was."""
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(name, "config.json")
    return Path(config).parent if isinstance(config, str) else None


def config_directory(name: str) -> Path | None:
    """Return where the config.json of a model of the hub is, fetched if need be; None if it can't be had."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.constants import ENDPOINT, HF_HUB_OFFLINE

    kept = downloaded(name)
    if kept is not None or HF_HUB_OFFLINE or not reachable(ENDPOINT):
        return kept
    try:
        return Path(hf_hub_download(name, "config.json")).parent
    except Exception:  # whoever opens the model says what is wrong
        return None


def kept_from_hub(name: str) -> Path | None:
    """Return where a hub name was downloaded to, if the hub is out of reach; None if it can be asked."""
    from huggingface_hub.constants import ENDPOINT, HF_HUB_OFFLINE

    if HF_HUB_OFFLINE or reachable(ENDPOINT):
        return None
    kept = downloaded(name)
    if kept is None:
        raise UsageError(
            f"'{name}' is no directory here, the hub ({ENDPOINT}) is out of reach, and nothing was "
            f"downloaded from it under that name before: check the network, or give a directory"
        )
    return kept
