"""Vocabularies: trained from text (WordPiece as BERT, Unigram as XLM-R) or cut down from a larger one.

Several corpora enter in a stratified way, share ∝ size^α, so that a large language does not crowd out a
small one. Cutting keeps the special tokens, every ASCII character, the other characters that the corpora
use, and then the most frequent tokens; words that lose their token are spelled by the pieces that stay.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmask.errors import UnmaskError, UsageError
from unmask.training.corpus import Corpus, drawn, shares_of

BERT_SPECIAL = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
XLM_R_SPECIAL = {"cls": "<s>", "pad": "<pad>", "sep": "</s>", "unk": "<unk>", "mask": "<mask>"}
RARE = 1e-6
"""A character outside ASCII keeps its token if its share of the tokens is above this."""


def train_vocabulary(
    corpora: Sequence[Corpus],
    *,
    tokenizer_type: str,
    size: int,
    alpha: float,
    lowercase: bool,
    seed: int,
    shares: Mapping[str, float] | None = None,
) -> Any:
    """Train a tokenizer of `size` tokens (Unigram: at most a quarter fewer), wrapped for transformers.

    A corpus's share of the text is stated, or proportional to its size^alpha.

    The trainers break ties between equally frequent pairs in no fixed order, so that two trainings may
    differ in a few tokens; a run keeps its tokenizer.
    """
    import tokenizers
    from tokenizers import models, normalizers, pre_tokenizers, trainers

    if tokenizer_type == "wordpiece":
        special = BERT_SPECIAL
        backend = tokenizers.Tokenizer(models.WordPiece(unk_token=special["unk"]))
        backend.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer: Any = trainers.WordPieceTrainer(
            vocab_size=size, special_tokens=list(special.values()), show_progress=False, min_frequency=1
        )
    elif tokenizer_type == "unigram":
        special = XLM_R_SPECIAL
        backend = tokenizers.Tokenizer(models.Unigram())
        steps = [normalizers.NFKC(), normalizers.Lowercase()] if lowercase else [normalizers.NFKC()]
        backend.normalizer = normalizers.Sequence(steps)
        backend.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(
            vocab_size=size,
            special_tokens=list(special.values()),
            unk_token=special["unk"],
            show_progress=False,
        )
    else:
        raise UsageError(f"expected a tokenizer_type of wordpiece or unigram, got {tokenizer_type!r}")
    try:
        backend.train_from_iterator(_stratified(corpora, shares, alpha, seed), trainer)
    except UnmaskError:
        raise  # the text could not be read
    except Exception as error:
        # the trainers raise a bare Exception when the text holds too few pieces
        raise _too_small(size, 0, str(error)) from None
    # the Unigram trainer drops pieces of no use on its way and may end with some fewer than asked
    least = size if tokenizer_type == "wordpiece" else 3 * size // 4
    if not least <= backend.get_vocab_size() <= size:
        raise _too_small(size, backend.get_vocab_size(), "")
    return wrap(_in_order(backend, special) if tokenizer_type == "wordpiece" else backend, special)


def _in_order(backend: Any, special: Mapping[str, str]) -> Any:
    """Number a trained WordPiece vocabulary by its spelling: the trainer's own order differs by the run."""
    saved = json.loads(backend.to_str())
    first = list(special.values())
    tokens = [*first, *sorted(set(saved["model"]["vocab"]) - set(first))]
    saved["model"]["vocab"] = {token: number for number, token in enumerate(tokens)}
    return _renumbered(saved, saved["model"]["vocab"])


def _renumbered(saved: dict[str, Any], ids: Mapping[str, int]) -> Any:
    """Return a tokenizer as it was saved, with its added tokens under the ids that they have now."""
    import tokenizers

    kept = [added for added in saved["added_tokens"] if added["content"] in ids]
    saved["added_tokens"] = [{**added, "id": ids[added["content"]]} for added in kept]
    return tokenizers.Tokenizer.from_str(json.dumps(saved))


def wrap(backend: Any, special: Mapping[str, str]) -> Any:
    """Give a tokenizer its [CLS] … [SEP] frame, its word decoder and its named special tokens."""
    from tokenizers import decoders, processors
    from transformers import PreTrainedTokenizerFast

    cls, sep = special["cls"], special["sep"]
    backend.post_processor = processors.TemplateProcessing(
        single=f"{cls} $A {sep}",
        pair=f"{cls} $A {sep} $B:1 {sep}:1",
        special_tokens=[(cls, backend.token_to_id(cls)), (sep, backend.token_to_id(sep))],
    )
    pieces = json.loads(backend.to_str())["model"]["type"] == "WordPiece"
    backend.decoder = decoders.WordPiece() if pieces else decoders.Metaspace()
    names = {f"{name}_token": token for name, token in special.items()}
    # BERT tells its two segments apart by token types, XLM-R does not
    inputs = ["input_ids", "token_type_ids", "attention_mask"] if pieces else ["input_ids", "attention_mask"]
    return PreTrainedTokenizerFast(tokenizer_object=backend, model_input_names=inputs, **names)


def cut(tokenizer: Any, shares: NDArray[np.float64], size: int) -> tuple[Any, list[int]]:
    """Keep `size` tokens, by their share [vocab] of the text: the new tokenizer and their old ids."""
    backend = tokenizer.backend_tokenizer
    saved = json.loads(backend.to_str())
    tokens = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    special = sorted(tokenizer.all_special_ids)
    supported = int((shares > 0).sum()) + len(special)
    if size > supported:
        raise _too_small(size, supported, "")
    kept = dict.fromkeys(special)
    for index, token in enumerate(tokens):
        character = token.removeprefix("##").removeprefix("▁")
        if len(character) == 1 and (character.isascii() or shares[index] > RARE):
            kept[index] = None
    if len(kept) > size:
        raise UsageError(
            f"{size} tokens of vocabulary cannot hold {len(kept)} special tokens and letters: ask for more"
        )
    for index in np.argsort(-shares, kind="stable"):
        if len(kept) == size:
            break
        if shares[index] > 0:
            kept[int(index)] = None
    old = special + sorted(set(kept) - set(special))
    new = {tokens[index]: number for number, index in enumerate(old)}
    if saved["model"]["type"] == "WordPiece":
        saved["model"]["vocab"] = new
    elif saved["model"]["type"] == "Unigram":
        scores = saved["model"]["vocab"]
        saved["model"]["vocab"] = [scores[index] for index in old]
        saved["model"]["unk_id"] = new[tokenizer.unk_token]
    else:
        raise UsageError(f"expected a WordPiece or Unigram vocabulary to cut, got {saved['model']['type']}")
    saved["post_processor"] = saved["truncation"] = saved["padding"] = None
    marks = {name: getattr(tokenizer, f"{name}_token") for name in BERT_SPECIAL}
    return wrap(_renumbered(saved, new), marks), old


def _stratified(
    corpora: Sequence[Corpus], stated: Mapping[str, float] | None, alpha: float, seed: int
) -> Iterator[str]:
    """All of the corpus that is short of its share, and a random part of the others."""
    sizes = {corpus.name: corpus.size() for corpus in corpora}
    if min(sizes.values()) > 0:
        shares = shares_of(sizes, alpha, stated or {})
        largest = min(sizes[name] / shares[name] for name in sizes if shares[name] > 0)
        fractions = {name: largest * shares[name] / sizes[name] for name in sizes}
    else:
        fractions = {}  # reading will say which file is missing or empty
    for number, corpus in enumerate(corpora):
        generator = np.random.default_rng([seed, number])
        yield from drawn(corpus, fractions.get(corpus.name, 1.0), generator)


def _too_small(size: int, supported: int, reason: str) -> UsageError:
    if supported > size:
        return UsageError(
            f"expected room for the letters of the corpus, but they and the special tokens are {supported}, "
            f"more than the {size} tokens of vocabulary: ask for more tokens"
        )
    got = f"it supports {supported}" if supported else f"it does not ({reason})"
    return UsageError(
        f"expected a corpus that supports {size} tokens of vocabulary, but {got}: ask for fewer tokens"
    )
