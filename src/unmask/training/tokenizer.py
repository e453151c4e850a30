"""The tokenizer of a run: learned from its text, another's, or a checkpoint's own, whole or cut down.

It is kept in the run's directory, written beside its place and moved there when it is whole: a directory
that can't be read is the remains of something else and is made anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from unmask.errors import RunError, UsageError, first_line
from unmask.models.embedded import locate
from unmask.runs.checkpoints import last_checkpoint
from unmask.runs.disk import whole_directory
from unmask.training.corpus import Corpus
from unmask.training.init_model import read_config
from unmask.training.settings import Settings
from unmask.training.tokenfile import mixture, write
from unmask.training.vocabulary import cut, train_vocabulary

BOUNDLESS = 10**30
"""How transformers says that a tokenizer knows no window."""


def run_tokenizer(settings: Settings, texts: list[Corpus], directory: Path) -> tuple[Any, list[int] | None]:
    """Make the tokenizer of a run, or find it made; with the old ids of a cut vocabulary."""
    home = directory / "tokenizer"
    checkpoint = Path(locate(settings.init_from))
    source = locate(settings.tokenizer) or (str(checkpoint) if checkpoint.is_dir() else "")
    cutting = bool(settings.vocab_size) and bool(source)
    made = _made(home, cutting)
    if made is not None:
        return made
    kept = None
    if source:
        if checkpoint.is_dir():
            read_config(checkpoint)  # refuses what can't be trained, before the corpus is read
        tokenizer = read_tokenizer(Path(source))
        if settings.tokenizer and checkpoint.is_dir():
            _refuse_other_vocabulary(tokenizer, settings.tokenizer, checkpoint)
        if cutting:
            full = [write(text, tokenizer, directory / "full" / text.name, source) for text in texts]
            _, tokens = mixture(full, settings.alpha, settings.shares)
            tokenizer, kept = cut(tokenizer, tokens, settings.vocab_size)
    else:
        if not settings.vocab_size:
            raise UsageError(
                "a model from scratch needs a vocabulary: set tokenizer, or vocab_size to train one"
            )
        if last_checkpoint(directory) is not None:
            # the trainers break ties in no fixed order: another vocabulary would not be the checkpoints'
            raise RunError(
                f"{home}: the run's vocabulary can't be read: restore the directory from a copy, or give "
                "another output directory"
            )
        tokenizer = train_vocabulary(
            texts,
            tokenizer_type=settings.trained_tokenizer_type,
            size=settings.vocab_size,
            alpha=settings.alpha,
            lowercase=settings.lowercase,
            seed=settings.seed,
            shares=settings.shares,
        )
    tokenizer.model_max_length = BOUNDLESS  # until the model's window is known
    with whole_directory(home) as partial:
        if kept is not None:
            np.save(partial / "kept.npy", np.asarray(kept))
        tokenizer.save_pretrained(partial)
    return tokenizer, kept


def _made(home: Path, cutting: bool) -> tuple[Any, list[int] | None] | None:
    """The tokenizer that a directory holds, with the old ids of a cut one; None if it is not whole."""
    from transformers import AutoTokenizer

    if not (home / "tokenizer.json").exists():
        return None
    try:
        kept = np.load(home / "kept.npy").tolist() if cutting else None
        return AutoTokenizer.from_pretrained(home), kept
    except Exception:  # tokenizers raises nothing narrower for a torn file
        return None


def read_tokenizer(path: Path) -> Any:
    """Read the tokenizer of a directory; refuse a directory without one."""
    from transformers import AutoTokenizer

    if not path.is_dir():
        raise UsageError(
            f"{path}: expected a tokenizer's directory, or the name of an embedded model, found none: check "
            "the path"
        )
    try:
        tokenizer = AutoTokenizer.from_pretrained(path)
    except Exception as error:  # tokenizers raises nothing narrower
        raise UsageError(
            f"{path}: expected a tokenizer that transformers knows, got none that it can read "
            f"({first_line(error)}): give the directory of one as tokenizer"
        ) from None
    if len(tokenizer) <= len(tokenizer.all_special_ids):
        # without files, some architectures get a tokenizer that has no words
        raise UsageError(
            f"{path}: expected a tokenizer, found none: give the directory of its own as tokenizer"
        )
    return tokenizer


def _refuse_other_vocabulary(tokenizer: Any, name: str, checkpoint: Path) -> None:
    """A checkpoint's embeddings are those of its own tokens; one that came without tokens is trusted."""
    try:
        own = read_tokenizer(checkpoint).get_vocab()
    except UsageError:
        return
    tokens = {index: token for token, index in own.items()}
    for token, index in sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1]):
        if tokens.get(index, token) != token or own.get(token, index) != index:
            raise UsageError(
                f"{name}: expected the vocabulary of {checkpoint}, got another (token {index} is {token!r}, "
                f"there {tokens.get(index)!r}): leave tokenizer out to take the checkpoint's own"
            )
