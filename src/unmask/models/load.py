"""Load a masked language model by its name: the embedded one, a directory, or a hub name."""

from __future__ import annotations

from pathlib import Path

from unmask.models.embedded import locate
from unmask.models.masked_lm import DEFAULT_MEMORY, Engine, MaskedLM
from unmask.models.pair_head import FILE, PairHead, check_belongs, read_pair_head


def load(
    source: str | Path = "english",
    *,
    device: str = "auto",
    memory: int | str = DEFAULT_MEMORY,
    allow_pickle: bool = False,
    engine: Engine = "auto",
    pair_head: str | Path | None = "auto",
) -> MaskedLM:
    """Load a masked language model: the embedded one, a directory, or a hub name.

    Args:
        source: `english` (the embedded model), a checkpoint's directory, or a name on the Hugging Face hub.
        device: `auto`, `cpu`, `cuda` or `mps`.
        memory: what the work may take beyond the model, as in `4GB`.
        allow_pickle: read pickled weights (which can run code) where there are no safetensors.
        engine: `auto` opens a plain BERT by unmask's own code, which loads in a fraction of the time, and all
            else by transformers; `transformers` opens everything by it.
        pair_head: the file that `unmask distill` made for these weights; `auto` takes `pair_head.safetensors`
            beside them, if it is there, and None takes none.
    """
    directory = locate(str(source))
    mlm = MaskedLM.load(
        directory,
        name=str(source),
        device=device,
        memory=memory,
        allow_pickle=allow_pickle,
        engine=engine,
    )
    mlm.pair_head = _pair_head(mlm, Path(directory), pair_head)
    return mlm


def _pair_head(mlm: MaskedLM, directory: Path, wanted: str | Path | None) -> PairHead | None:
    """Read the head that goes with a model, if there is one or one is named."""
    beside = directory / FILE
    if wanted is None or (wanted == "auto" and not beside.is_file()):
        return None
    path = beside if wanted == "auto" else Path(wanted)
    path = path / FILE if path.is_dir() else path
    head = read_pair_head(path)
    check_belongs(head, mlm.model, path, mlm.name)
    return head.to(mlm.device)
