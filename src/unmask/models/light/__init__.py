"""BERT checkpoints without the weight of importing transformers.

Importing transformers' model code takes seconds, most of a cold `unmask fill`. A plain BERT with an MLM
head needs none of it: `open_light` reads the checkpoint's own files with safetensors and tokenizers into
two small stand-ins that `MaskedLM` can't tell from the real ones. Whatever is not exactly as expected
(another architecture, a missing weight, a damaged file) is left to `unmask.models.checkpoint`, which knows
what to say of it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from unmask.memory import is_out_of_memory
from unmask.models.config_check import check_config

FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")


def open_light(source: str) -> tuple[Any, Any] | None:
    """Return the model and the tokenizer of a plain BERT's directory, or None if it is not one."""
    from unmask.models.light.bert import read_bert

    return _open(Path(source), read_bert)


def open_light_tuned(source: str | Path, *, of_texts: bool) -> tuple[Any, Any] | None:
    """Return the same of a BERT with a classifier of texts or of tokens."""
    from unmask.models.light.tuned import OF_TEXTS, OF_TOKENS, read_tuned_bert

    architecture = OF_TEXTS if of_texts else OF_TOKENS
    return _open(Path(source), lambda config, weights: read_tuned_bert(config, weights, architecture))


def _open(directory: Path, read: Callable[[dict[str, Any], Path], Any]) -> tuple[Any, Any] | None:
    try:
        if not all((directory / name).is_file() for name in FILES):
            return None
        from unmask.models.light.tokenizer import read_tokenizer

        model = read(check_config(directory), directory / "model.safetensors")
        tokenizer = read_tokenizer(directory) if model is not None else None
    except Exception as error:
        if is_out_of_memory(error):
            raise
        return None  # a damaged file of any kind: the full path finds the words for it
    return None if model is None or tokenizer is None else (model, tokenizer)
