"""The optimiser: two learning rates, weight decay on matrices only.

The encoder (the body) of a warm start knows much already and takes the smaller rate; embeddings and head
(the rest) take the larger one. With `muon` the encoder's matrices step by their orthogonal factor and
everything else by Adam; both live in one `torch.optim.Optimizer`, so that schedules, clipping and
checkpoints need not know.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from unmask.errors import UsageError
from unmask.training.forward import BERT_LIKE
from unmask.training.muon import Muon
from unmask.training.settings import Settings

BETAS = (0.9, 0.98)


def build_optimizer(model: Any, settings: Settings) -> torch.optim.Optimizer:
    """The optimiser that the settings ask for."""
    matrices = _attention_and_feed_forward(model) if settings.optimizer == "muon" else []
    by_muon = {id(weight) for group in matrices for weight in group["params"]}
    groups = []
    for in_body, rate in ((True, settings.body_rate), (False, settings.head_rate)):
        for decayed in (True, False):
            chosen = [
                weight
                for name, weight in model.named_parameters()
                if weight.requires_grad
                and id(weight) not in by_muon
                and _in_body(name) == in_body
                and (weight.dim() > 1) == decayed
            ]
            if chosen:
                decay = settings.weight_decay if decayed else 0.0
                groups.append({"params": chosen, "lr": rate, "weight_decay": decay})
    adam = torch.optim.AdamW(groups, betas=BETAS, eps=1e-6, fused=True)
    if not matrices:
        return adam
    for group in matrices:
        group["weight_decay"] = settings.weight_decay
    return Together(Muon(matrices, lr=settings.body_rate), adam)


class Together(torch.optim.Optimizer):
    """Several optimisers that step as one: their groups and states side by side."""

    def __init__(self, *parts: torch.optim.Optimizer) -> None:
        groups = [group for part in parts for group in part.param_groups]
        super().__init__([{"params": group["params"]} for group in groups], {})
        self.parts = parts
        self._share()

    def _share(self) -> None:
        self.param_groups = [group for part in self.parts for group in part.param_groups]

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Step every part."""
        loss = closure() if closure is not None else None
        for part in self.parts:
            part.step()
        return loss

    def state_dict(self) -> dict[str, Any]:
        """The parts' states, in order."""
        return {"parts": [part.state_dict() for part in self.parts], "state": {}, "param_groups": []}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Give each part its state back."""
        for part, state in zip(self.parts, state_dict["parts"], strict=True):
            part.load_state_dict(state)
        self._share()


def _in_body(name: str) -> bool:
    return ".encoder." in name or ".transformer." in name or ".layers." in name


def _attention_and_feed_forward(model: Any) -> list[dict[str, Any]]:
    """The encoder's matrices by shape and by how their heads lie."""
    if model.config.model_type not in BERT_LIKE:
        raise UsageError(
            f"optimizer muon knows {', '.join(sorted(BERT_LIKE))}, got {model.config.model_type}: use adamw"
        )
    layers = model.base_model.encoder.layer
    heads = model.config.num_attention_heads
    attention = [layer.attention.self for layer in layers]
    return [
        {
            "params": [part.weight for own in attention for part in (own.query, own.key, own.value)],
            "heads": heads,
        },
        {"params": [layer.attention.output.dense.weight for layer in layers], "heads": -heads},
        {"params": [layer.intermediate.dense.weight for layer in layers]},
        {"params": [layer.output.dense.weight for layer in layers]},
    ]
