"""BERT with an MLM head in plain torch, with the parameter names of Hugging Face's checkpoints.

The arithmetic is that of Devlin et al. (2019): the sum of word, type and position embeddings, layers of
self-attention and feed-forward with the norm after each residual, and a head of dense, GELU, norm and an
output layer tied to the word embeddings. Tests hold it to the library's own forward pass.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from unmask.linear_layers import for_inference

ASSUMED = {
    "model_type": "bert",
    "architectures": ["BertForMaskedLM"],
    "hidden_act": "gelu",
    "is_decoder": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
    "position_embedding_type": "absolute",
}
"""What a config must say, or leave unsaid, for this code to be its model."""
IGNORED = (
    "bert.pooler.",
    "cls.seq_relationship.",
    "bert.embeddings.position_ids",
    "cls.predictions.decoder.",  # tied to the word embeddings and to cls.predictions.bias
)
RENAMED = {"cls.predictions.transform.": "transform.", "cls.predictions.bias": "decoder.bias"}


class Layer(nn.Module):
    """Self-attention and feed-forward, each with a residual and a norm after it."""

    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__()
        hidden, inner = config.hidden_size, config.intermediate_size
        self.heads = config.num_attention_heads

        def normed(inputs: int) -> nn.ModuleDict:
            norm = nn.LayerNorm(hidden, eps=config.layer_norm_eps)
            return nn.ModuleDict({"dense": nn.Linear(inputs, hidden), "LayerNorm": norm})

        own = nn.ModuleDict({name: nn.Linear(hidden, hidden) for name in ("query", "key", "value")})
        self.attention = nn.ModuleDict({"self": own, "output": normed(hidden)})
        self.intermediate = nn.ModuleDict(
            {"dense": nn.Linear(hidden, inner), "intermediate_act_fn": nn.GELU()}
        )
        self.output = normed(inner)

    def forward(self, x: Tensor) -> Tensor:
        """Map states to states, [texts, length, hidden]."""
        own: Any = self.attention["self"]
        query, key, value = (
            own[name](x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for name in ("query", "key", "value")
        )
        seen = functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        x = _join(self.attention["output"], seen, x)
        wide = self.intermediate["intermediate_act_fn"](self.intermediate["dense"](x))
        return _join(self.output, wide, x)


def _join(part: Any, inputs: Tensor, residual: Tensor) -> Tensor:
    joined: Tensor = part["LayerNorm"](part["dense"](inputs) + residual)
    return joined


def _empty(entries: int, hidden: int) -> nn.Embedding:
    """Return embeddings without first values, whose drawing would import torch's compiler."""
    return nn.Embedding(entries, hidden, _weight=torch.empty(entries, hidden))


class Encoder(nn.Module):
    """Embeddings and layers; its output is a tuple, as the library's is, so that the same hooks fit it."""

    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__()
        hidden = config.hidden_size
        self.embeddings = nn.ModuleDict(
            {
                "word_embeddings": _empty(config.vocab_size, hidden),
                "position_embeddings": _empty(config.max_position_embeddings, hidden),
                "token_type_embeddings": _empty(config.type_vocab_size, hidden),
                "LayerNorm": nn.LayerNorm(hidden, eps=config.layer_norm_eps),
            }
        )
        layers = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.encoder = nn.ModuleDict({"layer": layers})

    def forward(self, ids: Tensor, position_ids: Tensor | None = None) -> tuple[Tensor]:
        """Return the states of the last layer, [texts, length, hidden]."""
        places = slice(ids.shape[1]) if position_ids is None else position_ids
        parts: Any = self.embeddings
        x = parts["word_embeddings"](ids) + parts["token_type_embeddings"].weight[0]
        x = parts["LayerNorm"](x + parts["position_embeddings"].weight[places])
        layers: Any = self.encoder["layer"]
        for layer in layers:
            x = layer(x)
        return (x,)


class LightBert(nn.Module):
    """BERT for masked language modelling, as much of it as `MaskedLM` asks for."""

    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__()
        self.config = config
        hidden = config.hidden_size
        self.bert = Encoder(config)
        norm = nn.LayerNorm(hidden, eps=config.layer_norm_eps)
        self.transform = nn.ModuleDict({"dense": nn.Linear(hidden, hidden), "LayerNorm": norm})
        self.decoder = nn.Linear(hidden, config.vocab_size)
        words: Any = self.bert.embeddings["word_embeddings"]
        self.decoder.weight = words.weight

    @property
    def base_model(self) -> nn.Module:
        """The encoder."""
        return self.bert

    def get_input_embeddings(self) -> nn.Module:
        """Return the word embeddings."""
        return self.bert.embeddings["word_embeddings"]

    def get_output_embeddings(self) -> nn.Module:
        """Return the output layer."""
        return self.decoder

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,  # noqa: ARG002
        position_ids: Tensor | None = None,
    ) -> SimpleNamespace:
        """Return the logits; nothing is padded here, so the attention mask says nothing."""
        x = functional.gelu(self.transform["dense"](self.bert(input_ids, position_ids)[0]))
        return SimpleNamespace(logits=self.decoder(self.transform["LayerNorm"](x)))


def read_bert(config: dict[str, Any], weights: Path) -> LightBert | None:
    """Return the model in float32 with its weights, or None if config or weights are not a plain BERT's."""
    if any(name in config and config[name] != value for name, value in ASSUMED.items()):
        return None
    if config.get("model_type") != "bert":
        return None
    from safetensors.torch import load_file

    with torch.device("meta"):
        model = LightBert(SimpleNamespace(**config))
    found = {}
    for name, weight in load_file(weights).items():
        if name.startswith(IGNORED):
            continue
        for old, new in RENAMED.items():
            name = name.replace(old, new)
        found[name] = weight
    found["decoder.weight"] = found["bert.embeddings.word_embeddings.weight"]
    found = {name: weight.to(torch.float32) for name, weight in found.items()}
    if not all(bool(torch.isfinite(weight).all()) for weight in found.values()):
        return None
    model.load_state_dict(found, strict=True, assign=True)
    return for_inference(model)
