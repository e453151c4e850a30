"""A Hugging Face model that is held in memory: is it a masked language model, and does its tokenizer fit?

Everything is told from the module's class and the tokenizer's fields, before a forward pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from unmask.errors import UsageError
from unmask.models.masked_lm import DEFAULT_MEMORY, MaskedLM

if TYPE_CHECKING:
    from collections.abc import Iterable


def wrap(model: Any, tokenizer: Any, *, device: str = "auto", memory: int | str = DEFAULT_MEMORY) -> MaskedLM:
    """Return the `MaskedLM` of a module and its tokenizer.

    The module is used as it is, in evaluation mode, and not copied. With the device `auto` it stays where it
    is.
    """
    check_model(model)
    check_precision(model)
    check_tokenizer(model, tokenizer)
    name = getattr(model.config, "name_or_path", "") or type(model).__name__
    place = str(next(model.parameters()).device) if device == "auto" else device
    return MaskedLM(model, tokenizer, name=name, device=place, memory=memory)


def check_model(model: Any) -> None:
    """Refuse whatever is no masked language model with a head."""
    if not isinstance(model, torch.nn.Module) or not hasattr(model, "config"):
        raise UsageError(
            f"expected a model's name, a directory, or a Hugging Face module such as BertForMaskedLM, got "
            f"{_kind(model)}"
        )
    classes = {base.__name__ for base in type(model).__mro__}
    masked, causal = _class_names("MASKED"), _class_names("CAUSAL")
    if not classes & masked:
        if classes & causal:
            raise UsageError(
                f"{_kind(model)} is a causal language model, and a joint needs a masked one: give a "
                f"...ForMaskedLM such as BertForMaskedLM (score_sentences takes causal models)"
            )
        head = getattr(model, "get_output_embeddings", lambda: None)()
        if head is None:
            raise UsageError(
                f"{_kind(model)} has no masked-language-model head: open the checkpoint by "
                f"AutoModelForMaskedLM, or by unmask.load(its name)"
            )


def check_precision(model: Any) -> None:
    """Refuse half precision: what a log-probability is good to would be lost."""
    dtype = next(model.parameters()).dtype
    if dtype not in (torch.float32, torch.float64):
        raise UsageError(
            f"expected a model in float32 or float64, got {str(dtype).removeprefix('torch.')}: its "
            f"log-probabilities would not be precise; give model.float()"
        )


def check_tokenizer(model: Any, tokenizer: Any) -> None:
    """Refuse a tokenizer that is missing, is none, or can't mark a blank."""
    check_is_tokenizer(model, tokenizer)
    if tokenizer.mask_token_id is None:
        raise UsageError(
            f"the tokenizer {_kind(tokenizer)} has no mask token, so it can't mark a blank: give that of the "
            f"masked language model"
        )


def check_causal(model: Any, tokenizer: Any) -> None:
    """Refuse whatever is no causal language model with its tokenizer."""
    classes = {base.__name__ for base in type(model).__mro__}
    if not isinstance(model, torch.nn.Module) or not classes & _class_names("CAUSAL"):
        raise UsageError(
            f"expected a causal language model such as GPT2LMHeadModel, got {_kind(model)}: open its "
            f"checkpoint by CausalLM.from_pretrained, or a masked one by unmask.load"
        )
    check_is_tokenizer(model, tokenizer)


def check_is_tokenizer(model: Any, tokenizer: Any) -> None:
    """Refuse a tokenizer that is missing, or is none."""
    if tokenizer is None:
        raise UsageError(f"{_kind(model)} came without its tokenizer: give both, the model and the tokenizer")
    if not callable(tokenizer) or not hasattr(tokenizer, "convert_ids_to_tokens"):
        raise UsageError(
            f"expected the tokenizer of {_kind(model)}, got {_kind(tokenizer)}: give both, as "
            f"AutoTokenizer.from_pretrained(its name)"
        )


def check_mlm(given: Any) -> MaskedLM:
    """Return what is given as `mlm=` if it is a `MaskedLM`; otherwise say how to make one."""
    if isinstance(given, MaskedLM):
        return given
    made = "load(model, tokenizer)" if isinstance(given, torch.nn.Module) else "load(name)"
    raise UsageError(f"expected mlm to be a MaskedLM, got {_kind(given)}: give mlm=unmask.{made}")


def _class_names(kind: str) -> set[str]:
    """Return the names of the library's classes of models with a head: MASKED or CAUSAL."""
    from transformers.models.auto import modeling_auto

    found: Iterable[str | tuple[str, ...]] = getattr(
        modeling_auto, f"MODEL_FOR_{kind}_LM_MAPPING_NAMES"
    ).values()
    return {name for names in found for name in ([names] if isinstance(names, str) else names)}


def _kind(thing: Any) -> str:
    """Return what a thing is: a string as it is written, anything else by its class."""
    return repr(thing) if isinstance(thing, str) else f"a {type(thing).__name__}"
