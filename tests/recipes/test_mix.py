"""Mixing the weights of models."""

import sys
from pathlib import Path

import torch
from transformers import AutoModelForMaskedLM

sys.path.append(str(Path(__file__).parents[2] / "recipes"))

from mix import mix


def test_a_mixture_of_stages_is_their_weighted_mean(checkpoint, tmp_path):
    first = checkpoint("bert")
    plain = AutoModelForMaskedLM.from_pretrained(first)
    paths = {first: 0.25}
    for moved, share in ((1.0, 0.3), (2.0, 0.45)):
        model = AutoModelForMaskedLM.from_pretrained(first)
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(moved)
        model.save_pretrained(tmp_path / str(moved))
        paths[tmp_path / str(moved)] = share
    mixed = AutoModelForMaskedLM.from_pretrained(mix(paths, tmp_path / "mixed"))
    for one, other in zip(mixed.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, other + 0.3 * 1.0 + 0.45 * 2.0)
