"""The optimiser: AdamW with two learning rates, weight decay on matrices only.

The encoder of a pretrained model knows much already and takes the smaller rate; embeddings and head take the
larger one.
"""

from __future__ import annotations

from typing import Any

import torch

from unmask.training.settings import Settings

BETAS = (0.9, 0.98)


def build_optimizer(model: Any, settings: Settings) -> torch.optim.Optimizer:
    """Return the optimiser of a run."""
    groups = []
    for in_encoder, lr in ((True, settings.encoder_lr), (False, settings.head_lr)):
        for decayed in (True, False):
            chosen = [
                weight
                for name, weight in model.named_parameters()
                if weight.requires_grad and _in_encoder(name) == in_encoder and (weight.dim() > 1) == decayed
            ]
            if chosen:
                weight_decay = settings.weight_decay if decayed else 0.0
                groups.append({"params": chosen, "lr": lr, "weight_decay": weight_decay})
    return torch.optim.AdamW(groups, betas=BETAS, eps=1e-6, fused=True)


def _in_encoder(name: str) -> bool:
    return ".encoder." in name or ".transformer." in name or ".layers." in name
