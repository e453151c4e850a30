"""BERT with a classifier of texts or of tokens in plain torch, as `unmask finetune` writes it.

The head is a linear layer: over every token, or over tanh of a dense layer on the first one. Nothing is
padded: the texts of a batch have one length.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from unmask.linear_layers import for_inference
from unmask.models.light.bert import ASSUMED, Encoder

OF_TEXTS, OF_TOKENS = "BertForSequenceClassification", "BertForTokenClassification"


class LightTunedBert(nn.Module):
    """BERT for classification, as much of it as `TunedModel` asks for."""

    def __init__(self, config: SimpleNamespace, *, of_texts: bool) -> None:
        super().__init__()
        self.config = config
        self.bert = Encoder(config)
        if of_texts:
            dense = nn.Linear(config.hidden_size, config.hidden_size)
            self.bert.pooler = nn.ModuleDict({"dense": dense})
        self.of_texts = of_texts
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)

    def forward(self, input_ids: Tensor) -> SimpleNamespace:
        """Return the logits, [texts, labels] or [texts, length, labels]."""
        states = self.bert(input_ids)[0]
        if self.of_texts:
            pooler: Any = self.bert.pooler
            states = pooler["dense"](states[:, 0]).tanh()
        return SimpleNamespace(logits=self.classifier(states))


def read_tuned_bert(config: dict[str, Any], weights: Path, architecture: str) -> LightTunedBert | None:
    """Return the model in float32, or None if config or weights are not a plain BERT's with such a head."""
    assumed = ASSUMED | {"architectures": [architecture]}
    if any(name in config and config[name] != value for name, value in assumed.items()):
        return None
    if config.get("model_type") != "bert" or "id2label" not in config:
        return None
    from safetensors.torch import load_file

    labels = {int(number): label for number, label in config["id2label"].items()}
    settings = SimpleNamespace(**config | {"id2label": labels, "num_labels": len(labels)})
    with torch.device("meta"):
        model = LightTunedBert(settings, of_texts=architecture == OF_TEXTS)
    found = {
        name: weight.to(torch.float32)
        for name, weight in load_file(weights).items()
        if name != "bert.embeddings.position_ids"
    }
    if not all(bool(torch.isfinite(weight).all()) for weight in found.values()):
        return None
    model.load_state_dict(found, strict=True, assign=True)
    return for_inference(model)
