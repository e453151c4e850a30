"""Digests of weights: by what a run, a table or a pair head knows the model that it was made with.

- `weights_digest`: of a checkpoint's files, which need not be loaded for it;
- `state_digest`: of a loaded model's state, name by name;
- `parameters_digest`: of the numbers alone, whichever code holds them and under whatever names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from unmask.models.embedded import locate

if TYPE_CHECKING:
    from torch import nn

WEIGHTS = (".safetensors", ".bin")
READ_WITH_THEM = frozenset(
    {
        *("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"),
        *("added_tokens.json", "vocab.json", "vocab.txt", "merges.txt"),
        *("spiece.model", "sentencepiece.bpe.model"),
    }
)
"""The config and the tokenizer: what a checkpoint's answers depend on beside its weights."""


def weights_digest(source: str) -> str | None:
    """Return a digest of a checkpoint, which tells runs of one name apart; None for one on the hub.

    It covers the files that its answers depend on: the weights, the pair head, the config and the tokenizer.
    """
    files = digested_files(source)
    return digest_of_files(files) if any(f.suffix in WEIGHTS for f in files) else None


def digested_files(source: str) -> list[Path]:
    """Return the files of a checkpoint that its answers depend on, in order."""
    return sorted(
        f for f in Path(locate(source)).glob("*") if f.suffix in WEIGHTS or f.name in READ_WITH_THEM
    )


def digest_of_files(files: Iterable[Path]) -> str:
    """Return a digest of files by their names and what they hold."""
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as stream:
            digest.update(f"{path.name} ".encode() + hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()[:24]


def state_digest(model: nn.Module) -> str:
    """Return a digest of a model's weights with their names, shapes and precisions."""
    import torch

    digest = hashlib.sha256()
    for name, weight in sorted(model.state_dict().items()):
        flat = weight.detach().cpu().contiguous().reshape(-1)
        digest.update(f"{name}{list(weight.shape)}{weight.dtype}".encode())
        digest.update(flat.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:24]


def parameters_digest(model: nn.Module) -> str:
    """Return a digest of a model's weights, whichever code holds them and under whatever names."""
    found = set()
    for value in model.state_dict().values():
        if value.is_floating_point():
            numbers = value.detach().cpu().float().contiguous().numpy()
            found.add(hashlib.sha256(repr(value.shape).encode() + numbers.tobytes()).hexdigest())
    return hashlib.sha256("".join(sorted(found)).encode()).hexdigest()[:24]
