"""The forward pass of training: logits at the predicted positions only, attention inside segments only.

The output layer is the widest matrix of a masked language model, and five of six positions are not
predicted: so only the predicted rows of the hidden state [batch, length, hidden] go on. A hook gathers
them, which serves every architecture whose head reads the encoder's output. Where the last layer is built
as in BERT, the gathering happens inside it already, after attention has mixed the positions: its output
projection and feed-forward block, five sixths of its work, are then done at the predicted positions only.
Loss and gradients are the same.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from unmask.errors import UsageError
from unmask.training.batches import Batch
from unmask.training.masking import IGNORED

BERT_LIKE = {"bert", "roberta", "xlm-roberta", "camembert", "electra"}
"""Architectures whose last layer is `attention.output` followed by position-wise blocks."""

PACKABLE = BERT_LIKE | {"distilbert"}
"""Architectures that take a mask [batch, 1, length, length] as it is."""


class Gathering:
    """Makes a model answer at chosen positions only, while `at` is in force.

    Attributes:
        mask_dtype: of the attention masks that are added to scores.
    """

    def __init__(self, model: Any, *, narrow: bool = True) -> None:
        """`narrow` gathers inside the last layer where the architecture allows it."""
        self.model = model
        self.mask_dtype: torch.dtype = next(model.parameters()).dtype
        self.chosen: tuple[Tensor, Tensor] | None = None
        self.narrow = narrow and model.config.model_type in BERT_LIKE and not _has_next_sentence(model)
        base = model.base_model
        if self.narrow:
            base.encoder.layer[-1].attention.output.register_forward_pre_hook(self._before_output)
        else:
            base.register_forward_hook(self._after_encoder)
        accepted = inspect.signature(base.forward).parameters
        self.takes = {name for name in ("token_type_ids", "position_ids") if name in accepted}
        self.several_types = (getattr(model.config, "type_vocab_size", 0) or 0) > 1
        # RoBERTa and its kin count positions from padding_idx + 1
        embeddings = getattr(getattr(base, "embeddings", None), "position_embeddings", None)
        padding = getattr(embeddings, "padding_idx", None)
        self.first_position = 0 if padding is None else int(padding) + 1

    def inputs(self, batch: Batch) -> dict[str, Tensor]:
        """The model's arguments: the attention mask is made from the segments."""
        segments = batch["segments"]
        arguments = {"input_ids": batch["input_ids"]}
        if (segments <= 0).all():
            arguments["attention_mask"] = (segments >= 0).long()
        elif self.model.config.model_type in PACKABLE:
            arguments["attention_mask"] = _block_mask(segments, self.mask_dtype)
        else:
            raise UsageError(
                f"several segments in a row need one of {', '.join(sorted(PACKABLE))}, got "
                f"{self.model.config.model_type}: train it with packing off (--alone)"
            )
        if "token_type_ids" in self.takes:
            arguments["token_type_ids"] = batch["token_type_ids"] * self.several_types
        if "position_ids" in self.takes:
            arguments["position_ids"] = batch["position_ids"] + self.first_position
        return arguments

    @contextmanager
    def at(self, rows: Tensor, columns: Tensor) -> Iterator[None]:
        """Within, the model's logits are [1, chosen, vocab]."""
        self.chosen = (rows, columns)
        try:
            yield
        finally:
            self.chosen = None

    def _before_output(self, _: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
        if self.chosen is None:
            return None
        return tuple(_take(argument, self.chosen) for argument in arguments)

    def _after_encoder(self, _: nn.Module, __: Any, output: Any) -> Any:
        if self.chosen is not None:
            if isinstance(output, tuple):
                return (_take(output[0], self.chosen), *output[1:])
            output.last_hidden_state = _take(output.last_hidden_state, self.chosen)
        return output


def token_logits(output: Any) -> Tensor:
    """The logits over tokens in a model's output, with or without a next-sentence head: [chosen, vocab]."""
    logits: Tensor = output.prediction_logits if "prediction_logits" in output else output.logits
    return logits[0]


def predicted(labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, columns and true tokens of the positions that carry a label: [predicted] each."""
    rows, columns = (labels != IGNORED).nonzero(as_tuple=True)
    return rows, columns, labels[rows, columns]


def _take(hidden: Tensor, chosen: tuple[Tensor, Tensor]) -> Tensor:
    return hidden[chosen[0], chosen[1]][None]


def _block_mask(segments: Tensor, dtype: torch.dtype) -> Tensor:
    """Additive mask [batch, 1, length, length]: a token sees its own segment, padding sees padding."""
    apart = segments[:, None, :, None] != segments[:, None, None, :]
    zeros = torch.zeros(apart.shape, dtype=dtype, device=segments.device)
    return zeros.masked_fill_(apart, torch.finfo(dtype).min)


def _has_next_sentence(model: nn.Module) -> bool:
    return bool(getattr(getattr(model, "cls", None), "seq_relationship", None))
