"""Forward passes that are asked about few positions: what is not asked for is not computed.

A table of conditionals asks the same text again and again, with another token at one position `changed`, and
reads the answer at one position `asked`. Of an encoder with the norm after each residual (Devlin et al.,
2019) such passes need less than all, and get the same result:

- first layer: embeddings, queries, keys and values are the same everywhere but at `changed`;
- last layer: only `asked` has to be known. With few queries per text, neither keys nor values are needed: the
  score q·(K x) is (Kᵀq)·x, and the sum of weights times (V x) is V times the sum of weights times x. So the
  layer costs what these positions cost. (The keys' bias shifts all scores alike and drops out.) This holds
  for any texts, and `of_texts` does it for them.
- batches are cut so that what a layer leaves behind is still in the cache when the next one reads it.

`read_encoder` finds the layers of the architectures it knows in a model, whose weights are used where they
are. It is for `MaskedLM` to compare the result with the model's own before trusting it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

from unmask.linear_layers import FastLinear

ROWS_IN_CACHE = 1024
"""How many tokens a batch has on a CPU, measured: see docs/background/forward-passes.md."""


@dataclass(frozen=True)
class Layer:
    """Self-attention and feed-forward, each with a residual and a norm after it."""

    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    attended: nn.Linear
    attention_norm: nn.LayerNorm
    widen: nn.Linear
    narrow: nn.Linear
    norm: nn.LayerNorm
    activation: nn.Module
    heads: int
    is_gelu: bool = False

    def __call__(self, x: Tensor) -> Tensor:
        """Map states to states, [texts, length, features]."""
        return self._attend(x, self.query(x), self.key(x), self.value(x))

    def sharing(self, x: Tensor, changed: int) -> Tensor:
        """The same, for states that are equal in all texts but at one position."""
        first, own = x[0], x[:, changed]

        def project(part: nn.Linear) -> Tensor:
            everywhere: Tensor = part(first).repeat(len(x), 1, 1)
            everywhere[:, changed] = part(own)
            return everywhere

        return self._attend(x, project(self.query), project(self.key), project(self.value))

    def at(self, x: Tensor, asked: Tensor) -> Tensor:
        """The same at each text's own positions `asked`, [texts, positions], only."""
        texts, _, features = x.shape
        own = x.gather(1, asked[:, :, None].expand(-1, -1, features))
        key, value = (part.weight.unflatten(0, (self.heads, -1)) for part in (self.key, self.value))
        query = self.query(own).flatten(0, 1).unflatten(-1, (self.heads, -1)).transpose(0, 1)
        wanted = query * query.shape[-1] ** -0.5 @ key  # [heads, texts * positions, features]
        wanted = wanted.reshape(self.heads, texts, -1, features).transpose(0, 1).flatten(1, 2)
        seen = (wanted @ x.transpose(1, 2)).softmax(-1) @ x  # [texts, heads * positions, features]
        seen = seen.unflatten(1, (self.heads, -1)).transpose(0, 1).flatten(1, 2)
        heard = (seen @ value.transpose(1, 2)).transpose(0, 1).flatten(1)
        return self.feed((heard + self.value.bias).view(own.shape), own)

    def _attend(self, x: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        heads = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (query, key, value))
        return self.feed(scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2), x)

    def feed(self, heard: Tensor, x: Tensor) -> Tensor:
        """Go on from what states x have heard by attention to the layer's result, of one shape all."""
        x = self.attention_norm(self.attended(heard).add_(x))
        if self.is_gelu and isinstance(self.widen, FastLinear):
            wide = self.widen.gelu(x)
        else:
            wide = self.activation(self.widen(x))
        normed: Tensor = self.norm(self.narrow(wide).add_(x))
        return normed


@dataclass(frozen=True)
class Encoder:
    """The layers of a model, and the module whose input is what the first of them reads."""

    layers: tuple[Layer, ...]
    entrance: nn.Module

    def __call__(self, context: Tensor, own: Tensor, changed: int, asked: int) -> Tensor:
        """Return the states at `asked` after the last layer, [texts, features].

        Args:
            context: the first layer's input, [length, features].
            own: what each text has at `changed` instead, [texts, features].
            changed: the position at which the texts differ.
            asked: the position that is asked about.
        """
        x = context.repeat(len(own), 1, 1)
        x[:, changed] = own
        *before, last = self.layers
        for i, layer in enumerate(before):
            x = layer(x) if i else layer.sharing(x, changed)
        return last.at(x, torch.full((len(own), 1), asked, device=x.device))[:, 0]

    def spares(self, asked: int, length: int) -> bool:
        """Whether the last layer at so many positions takes less work than all of it, and no more room."""
        layer = self.layers[-1]
        features, heads = layer.query.in_features, layer.heads
        work = asked * (6 * features + heads * length) <= length * (6 * features + length)
        return asked > 0 and work and heads * asked <= 6 * length

    def of_texts(self, x: Tensor, asked: Tensor) -> Tensor:
        """Return the states of any texts, given as the first layer's input, each at its own positions.

        `asked` is [texts, positions], the result [texts, positions, features].
        """
        *before, last = self.layers
        for layer in before:
            x = layer(x)
        return last.at(x, asked)


PARTS = {  # of a layer, by their names in BERT, DistilBERT and ALBERT
    "query": ("attention.self.query", "attention.q_lin", "attention.query"),
    "key": ("attention.self.key", "attention.k_lin", "attention.key"),
    "value": ("attention.self.value", "attention.v_lin", "attention.value"),
    "attended": ("attention.output.dense", "attention.out_lin", "attention.dense"),
    "attention_norm": ("attention.output.LayerNorm", "sa_layer_norm", "attention.LayerNorm"),
    "widen": ("intermediate.dense", "ffn.lin1", "ffn"),
    "narrow": ("output.dense", "ffn.lin2", "ffn_output"),
    "norm": ("output.LayerNorm", "output_layer_norm", "full_layer_layer_norm"),
    "activation": ("intermediate.intermediate_act_fn", "ffn.activation", "activation"),
}
KNOWN = {
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "camembert", "electra"), ("encoder.layer", 0)),
    "distilbert": ("transformer.layer", 1),
    "albert": ("encoder.albert_layer_groups.0.albert_layers", 2),
}
"""Where each kind of model keeps its layers, and whose names the parts of a layer have."""
PLAIN = (nn.Linear, FastLinear, nn.LayerNorm)


def read_encoder(model: Any) -> Encoder | None:
    """Return the encoder of a model if it is of a known kind, and made of plain parts."""
    config = model.config
    if config.model_type not in KNOWN:
        return None
    where, column = KNOWN[config.model_type]
    try:
        layers: list[nn.Module] = list(model.base_model.get_submodule(where))
        if config.model_type == "albert":  # the same layer again and again
            layers *= config.num_hidden_layers
        read = [_read_layer(layer, column, config.num_attention_heads) for layer in layers]
    except AttributeError:  # parts of other names
        return None
    if not read or None in read:
        return None
    return Encoder(tuple(layer for layer in read if layer is not None), layers[0])


def _read_layer(layer: nn.Module, column: int, heads: int) -> Layer | None:
    """Return the parts of a layer; None if one of them is packed, adapted or without a bias."""
    parts: dict[str, Any] = {part: layer.get_submodule(paths[column]) for part, paths in PARTS.items()}
    for name, part in parts.items():
        if name != "activation" and (type(part) not in PLAIN or part.bias is None):
            return None
    return Layer(**parts, heads=heads, is_gelu=_is_gelu(parts["activation"]))


def _is_gelu(activation: nn.Module) -> bool:
    """Whether this is the exact GELU: torch's module, or the one of transformers around torch's function."""
    if isinstance(activation, nn.GELU):
        return activation.approximate == "none"
    return getattr(activation, "act", None) is gelu
