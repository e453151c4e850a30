"""Tiny masked language models of every supported architecture, built in code, offline, in milliseconds.

Each keeps what sets its kind apart at full size: where the special ids lie, how a word's start is marked,
where positions begin to count, whether there are token types, how wide the embeddings are. The weights are
random but large, so that what a model says of a blank is far from uniform and depends on the other tokens.
Not kept: byte-level vocabularies hold few of the 256 bytes, and a character outside them vanishes.
"""

import json
import string
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import (
    AlbertTokenizer,
    AutoConfig,
    AutoModelForMaskedLM,
    BertTokenizer,
    DistilBertTokenizer,
    EsmTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    GPT2Tokenizer,
    MPNetTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    RobertaTokenizer,
    TokenizersBackend,
    XLMRobertaTokenizer,
)
from transformers.models.esm.configuration_esm import get_default_vocab_list
from transformers.utils import logging

logging.disable_progress_bar()  # saving would draw into the output that tests read

WINDOW = 64  # tokens that a model reads at once, special ones included
SENTENCE = "The old man is playing at the casino."
PROTEIN = "MKTAYIAKQR"

# After a space, each of the words is one token in every text vocabulary; "playing" or "houses" are two.
_LEXICON = "the a old red big man dog cat is was at in on casino house bank money play walk"
WORDS = _LEXICON.split()
CASED_WORDS = [*WORDS, "The", "A", "Bill"]  # "bill" is spelt out
SUFFIXES = ["ing", "ed", "s", "er"]
LETTERS = list(string.ascii_lowercase)
CASED_LETTERS = [*LETTERS, "T", "A", "B", "M", "D"]
MARKS = [".", ",", "?", "'", "-"]

UNUSED = [f"[unused{i}]" for i in range(5)]
BERT_SPECIALS = ["[PAD]", *UNUSED, "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
FAIRSEQ_SPECIALS = ["<s>", "<pad>", "</s>", "<unk>"]
MADE_UP = [f"madeupword{i:04}" for i in range(3)]


def _mask_with_space(text: str) -> AddedToken:
    """A mask token that takes in the space before it, as a word with a word-start mark does."""
    return AddedToken(text, lstrip=True, special=True)


def _numbered(tokens: Iterable[str]) -> dict[str, int]:
    return {token: i for i, token in enumerate(dict.fromkeys(tokens))}


def _wordpieces(words: list[str], letters: list[str]) -> list[str]:
    return [*MARKS, *letters, *words, *(f"##{piece}" for piece in LETTERS + SUFFIXES)]


def _unigrams(specials: list[str], words: list[str], letters: list[str]) -> list[tuple[str, float]]:
    """Pieces with scores by which a word beats a stem with a suffix, and that beats single letters."""
    letters_and_marks = dict.fromkeys(["▁", *MARKS, *letters], -9.0)
    stems_and_suffixes = dict.fromkeys([*(f"▁{word}" for word in words), *SUFFIXES], -4.0)
    return list((dict.fromkeys(specials, 0.0) | letters_and_marks | stems_and_suffixes).items())


def _byte_pairs() -> tuple[list[str], list[tuple[str, str]]]:
    """Tokens and merges of a byte-level BPE in which the words are whole."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(initial_alphabet=[*MARKS, *CASED_LETTERS, "Ġ"], show_progress=False)
    tokenizer.train_from_iterator([*(f" {word}" for word in CASED_WORDS), "The", *SUFFIXES], trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return sorted(model["vocab"], key=model["vocab"].get), [tuple(pair) for pair in model["merges"]]


def _bert(kind: type = BertTokenizer, *, cased: bool = False, **options: Any) -> PreTrainedTokenizerBase:
    pieces = _wordpieces(CASED_WORDS, CASED_LETTERS) if cased else _wordpieces(WORDS, LETTERS)
    return kind(vocab=_numbered([*BERT_SPECIALS, *pieces]), do_lower_case=not cased, **options)


def _mpnet(**options: Any) -> PreTrainedTokenizerBase:
    """BERT's vocabulary, with its [MASK], [CLS] and [SEP] now idle, between fairseq's special tokens."""
    tokens = [*FAIRSEQ_SPECIALS, *BERT_SPECIALS, *_wordpieces(WORDS, LETTERS), "<mask>"]
    return MPNetTokenizer(vocab=_numbered(tokens), **options)


def _roberta(**options: Any) -> PreTrainedTokenizerBase:
    tokens, merges = _byte_pairs()
    vocabulary = _numbered([*FAIRSEQ_SPECIALS, *tokens, *MADE_UP, "<mask>"])
    return RobertaTokenizer(vocab=vocabulary, merges=merges, mask_token=_mask_with_space("<mask>"), **options)


def _xlm_roberta(**options: Any) -> PreTrainedTokenizerBase:
    vocabulary = [*_unigrams(FAIRSEQ_SPECIALS, CASED_WORDS, CASED_LETTERS), ("<mask>", 0.0)]
    return XLMRobertaTokenizer(vocab=vocabulary, mask_token=_mask_with_space("<mask>"), **options)


def _albert(**options: Any) -> PreTrainedTokenizerBase:
    vocabulary = _unigrams(["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"], WORDS, LETTERS)
    return AlbertTokenizer(vocab=vocabulary, mask_token=_mask_with_space("[MASK]"), **options)


def _modernbert(**options: Any) -> PreTrainedTokenizerBase:
    tokens, merges = _byte_pairs()
    specials = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
    vocabulary = _numbered(["<|padding|>", *tokens, "<|endoftext|>", *specials, *UNUSED])
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")],
    )
    return TokenizersBackend(
        tokenizer_object=backend,
        **{f"{token.strip('[]').lower()}_token": token for token in specials[:-1]},
        mask_token=_mask_with_space("[MASK]"),
        model_input_names=["input_ids", "attention_mask"],
        **options,
    )


def _esm(**options: Any) -> PreTrainedTokenizerBase:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "vocab.txt"
        path.write_text("\n".join(get_default_vocab_list()), encoding="utf-8")
        return EsmTokenizer(vocab_file=str(path), **options)


@dataclass(frozen=True)
class _Kind:
    """How to build one kind of model: its tokenizer, and what its configuration has of its own."""

    model_type: str
    tokenizer: Callable[..., PreTrainedTokenizerBase]
    config: dict[str, Any] = field(default_factory=dict)
    tokenizer_knows_window: bool = True


_SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
_EXACT = {"max_position_embeddings": WINDOW}
_OFFSET = {"max_position_embeddings": WINDOW + 2}  # fairseq counts positions from the padding id + 1
_NARROW = {"embedding_size": 16}
# As in ESM-2: rotary positions, so that no table bounds the length, and masked tokens embedded as zeros.
_ESM_2 = {"position_embedding_type": "rotary", "token_dropout": True, "emb_layer_norm_before": False}

_KINDS = {
    "bert": _Kind("bert", _bert),
    "bert-cased": _Kind("bert", partial(_bert, cased=True), tokenizer_knows_window=False),
    "roberta": _Kind("roberta", _roberta, _OFFSET | {"type_vocab_size": 1}),
    "xlm-roberta": _Kind("xlm-roberta", _xlm_roberta, _OFFSET | {"type_vocab_size": 1}),
    "albert": _Kind("albert", _albert, _NARROW),
    "distilbert": _Kind("distilbert", partial(_bert, DistilBertTokenizer), {"hidden_dim": 64}),
    "electra": _Kind("electra", _bert, _NARROW),
    "mpnet": _Kind("mpnet", _mpnet, _OFFSET),
    "modernbert": _Kind("modernbert", _modernbert, {"local_attention": 8}),  # in every layer but the first
    "esm": _Kind("esm", _esm, _OFFSET | _ESM_2, tokenizer_knows_window=False),
}

ARCHITECTURES: tuple[str, ...] = tuple(_KINDS)


def sentence(architecture: str) -> str:
    """A text of the model's domain, 12 tokens long with the special ones; one of its words is two tokens."""
    return PROTEIN if architecture == "esm" else SENTENCE


def save_tiny(
    architecture: str,
    directory: Path,
    *,
    seed: int = 0,
    extra_logits: int = 0,
    dtype: torch.dtype = torch.float32,
) -> Path:
    """Save a model and its tokenizer; `extra_logits` adds outputs without a token, and changes no other."""
    kind = _KINDS[architecture]
    tokenizer = kind.tokenizer(**{"model_max_length": WINDOW} if kind.tokenizer_knows_window else {})
    declared = {option.name for option in fields(AutoConfig.for_model(kind.model_type))}
    roles = [f"{role}_token_id" for role in ("pad", "bos", "eos", "cls", "sep", "mask")]
    config = AutoConfig.for_model(
        kind.model_type,
        vocab_size=len(tokenizer) + extra_logits,
        **{role: getattr(tokenizer, role) for role in roles if role in declared},
        **_SIZES | _EXACT | kind.config,
    )
    return _save(AutoModelForMaskedLM.from_config(config), tokenizer, directory, seed, dtype)


def save_causal(directory: Path, *, seed: int = 0) -> Path:
    """Save a GPT-2, which has neither a mask token nor the head of a masked language model."""
    tokens, merges = _byte_pairs()
    tokenizer = GPT2Tokenizer(vocab=_numbered([*tokens, "<|endoftext|>"]), merges=merges)
    ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    config = GPT2Config(vocab_size=len(tokenizer), n_embd=32, n_layer=2, n_head=2, n_positions=WINDOW, **ends)
    return _save(GPT2LMHeadModel(config), tokenizer, directory, seed, torch.float32)


def _save(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, directory: Path, seed: int, dtype: torch.dtype
) -> Path:
    _randomise(model, len(tokenizer), seed)
    model.to(dtype).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return Path(directory)


@torch.no_grad()
def _randomise(model: PreTrainedModel, tokens: int, seed: int) -> None:
    """Draw the weights anew; the layer norms keep their scale of 1.

    Positions and inner biases are kept small beside the words: what is the same for every text would drown
    the context. The rows of outputs without a token have their own generator.
    """
    generator, surplus = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(seed + 1)
    words, outputs = model.get_input_embeddings().weight, model.get_output_embeddings()
    bias = model.lm_head.bias if outputs.bias is None else outputs.bias  # ESM adds it after the output layer
    for name, parameter in model.named_parameters():
        if parameter is words or parameter is bias:
            parameter[:tokens].normal_(0.0, 0.5, generator=generator)
            parameter[tokens:].normal_(0.0, 0.5, generator=surplus)
        elif "position_embeddings" in name or "token_type" in name or name.endswith("bias"):
            parameter.normal_(0.0, 0.1, generator=generator)
        elif parameter.dim() > 1:
            parameter.normal_(0.0, 0.4, generator=generator)
