"""Opening a Hugging Face checkpoint safely, and saying in one line what is wrong with one that won't open.

No remote code is run, and pickled weights are refused unless asked for by name. A checkpoint without the
weights of an MLM head, or with weights that are not numbers, is refused too: the library would otherwise
fill in random ones and go on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from unmask.errors import RunError, UsageError, first_line
from unmask.linear_layers import for_inference
from unmask.models.config_check import check_config
from unmask.models.engine import KNOWN
from unmask.models.hub import config_directory, kept_from_hub

WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
HUB_NAME = re.compile(r"^[\w.-]+(/[\w.-]+)?$")


def open_checkpoint(source: str | Path, *, allow_pickle: bool = False) -> tuple[Any, Any]:
    """Return the model (float32, in evaluation mode) and the tokenizer of a directory or a hub name."""
    source, is_directory, config, tokenizer = _open_parts(str(source), allow_pickle=allow_pickle)
    if tokenizer.mask_token_id is None:
        raise UsageError(
            f"the tokenizer of '{source}' has no mask token, so it can't mark a blank: give a masked "
            f"language model such as BERT, RoBERTa or ESM"
        )
    from transformers import AutoModelForMaskedLM

    model, report = _open_weights(AutoModelForMaskedLM, source, config, is_directory, allow_pickle)
    _check_weights(source, model, report)
    return for_inference(model), tokenizer


def open_causal(source: str | Path, *, allow_pickle: bool = False) -> tuple[Any, Any]:
    """Return a causal model (float32, in evaluation mode) and the tokenizer of a directory or a hub name."""
    source, is_directory, config, tokenizer = _open_parts(str(source), allow_pickle=allow_pickle, causal=True)
    from transformers import AutoModelForCausalLM

    model, report = _open_weights(AutoModelForCausalLM, source, config, is_directory, allow_pickle)
    _check_weights(source, model, report)
    return for_inference(model), tokenizer


def open_encoder(source: str | Path, *, allow_pickle: bool = False) -> tuple[Any, Any]:
    """Return the encoder alone (float32, in evaluation mode) and the tokenizer; a head need not be there."""
    source, is_directory, config, tokenizer = _open_parts(str(source), allow_pickle=allow_pickle)
    from transformers import AutoModel

    model, report = _open_weights(AutoModel, source, config, is_directory, allow_pickle)
    # a pooler makes one vector of a text for a classifier; the encoder does without
    report["missing_keys"] = {name for name in report["missing_keys"] if "pooler" not in name}
    _check_weights(source, model, report)
    return for_inference(model), tokenizer


def open_with_head(
    source: str | Path,
    kind: Any,
    settings: Mapping[str, Any],
    *,
    pretrained: bool = True,
    allow_pickle: bool = False,
) -> tuple[Any, Any, bool]:
    """Return a model for training with a head of a kind (an `AutoModelFor...`), the tokenizer, and whether
    all of the head is fresh.

    `settings` go into the config where it has them; without `pretrained` the encoder is fresh, too. The whole
    of a model that was trained with such a head is taken as it is.
    """
    source, is_directory, config, tokenizer = _open_parts(str(source), allow_pickle=allow_pickle)
    for name, value in settings.items():
        if hasattr(config, name):
            setattr(config, name, value)
    if not pretrained:
        return kind.from_config(config, dtype=torch.float32), tokenizer, True
    model, report = _open_weights(kind, source, config, is_directory, allow_pickle)
    encoder = f"{model.base_model_prefix}."
    head = {name for name, _ in model.named_parameters() if not name.startswith(encoder) or "pooler" in name}
    fresh = head <= {*report["missing_keys"], *(key[0] for key in report["mismatched_keys"])}
    report["missing_keys"] = set(report["missing_keys"]) - head
    report["mismatched_keys"] = {key for key in report["mismatched_keys"] if key[0].startswith(encoder)}
    _check_weights(source, model, report)
    return model, tokenizer, fresh


def _open_parts(source: str, *, allow_pickle: bool, causal: bool = False) -> tuple[str, bool, Any, Any]:
    """Return the source, whether it is a directory, the config and the tokenizer."""
    try:
        is_directory, exists = Path(source).is_dir(), Path(source).exists()
    except OSError:  # longer than a path may be
        is_directory = exists = False
    if exists and not is_directory:
        raise UsageError(
            f"'{source}' is a file: give the directory of the checkpoint that holds its config.json"
        )
    if not is_directory and not HUB_NAME.match(source):
        raise UsageError(f"no model at '{source}': give a checkpoint's directory, a hub name, or 'english'")
    if not is_directory and (kept := kept_from_hub(source)) is not None:
        source, is_directory = str(kept), True
    if is_directory:
        _check_files(Path(source), allow_pickle=allow_pickle)

    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        config = AutoConfig.from_pretrained(source, trust_remote_code=False)
    except Exception as error:
        raise _cannot_open(source, error, is_directory) from error
    if causal and type(config) not in AutoModelForCausalLM._model_mapping:
        raise UsageError(
            f"'{source}' is a model of type '{config.model_type}', which is no causal language model: give a "
            f"checkpoint such as GPT-2"
        )
    if not causal and type(config) not in AutoModelForMaskedLM._model_mapping:
        raise UsageError(
            f"'{source}' is a model of type '{config.model_type}', which has no masked-language-model head: "
            f"give a checkpoint such as BERT, RoBERTa or ESM"
        )
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    except Exception as error:
        raise RunError(
            f"the tokenizer of '{source}' can't be read ({first_line(error)}): expected its files, such as "
            f"tokenizer.json or vocab.txt, beside the weights"
        ) from error
    if set(tokenizer.get_vocab().values()) <= set(tokenizer.all_special_ids):
        # where the files of the vocabulary are missing, the library makes up a tokenizer without one
        raise RunError(
            f"'{source}' holds no vocabulary: expected the files of its tokenizer, such as tokenizer.json or "
            f"vocab.txt, beside the weights"
        )
    return source, is_directory, config, tokenizer


def is_causal(source: str | Path) -> bool:
    """Whether a checkpoint is of a kind that is causal and never masked; False for what can't be read."""
    path = Path(source) / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        kept = config_directory(str(source)) if HUB_NAME.match(str(source)) else None
        return kept is not None and kept != Path(source) and is_causal(kept)
    kind = config.get("model_type") if isinstance(config, dict) else None
    if not isinstance(kind, str) or kind in KNOWN:
        return False
    from transformers.models.auto import modeling_auto as auto

    masked = kind in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    return kind in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and not masked


def _open_weights(
    kind: Any, source: str, config: Any, is_directory: bool, allow_pickle: bool
) -> tuple[Any, dict[str, Any]]:
    """Return the model of a kind, and the library's report of what was missing or did not fit."""
    config.return_dict = True  # some old checkpoints ask for bare tuples
    try:
        model, report = kind.from_pretrained(
            source,
            config=config,
            trust_remote_code=False,
            use_safetensors=None if allow_pickle else True,
            dtype=torch.float32,
            ignore_mismatched_sizes=True,  # they are refused below, in words that say what is wrong
            output_loading_info=True,
        )
    except Exception as error:
        raise _cannot_open(source, error, is_directory) from error
    return model, report


def _check_files(directory: Path, *, allow_pickle: bool) -> None:
    """Say what a directory lacks before anything heavy is imported."""
    if not (directory / "config.json").is_file():
        raise UsageError(
            f"'{directory}' holds no config.json: give the directory of a Hugging Face checkpoint"
        )
    check_config(directory)
    if any((directory / name).is_file() for name in WEIGHTS):
        return
    if not any((directory / name).is_file() for name in PICKLES):
        raise RunError(f"'{directory}' holds a config.json but no weights: expected {WEIGHTS[0]}")
    if not allow_pickle:
        raise UsageError(
            f"'{directory}' holds pickled weights only, which can run code when read: if you trust them, "
            f"allow it with --allow-pickle (allow_pickle=True)"
        )


def _check_weights(source: str, model: Any, report: dict[str, Any]) -> None:
    """Refuse a checkpoint that lacks part of the model, or whose weights are not finite."""
    if report["mismatched_keys"]:
        name, found, expected = sorted(report["mismatched_keys"])[0]
        raise RunError(
            f"'{source}' holds weights of other shapes than its config.json says ({name} is {list(found)}, "
            f"not {list(expected)}): take both files from one checkpoint"
        )
    if report["missing_keys"]:
        raise _missing(source, model, sorted(report["missing_keys"]))
    for name, weight in model.named_parameters():
        if not torch.isfinite(weight).all():
            raise RunError(
                f"'{source}' holds weights that are not numbers (NaN or infinite) in {name}: it is damaged, "
                f"take another copy"
            )


def _missing(source: str, model: Any, missing: list[str]) -> RunError:
    """Say of which part of a model weights are missing: the head, or the encoder that all depends on."""
    prefix = model.base_model_prefix
    encoder = [name for name in missing if name.startswith(f"{prefix}.") or not hasattr(model, prefix)]
    named = encoder or missing
    told = ", ".join([*named[:3], *(["..."] if len(named) > 3 else [])])
    if encoder:
        return RunError(
            f"'{source}' lacks weights of the encoder that its config.json describes ({told}): it is "
            f"damaged, take another copy"
        )
    return RunError(
        f"'{source}' lacks weights of a masked language model ({told}): it may be an encoder without a head; "
        f"'unmask train' can give it one"
    )


def _cannot_open(source: str, error: Exception, is_directory: bool) -> Exception:
    if is_directory:
        if "`model_type` key" in str(error):
            return RunError(
                f"'{Path(source) / 'config.json'}' does not say which kind of model it is: add a line "
                f'such as "model_type": "bert" to it'
            )
        return RunError(
            f"the checkpoint in '{source}' can't be read ({first_line(error)}): it may be damaged, take "
            f"another copy"
        )
    from huggingface_hub.constants import HF_HUB_OFFLINE

    if HF_HUB_OFFLINE:
        return UsageError(
            f"'{source}' is no directory here, and the hub is switched off (HF_HUB_OFFLINE): give a "
            f"directory, or switch it on"
        )
    return UsageError(
        f"'{source}' is no directory here, and the hub could not give it ({first_line(error)}): check the "
        f"name and the network, or give a directory"
    )
