"""Load a masked language model: by its name, from a directory, or from a module in memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.errors import UsageError
from unmask.models.embedded import locate
from unmask.models.masked_lm import DEFAULT_MEMORY, Backend, MaskedLM
from unmask.models.pair_head import find_pair_head

if TYPE_CHECKING:
    from unmask.models.causal_lm import CausalLM


def load(
    source: str | Path | Any = "english",
    tokenizer: Any = None,
    *,
    device: str = "auto",
    memory: int | str = DEFAULT_MEMORY,
    allow_pickle: bool = False,
    backend: Backend = "auto",
    pair_head: str | Path | None = "auto",
) -> MaskedLM:
    """Load a masked language model: the embedded one, a directory, a hub name, or a module in memory.

    Args:
        source: `english` (the embedded model), a checkpoint's directory, a name on the Hugging Face hub, or a
            Hugging Face `...ForMaskedLM` module. A module is used as it is, in evaluation mode.
        tokenizer: of a module: the tokenizer that goes with it.
        device: `auto`, `cpu`, `cuda` or `mps`; with `auto`, a module stays where it is.
        memory: what the work may take beyond the model, as in `4GB`.
        allow_pickle: read pickled weights (which can run code) where there are no safetensors.
        backend: `auto` opens a plain BERT by unmask's own code, which loads in a fraction of the time, and
            all else by transformers; `transformers` opens everything by it.
        pair_head: the file that `unmask distill` made for these weights; `auto` takes `pair_head.safetensors`
            beside them, if it is there, and None takes none.
    """
    if not isinstance(source, str | Path):
        from unmask.models.in_memory import wrap

        mlm = wrap(source, tokenizer, device=device, memory=memory)
        mlm.pair_head = find_pair_head(mlm.model, mlm.name, None, pair_head)
        return mlm
    if tokenizer is not None:
        raise UsageError(
            f"'{source}' is opened with its own tokenizer: leave out the other one, or give a module"
        )
    return MaskedLM.load(
        source,
        device=device,
        memory=memory,
        allow_pickle=allow_pickle,
        backend=backend,
        pair_head=pair_head,
    )


def load_language_model(
    source: str | Path = "english",
    *,
    device: str = "auto",
    memory: int | str = DEFAULT_MEMORY,
    allow_pickle: bool = False,
    pair_head: str | Path | None = "auto",
) -> MaskedLM | CausalLM:
    """Load a masked or a causal language model, whichever the checkpoint holds."""
    from unmask.models.checkpoint import is_causal

    where = locate(str(source))
    if is_causal(where):
        from unmask.models.causal_lm import CausalLM

        return CausalLM.from_pretrained(where, device=device, memory=memory, allow_pickle=allow_pickle)
    return load(source, device=device, memory=memory, allow_pickle=allow_pickle, pair_head=pair_head)
