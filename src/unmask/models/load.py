"""Load a masked language model by its name: the embedded one, a directory, or a hub name."""

from __future__ import annotations

from pathlib import Path

from unmask.models.embedded import locate
from unmask.models.masked_lm import DEFAULT_MEMORY, Engine, MaskedLM


def load(
    source: str | Path = "english",
    *,
    device: str = "auto",
    memory: int | str = DEFAULT_MEMORY,
    allow_pickle: bool = False,
    engine: Engine = "auto",
) -> MaskedLM:
    """Load a masked language model: the embedded one, a directory, or a hub name.

    Args:
        source: `english` (the embedded model), a checkpoint's directory, or a name on the Hugging Face hub.
        device: `auto`, `cpu`, `cuda` or `mps`.
        memory: what the work may take beyond the model, as in `4GB`.
        allow_pickle: read pickled weights (which can run code) where there are no safetensors.
        engine: `auto` opens a plain BERT by unmask's own code, which loads in a fraction of the time, and all
            else by transformers; `transformers` opens everything by it.
    """
    return MaskedLM.load(
        locate(str(source)),
        name=str(source),
        device=device,
        memory=memory,
        allow_pickle=allow_pickle,
        engine=engine,
    )
