"""The numbers of a checkpoint's config.json, checked before a model is built by them.

Neither torch nor transformers checks all of them: seven heads end in torch's words about shapes, and a model
of no layers answers at random.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from unmask.errors import RunError
from unmask.values import Real, ValueKind, Whole

SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size")
SIZES_OF_DISTILBERT = ("dim", "n_layers", "n_heads", "hidden_dim")
KINDS: dict[str, ValueKind] = {
    **dict.fromkeys((*SIZES, *SIZES_OF_DISTILBERT), Whole(1)),
    "layer_norm_eps": Real(minimum=0),
}


def check_config(directory: Path) -> dict[str, Any]:
    """Return the config of a checkpoint, or raise a RunError that names the number that can't be."""
    path = directory / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"'{path}' can't be read ({error}): take another copy") from None
    if not isinstance(config, dict):
        raise RunError(f"'{path}' can't be read (it is no JSON object): take another copy")
    for name, kind in KINDS.items():
        if name in config:
            try:
                kind.read(config[name])
            except ValueError as error:
                raise RunError(f"'{path}': {name}: {error}: take another copy") from None
    for width, heads in (("hidden_size", "num_attention_heads"), ("dim", "n_heads")):
        features, count = config.get(width), config.get(heads)
        if features and count and "head_dim" not in config and features % count:
            raise RunError(f"'{path}': {heads} {count} does not divide {width} {features}: take another copy")
    return config
