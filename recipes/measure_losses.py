"""Evaluation losses of a model on the text that the recipe of the embedded model keeps from training.

Per token by the procedure of the card, at any share of masked tokens. Losses per token differ with the
vocabulary; so there is also the loss on whole words: the same words are masked with all of their tokens,
whatever the vocabulary, in nats per word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from english import sentences as snli_sentences
from torch.nn import functional

from unmask.training.corpus import Corpus, Document
from unmask.training.eval import SEED, score, spread_rows
from unmask.training.forward import Gathering, predicted, token_logits
from unmask.training.masking import IGNORED, Masking, Unigram, Vocabulary
from unmask.training.packing import Marks, Packing
from unmask.training.sentences import sentences
from unmask.training.tokenfile import TokenFile, encoded, mixture

EVAL_ONE_IN = 100
"""As in the settings of the stages, english*.toml."""
SHARES = (0.15, 0.4)
LENGTH = 128
SHORTEST, LONGEST = 5, 40
"""Words of a single sentence."""
TEXTS_AT_ONCE = 32

Domains = Mapping[str, Sequence[Document]]


def eval_documents(data: Path) -> Domains:
    """The documents that no training sees, by domain."""
    found: dict[str, Sequence[Document]] = {}
    for name in ("wikipedia", "novels"):
        numbered = enumerate(Corpus(name, data / "corpus" / f"{name}.txt.gz").documents())
        found[name] = [document for n, document in numbered if n % EVAL_ONE_IN == EVAL_ONE_IN // 2]
    return found | {"snli-dev": [[sentence] for sentence in snli_sentences(data / "snli" / "dev.tsv")]}


def losses_by_token(
    model: Any, gathering: Gathering, tokenizer: Any, domains: Domains, rows: int
) -> dict[str, float]:
    """By the procedure of the card: the same documents and rows, 80/10/10.

    The replacements are drawn from the evaluation text's own unigram, not the training text's: a thousandth
    of a nat.
    """
    files = [_token_file(name, documents, tokenizer) for name, documents in domains.items()]
    vocabulary = Vocabulary.of(tokenizer)
    unigram = Unigram.of(mixture(files, alpha=0, stated={})[1], tokenizer.all_special_ids)
    marks = Marks(tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id)
    found = {}
    for file in files:
        source = Packing(file, np.arange(file.documents), LENGTH, marks)
        per_word = _tokens_per_word(file, tokenizer, domains[file.name])
        found[f"{file.name}: tokens per word"] = per_word
        for share in SHARES:
            items = spread_rows(source, source.rows(), rows, vocabulary, unigram, Masking(share))
            loss = score(model, gathering, {file.name: items})[file.name].loss
            found[f"{file.name}: nats per token, {share:.0%} masked"] = loss
            found[f"{file.name}: nats per token × tokens per word, {share:.0%} masked"] = loss * per_word
    return found


def losses_by_word(
    model: Any, gathering: Gathering, tokenizer: Any, domains: Domains, texts: int
) -> dict[str, float]:
    """Nats per whole word, in paragraphs and in single sentences."""
    found = {}
    for domain, documents in domains.items():
        paragraphs = [paragraph for document in documents for paragraph in document]
        single = [one for paragraph in paragraphs for one in sentences(paragraph)]
        middling = [one for one in single if SHORTEST <= len(one.split()) <= LONGEST]
        kinds = {"sentences": middling} | ({} if domain == "snli-dev" else {"paragraphs": paragraphs})
        for kind, of_kind in kinds.items():
            for share in SHARES:
                loss = _word_loss(model, gathering, tokenizer, _spread(of_kind, texts), share)
                found[f"{domain}, {kind}: nats per word, {share:.0%} masked"] = loss
    return found


def _token_file(name: str, documents: Sequence[Document], tokenizer: Any) -> TokenFile:
    """Tokenise documents in memory."""
    ids = list(encoded(documents, tokenizer))
    joined = np.concatenate(ids)
    starts = np.cumsum([0, *(len(one) for one in ids)])
    return TokenFile(name, joined, starts, np.bincount(joined, minlength=len(tokenizer)))


def _words_of(text: str, tokenizer: Any) -> list[str]:
    """The words and marks that BERT's tokenizer parts a text into before it looks for tokens."""
    backend = tokenizer.backend_tokenizer
    cleaned = backend.normalizer.normalize_str(text)
    return [word for word, _ in backend.pre_tokenizer.pre_tokenize_str(cleaned)]


def _tokens_per_word(file: TokenFile, tokenizer: Any, documents: Sequence[Document]) -> float:
    """Separators left out."""
    words = sum(len(_words_of(paragraph, tokenizer)) for document in documents for paragraph in document)
    return float((file.ids != tokenizer.sep_token_id).sum() / words)


@torch.no_grad()
def _word_loss(model: Any, gathering: Gathering, tokenizer: Any, texts: Sequence[str], share: float) -> float:
    """Nats per masked word: the sum over its tokens, all of which are masked at once."""
    total, words = 0.0, 0
    for at in range(0, len(texts), TEXTS_AT_ONCE):
        numbered = enumerate(texts[at : at + TEXTS_AT_ONCE], at)
        pieces = [_masked(number, text, tokenizer, share) for number, text in numbered]
        ids = _padded([piece[0] for piece in pieces], tokenizer.pad_token_id)
        rows, columns, true = predicted(_padded([piece[1] for piece in pieces], IGNORED))
        with gathering.at(rows, columns):
            output = model(input_ids=ids, attention_mask=(ids != tokenizer.pad_token_id).long())
        total += float(functional.cross_entropy(token_logits(output), true, reduction="sum"))
        words += sum(piece[2] for piece in pieces)
    return total / words


def _masked(number: int, text: str, tokenizer: Any, share: float) -> tuple[list[int], list[int], int]:
    """Ids, labels and the number of masked words: at least one, chosen by the text's number alone."""
    words = _words_of(text, tokenizer)[: LENGTH // 2]
    draws = np.random.default_rng([SEED, number, round(100 * share)]).random(len(words))
    chosen = draws < max(share, draws.min() + 1e-9)
    ids, labels = [tokenizer.cls_token_id], [IGNORED]
    for word, hidden in zip(words, chosen, strict=True):
        own = tokenizer.convert_tokens_to_ids(tokenizer.tokenize(word))
        ids += [tokenizer.mask_token_id] * len(own) if hidden else own
        labels += own if hidden else [IGNORED] * len(own)
    return [*ids, tokenizer.sep_token_id], [*labels, IGNORED], int(chosen.sum())


def _padded(rows: Sequence[Sequence[int]], filler: int) -> torch.Tensor:
    """[rows, longest]."""
    tensors = [torch.tensor(row) for row in rows]
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=filler)


def _spread(items: Sequence[str], wanted: int) -> list[str]:
    """At most so many, evenly spread."""
    return [items[int(n)] for n in np.linspace(0, len(items) - 1, min(wanted, len(items))).round()]
