"""What a run is made of, gathered before the first step: tokenizer, token files, rows, held-out text, first
weights.

Everything here is a function of the settings and is kept in the run's directory, so that a resumed run
finds it made.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unmask.errors import UsageError
from unmask.models.embedded import locate
from unmask.models.masked_lm import window_of
from unmask.training import eval as held_out
from unmask.training import init_model as start
from unmask.training.batches import Corruption, MixedRows, RowSource
from unmask.training.corpus import Corpus, corpora, shares_of
from unmask.training.masking import Unigram, Vocabulary
from unmask.training.packing import Marks, Packing
from unmask.training.sentence_pairs import SentencePairs
from unmask.training.settings import Settings
from unmask.training.tokenfile import TokenFile, about_tokens, closing_id, split, write
from unmask.training.tokenizer import BOUNDLESS, run_tokenizer


@dataclass(frozen=True)
class Materials:
    """All inputs of the training loop."""

    tokenizer: Any
    vocabulary: Vocabulary
    unigram: Unigram
    shares: dict[str, float]
    tokens: dict[str, int]  # of each corpus to train on
    held_tokens: dict[str, int]  # of each corpus that is held out as a whole
    rows: MixedRows
    domains: dict[str, held_out.Items]
    kept: list[int] | None  # old ids of a cut vocabulary


def gather(settings: Settings, directory: Path) -> Materials:
    """Make the tokenizer and the token files, or find them, and set up the streams of rows."""
    if settings.layers and _is_fresh(settings):
        raise UsageError(
            f"layers are those of a checkpoint to keep, and {settings.start} is a fresh model: leave layers "
            "out, and set how many it has in its config"
        )
    texts = corpora(settings.corpora)
    held_texts = corpora(settings.held_out_corpora, beside=texts) if settings.held_out_corpora else []
    _refuse_trained_on(texts, held_texts)
    tokenizer, kept = run_tokenizer(settings, texts, directory)
    vocabulary = Vocabulary.of(tokenizer)
    files = {text.name: _tokens(text, tokenizer, directory) for text in texts}
    shares = shares_of({name: file.ids.size for name, file in files.items()}, settings.alpha, settings.shares)
    counts = sum(file.counts / file.counts.sum() * shares[name] for name, file in files.items())
    unigram = Unigram.of(np.asarray(counts) * 1e9, tokenizer.all_special_ids)

    sources: dict[str, RowSource] = {}
    domains: dict[str, held_out.Items] = {}
    held_tokens: dict[str, int] = {}
    for name, file in files.items():
        trained, held = split(file, settings.hold_out, offset=settings.hold_out // 2)
        sources[name] = _source(settings, tokenizer, file, trained)
        if len(held):
            domains[name] = _held(settings, tokenizer, file, held, vocabulary, unigram)
    for text in held_texts:
        file = _tokens(text, tokenizer, directory)
        held_tokens[text.name] = int(file.ids.size)
        domains[text.name] = _held(settings, tokenizer, file, np.arange(file.documents), vocabulary, unigram)
    _refuse_tiny(settings, files)
    _refuse_short(settings, files)
    corruption = Corruption(settings.masking, vocabulary, unigram)
    length = settings.steps * settings.batch
    rows = MixedRows(sources, shares, corruption, length=length, seed=settings.seed)
    sizes = {name: int(file.ids.size) for name, file in files.items()}
    return Materials(tokenizer, vocabulary, unigram, shares, sizes, held_tokens, rows, domains, kept)


def changed_text(settings: Settings, directory: Path) -> Path | None:
    """Return a text that is no longer the one that the run in a directory began with; None: all are."""
    held = corpora(settings.held_out_corpora) if settings.held_out_corpora else []
    for text in [*corpora(settings.corpora), *held]:
        for kind in ("tokens", "full"):
            about = about_tokens(directory / kind / text.name)
            if about is not None and about["corpus"] != text.fingerprint():
                return text.path
    return None


def first_model(settings: Settings, materials: Materials) -> Any:
    """The model before the first step, from the preset or the checkpoint that the settings name.

    The tokenizer is told its window.
    """
    model = _fresh(settings, materials) if _is_fresh(settings) else _further(settings, materials)
    room = window_of(model, materials.tokenizer)
    if settings.max_length > room:
        raise UsageError(f"expected a max_length of at most {room} for this model, got {settings.max_length}")
    # without positions of its own a model reads any length
    materials.tokenizer.model_max_length = room if room < BOUNDLESS else max(settings.max_length, 512)
    return model


def _is_fresh(settings: Settings) -> bool:
    return settings.start in start.PRESETS or Path(locate(settings.start)).is_file()


def _fresh(settings: Settings, materials: Materials) -> Any:
    return start.from_scratch(
        settings.start,
        materials.tokenizer,
        max_length=settings.max_length,
        next_sentence=settings.next_sentence,
        dropout=settings.dropout,
    )


def _further(settings: Settings, materials: Materials) -> Any:
    path = Path(locate(settings.start))
    if not path.is_dir():
        raise UsageError(
            f"expected a preset ({', '.join(start.PRESETS)}), a config file or a checkpoint directory "
            f"to start from, got {settings.start!r}: check the name or the path"
        )
    model, headless = start.from_checkpoint(
        path, next_sentence=settings.next_sentence, dropout=settings.dropout
    )
    if settings.layers:
        start.keep_layers(model, settings.layers)
    if materials.kept is not None:
        start.keep_tokens(model, materials.kept)
    _refuse_other_tokenizer(settings, materials, model)
    if headless:
        start.begin_head(model, materials.unigram)
    return model


def _refuse_other_tokenizer(settings: Settings, materials: Materials, model: Any) -> None:
    """A checkpoint's embeddings are those of its own tokens."""
    rows, tokens = int(model.get_input_embeddings().weight.shape[0]), len(materials.tokenizer)
    if tokens > rows:
        raise UsageError(
            f"the tokenizer has {tokens:,} tokens, and {settings.start} embeds {rows:,}: leave tokenizer out "
            "to take the checkpoint's own"
        )


def _tokens(text: Corpus, tokenizer: Any, directory: Path) -> TokenFile:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    spelled = backend.to_str() if backend is not None else json.dumps(tokenizer.get_vocab(), sort_keys=True)
    origin = hashlib.sha256(spelled.encode()).hexdigest()
    return write(text, tokenizer, directory / "tokens" / text.name, origin)


def _marks(tokenizer: Any) -> Marks:
    return Marks(tokenizer.cls_token_id, closing_id(tokenizer), tokenizer.pad_token_id)


def _source(settings: Settings, tokenizer: Any, file: TokenFile, documents: Any) -> SentencePairs | Packing:
    if settings.next_sentence:
        return SentencePairs(file, documents, settings.max_length, _marks(tokenizer))
    return Packing(file, documents, settings.max_length, _marks(tokenizer), alone=not settings.packing)


def _held(
    settings: Settings,
    tokenizer: Any,
    file: TokenFile,
    documents: Any,
    vocabulary: Vocabulary,
    unigram: Unigram,
) -> held_out.Items:
    source = _source(settings, tokenizer, file, documents)
    total = source.rows() if isinstance(source, Packing) else settings.evaluate_rows
    return held_out.spread(source, total, settings.evaluate_rows, vocabulary, unigram)


def _refuse_trained_on(texts: list[Corpus], held: list[Corpus]) -> None:
    """Text that is trained on, under whatever name, says nothing about other text."""
    for text in held:
        for other in texts:
            if text.same_text(other):
                raise UsageError(
                    f"{text.path} is held out as {text.name!r} and trained on as {other.name!r}: hold out "
                    "another text, or a part of this one with hold_out"
                )


def _refuse_tiny(settings: Settings, files: Mapping[str, TokenFile]) -> None:
    have = sum(file.ids.size for file in files.values())
    need = settings.batch * settings.max_length
    if have < need:
        raise UsageError(
            f"expected text for one batch ({settings.batch} rows of {settings.max_length} = {need} tokens), "
            f"got {have} tokens: give more text, or lower the batch or max_length"
        )


def _refuse_short(settings: Settings, files: Mapping[str, TokenFile]) -> None:
    """A penalty that no text has two positions for would be none."""
    rule = settings.penalty
    longest = min(max(int(file.lengths().max()) for file in files.values()), settings.max_length - 2)
    if rule.weight > 0 and longest <= rule.nearest:
        raise UsageError(
            f"the compatibility penalty needs two tokens {rule.nearest} to {rule.farthest} apart in one "
            f"text, but the texts are too short: the longest has {longest}; join short lines, or lower "
            "compatibility_nearest"
        )
