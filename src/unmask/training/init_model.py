"""The first weights of a model: fresh, from a checkpoint, or from an encoder that has no head yet.

An encoder trained for something else (sentence vectors, say) gets a head: it begins as the
embeddings themselves (tied weights), an identity in front of them, and the log unigram probabilities as
bias, so that the very first loss is near the unigram entropy. A vocabulary cut keeps the rows of the tokens
that stay; layers can be left out too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn

from unmask.errors import RunError, UsageError, first_line
from unmask.models.parameters import DROPOUTS
from unmask.training.forward import BERT_LIKE
from unmask.training.masking import Unigram


def _shape(hidden: int, layers: int, heads: int, **others: Any) -> dict[str, Any]:
    """The config of an encoder whose feed-forward blocks are four times as wide as its states."""
    sizes = {"hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads}
    return (
        {"model_type": "bert", "max_position_embeddings": 512, "intermediate_size": 4 * hidden}
        | sizes
        | others
    )


PRESETS = {
    "bert-tiny": _shape(128, 2, 2),
    "bert-mini": _shape(256, 4, 4),
    "bert-base": _shape(768, 12, 12),
    "xlm-r-base": _shape(
        *(768, 12, 12),
        model_type="xlm-roberta",
        type_vocab_size=1,
        max_position_embeddings=514,
        layer_norm_eps=1e-5,
    ),
}
COUNTING_FROM_PADDING = {"roberta", "xlm-roberta", "camembert", "esm"}
"""Architectures whose positions begin after the id of the padding token."""


def from_scratch(preset: str, tokenizer: Any, *, max_length: int, next_sentence: bool, dropout: float) -> Any:
    """A fresh model of a preset, or of any config file that transformers knows."""
    from transformers import AutoConfig

    if preset in PRESETS:
        shape = dict(PRESETS[preset])
    elif Path(preset).exists():
        shape = read_config(Path(preset)).to_dict()
    else:
        raise UsageError(
            f"expected a preset ({', '.join(PRESETS)}) or the path of a config, got {preset!r}: choose one"
        )
    spare = tokenizer.pad_token_id + 1 if shape["model_type"] in COUNTING_FROM_PADDING else 0
    shape["max_position_embeddings"] = max(int(shape.get("max_position_embeddings", 512)), max_length + spare)
    shape.update(
        vocab_size=len(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.cls_token_id,
        eos_token_id=tokenizer.sep_token_id,
    )
    config = AutoConfig.for_model(**shape)
    own = _set_dropout(config, dropout)
    # a config may come from a checkpoint in half precision; training needs single
    model = _with_head(config, next_sentence).from_config(config, dtype=torch.float32)
    model.own_dropout = own
    return model


def from_checkpoint(path: Path, *, next_sentence: bool, dropout: float) -> tuple[Any, bool]:
    """Load a masked language model, or an encoder and add a head; and whether it came without one."""
    config = read_config(path)
    try:
        own = _set_dropout(config, dropout)
        config.tie_word_embeddings = True
        with _quiet_loading():
            model, report = _with_head(config, next_sentence).from_pretrained(
                path, config=config, output_loading_info=True, use_safetensors=True, dtype=torch.float32
            )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        if isinstance(error, UsageError):
            raise
        raise RunError(f"{path}: the checkpoint could not be loaded ({first_line(error)})") from None
    model.own_dropout = own
    return model, _headless(model, set(report["missing_keys"]))


def _set_dropout(config: Any, dropout: float) -> dict[str, float]:
    """Set a run's dropout; returns what the config had."""
    own = {name: getattr(config, name) for name in DROPOUTS if hasattr(config, name)}
    for name in own:
        setattr(config, name, dropout)
    return own


def restore_dropout(model: Any) -> None:
    """Give the config its own dropout back: that of a run is not for whoever fine-tunes the result."""
    for name, value in getattr(model, "own_dropout", {}).items():
        setattr(model.config, name, value)


def _headless(model: Any, missing: set[str]) -> bool:
    """Whether weights of the masked-language-model head were not in the checkpoint.

    Tied weights go by several names, of which a checkpoint holds one.
    """
    named = list(model.named_parameters(remove_duplicate=False))
    there = {id(weight) for name, weight in named if name not in missing}
    body = {id(weight) for weight in model.base_model.parameters()}
    return any(
        id(weight) not in there and id(weight) not in body and "seq_relationship" not in name
        for name, weight in named
    )


def read_config(path: Path) -> Any:
    """Read the config of a checkpoint's directory, or a config file; refuse what is no masked model's."""
    from transformers import AutoConfig

    if path.is_dir() and not (path / "config.json").exists():
        raise UsageError(
            f"{path}: expected a checkpoint directory with config.json, found none: check the path"
        )
    try:
        config = AutoConfig.from_pretrained(path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{path}: expected a config that transformers knows, got one it can't read ({first_line(error)})"
        ) from None
    refuse_causal(config, path)
    return config


def refuse_causal(config: Any, path: Path) -> None:
    """A causal model has no mask to fill: say so before anything is loaded."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    names = config.architectures or []
    causal = any(name.endswith(("ForCausalLM", "LMHeadModel")) for name in names)
    if causal or config.model_type not in MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        raise UsageError(
            f"{path}: expected a masked language model or an encoder, got "
            f"{', '.join(names) or config.model_type}: choose a BERT-like checkpoint"
        )


def init_head(model: Any, unigram: Unigram) -> None:
    """Tied embeddings behind an identity, the log unigram distribution as bias.

    Found by their shapes, since architectures differ in names: outside the encoder, what leads from its
    width to that of the output layer, and what has a number for each token.
    """
    output = model.get_output_embeddings()
    body = {id(module) for module in model.base_model.modules()}
    head = [module for module in model.modules() if id(module) not in body and module is not output]
    shape = (output.weight.shape[1], model.config.hidden_size)
    dense = [m for m in head if isinstance(m, nn.Linear) and tuple(m.weight.shape) == shape]
    inside = {id(weight) for weight in model.base_model.parameters()}
    biases = [
        weight
        for weight in model.parameters()
        if id(weight) not in inside and tuple(weight.shape) == (output.weight.shape[0],)
    ]
    with torch.no_grad():
        for layer in dense:
            nn.init.eye_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        known = torch.from_numpy(unigram.log_prob())
        for bias in biases:
            bias.fill_(float(known.min()))  # rows beyond the tokenizer's are padding
            bias[: len(known)] = known


def keep_tokens(model: Any, old: Sequence[int]) -> None:
    """Keep the embedding rows (and, tied, the output rows) of the old ids, in the new order."""
    index = torch.as_tensor(list(old))
    embeddings = model.get_input_embeddings()
    rows = embeddings.weight.detach()[index].clone()
    output = model.get_output_embeddings()
    bias = output.bias.detach()[index].clone() if output.bias is not None else None
    model.resize_token_embeddings(len(index))
    with torch.no_grad():
        model.get_input_embeddings().weight.copy_(rows)
        if bias is not None:
            model.get_output_embeddings().bias.copy_(bias)
    model.tie_weights()


def keep_layers(model: Any, layers: Sequence[int]) -> None:
    """Keep the named layers of a BERT-like encoder, counted from 0."""
    if model.config.model_type not in BERT_LIKE:
        raise UsageError(
            f"layers can be cut from {', '.join(sorted(BERT_LIKE))}, got {model.config.model_type}"
        )
    encoder = model.base_model.encoder
    if not layers or max(layers) >= len(encoder.layer) or min(layers) < 0:
        raise UsageError(f"expected layers between 0 and {len(encoder.layer) - 1}, got {list(layers)}")
    encoder.layer = nn.ModuleList(encoder.layer[number] for number in layers)
    model.config.num_hidden_layers = len(layers)


def _with_head(config: Any, next_sentence: bool) -> Any:
    from transformers import AutoModelForMaskedLM, AutoModelForPreTraining

    if not next_sentence:
        return AutoModelForMaskedLM
    if config.model_type != "bert":
        raise UsageError(f"next-sentence prediction needs a BERT, got {config.model_type}: switch it off")
    return AutoModelForPreTraining


@contextmanager
def _quiet_loading() -> Iterator[None]:
    """An encoder without a head is expected here: no warning that its head is missing."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
