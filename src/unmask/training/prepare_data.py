"""Data and first weights of a run: tokenizer, token files, rows, evaluation rows, model.

Everything here is a function of the settings and is kept in the run's directory, which a resumed run reads.
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
from unmask.models.window import window_of
from unmask.training import init_model
from unmask.training.batches import Corruption, MixedRows, RowSource
from unmask.training.corpus import Corpus, corpora
from unmask.training.eval import EvalRows, spread_rows
from unmask.training.masking import Unigram, Vocabulary
from unmask.training.packing import Marks, Packing
from unmask.training.sentence_pairs import SentencePairs
from unmask.training.sentences import SentenceCorpus, Sentences
from unmask.training.settings import Settings
from unmask.training.tokenfile import TokenFile, about_tokens, closing_id, mixture, split, write
from unmask.training.tokenizer import BOUNDLESS, run_tokenizer


@dataclass(frozen=True)
class TrainingData:
    """All inputs of the training loop."""

    tokenizer: Any
    vocabulary: Vocabulary
    unigram: Unigram
    shares: dict[str, float]
    tokens: dict[str, int]  # of each corpus to train on
    eval_tokens: dict[str, int]  # of each corpus that is only evaluated on
    rows: MixedRows
    domains: dict[str, EvalRows]
    kept: list[int] | None  # old ids of a cut vocabulary


def prepare_data(settings: Settings, directory: Path) -> TrainingData:
    """Make the tokenizer and the token files, or find them, and set up the streams of rows."""
    if settings.layers and _is_fresh(settings):
        raise UsageError(
            f"layers are those of a checkpoint to keep, and {settings.init_from} is a fresh model: leave "
            "layers out, and set how many it has in its config"
        )
    texts = corpora(settings.corpora)
    eval_texts = corpora(settings.eval_corpora, beside=texts) if settings.eval_corpora else []
    for text in (*texts, *eval_texts):
        text.check_readable()  # before anything else is found missing
    _refuse_trained_on(texts, eval_texts)
    _refuse_unknown_corpus(settings, texts)
    tokenizer, kept = run_tokenizer(settings, texts, directory)
    vocabulary = Vocabulary.of(tokenizer)
    files = {text.name: _tokens(text, tokenizer, directory) for text in texts}
    shares, mixed = mixture(files.values(), settings.alpha, settings.shares)
    unigram = Unigram.of(mixed * 1e9, tokenizer.all_special_ids)

    sources: dict[str, RowSource] = {}
    source_shares: dict[str, float] = {}
    domains: dict[str, EvalRows] = {}
    eval_tokens: dict[str, int] = {}
    for text in texts:
        name, file = text.name, files[text.name]
        trained, held = split(file, settings.eval_one_in, offset=settings.eval_one_in // 2)
        in_sentences = settings.sentence_shares.get(name, 0.0)
        sources[name] = _source(settings, tokenizer, file, trained)
        source_shares[name] = shares[name] * (1 - in_sentences)
        if in_sentences > 0:
            sources[f"{name}/sentences"] = _sentences(settings, tokenizer, text, trained, directory)
            source_shares[f"{name}/sentences"] = shares[name] * in_sentences
        if len(held):
            domains[name] = _eval_rows(settings, tokenizer, file, held, vocabulary, unigram)
    for text in eval_texts:
        file = _tokens(text, tokenizer, directory)
        eval_tokens[text.name] = int(file.ids.size)
        domains[text.name] = _eval_rows(
            settings, tokenizer, file, np.arange(file.documents), vocabulary, unigram
        )
    _refuse_tiny(settings, files)
    _refuse_short(settings, files)
    corruption = Corruption(settings.masking, vocabulary, unigram)
    length = settings.max_steps * settings.batch_size
    rows = MixedRows(sources, source_shares, corruption, length=length, seed=settings.seed)
    sizes = {name: int(file.ids.size) for name, file in files.items()}
    return TrainingData(tokenizer, vocabulary, unigram, shares, sizes, eval_tokens, rows, domains, kept)


def changed_text(settings: Settings, directory: Path) -> Path | None:
    """Return a text that is no longer the one that the run in a directory began with; None: all are."""
    held = corpora(settings.eval_corpora) if settings.eval_corpora else []
    for text in [*corpora(settings.corpora), *held]:
        for kind in ("tokens", "full"):
            about = about_tokens(directory / kind / text.name)
            if about is not None and about["corpus"] != text.fingerprint():
                return text.path
    return None


def initial_model(settings: Settings, data: TrainingData) -> Any:
    """The model before the first step, from the preset or the checkpoint that the settings name.

    The tokenizer is told its window.
    """
    model = _from_scratch(settings, data) if _is_fresh(settings) else _from_checkpoint(settings, data)
    room = window_of(model, data.tokenizer)
    if settings.max_length > room:
        raise UsageError(f"expected a max_length of at most {room} for this model, got {settings.max_length}")
    # without positions of its own a model reads any length
    data.tokenizer.model_max_length = room if room < BOUNDLESS else max(settings.max_length, 512)
    return model


def _is_fresh(settings: Settings) -> bool:
    return settings.init_from in init_model.PRESETS or Path(locate(settings.init_from)).is_file()


def _from_scratch(settings: Settings, data: TrainingData) -> Any:
    return init_model.from_scratch(
        settings.init_from,
        data.tokenizer,
        max_length=settings.max_length,
        next_sentence=settings.next_sentence,
        dropout=settings.dropout,
    )


def _from_checkpoint(settings: Settings, data: TrainingData) -> Any:
    path = Path(locate(settings.init_from))
    if not path.is_dir():
        raise UsageError(
            f"expected a preset ({', '.join(init_model.PRESETS)}), a config file or a checkpoint directory "
            f"to start from, got {settings.init_from!r}: check the name or the path"
        )
    model, headless = init_model.from_checkpoint(
        path, next_sentence=settings.next_sentence, dropout=settings.dropout
    )
    if settings.layers:
        init_model.keep_layers(model, settings.layers)
    if data.kept is not None:
        init_model.keep_tokens(model, data.kept)
    _refuse_other_tokenizer(settings, data, model)
    if headless:
        init_model.init_head(model, data.unigram)
    return model


def _refuse_other_tokenizer(settings: Settings, data: TrainingData, model: Any) -> None:
    """A checkpoint's embeddings are those of its own tokens."""
    rows, tokens = int(model.get_input_embeddings().weight.shape[0]), len(data.tokenizer)
    if tokens > rows:
        raise UsageError(
            f"the tokenizer has {tokens:,} tokens, and {settings.init_from} embeds {rows:,}: leave tokenizer "
            "out to take the checkpoint's own"
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


def _sentences(settings: Settings, tokenizer: Any, text: Corpus, documents: Any, directory: Path) -> Packing:
    """The rows of single sentences, from the documents that are trained on."""
    file = _tokens(SentenceCorpus(text.name, text.path), tokenizer, directory / "sentences")
    found = Sentences.of(file, documents, closing_id(tokenizer))
    return Packing(
        found,
        np.arange(len(found.starts)),
        settings.max_length,
        _marks(tokenizer),
        alone=not settings.packing,
        whole=True,
    )


def _eval_rows(
    settings: Settings,
    tokenizer: Any,
    file: TokenFile,
    documents: Any,
    vocabulary: Vocabulary,
    unigram: Unigram,
) -> EvalRows:
    source = _source(settings, tokenizer, file, documents)
    total = source.rows() if isinstance(source, Packing) else settings.eval_rows
    return spread_rows(source, total, settings.eval_rows, vocabulary, unigram)


def _refuse_trained_on(texts: list[Corpus], eval_texts: list[Corpus]) -> None:
    """Text that is trained on, under whatever name, says nothing about other text."""
    for text in eval_texts:
        for other in texts:
            if text.same_text(other):
                raise UsageError(
                    f"{text.path} is evaluated on as {text.name!r} and trained on as {other.name!r}: "
                    "evaluate on another text, or on a part of this one with eval_one_in"
                )


def _refuse_unknown_corpus(settings: Settings, texts: list[Corpus]) -> None:
    names = [text.name for text in texts]
    unknown = sorted(set(settings.sentence_shares) - set(names))
    if unknown:
        raise UsageError(f"sentence_shares: expected corpora among {', '.join(names)}, got {unknown[0]!r}")


def _refuse_tiny(settings: Settings, files: Mapping[str, TokenFile]) -> None:
    have = sum(file.ids.size for file in files.values())
    need = settings.batch_size * settings.max_length
    if have < need:
        raise UsageError(
            f"expected text for one batch ({settings.batch_size} rows of {settings.max_length} = {need} "
            f"tokens), got {have} tokens: give more text, or lower batch_size or max_length"
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
