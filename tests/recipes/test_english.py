"""The recipe of the embedded model: mixing the weights of two stages."""

import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForMaskedLM

sys.path.append(str(Path(__file__).parents[2] / "recipes"))

from english import mix


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_a_mixture_of_two_stages_lies_between_them(share, checkpoint, tmp_path):
    last = checkpoint("bert")
    model = AutoModelForMaskedLM.from_pretrained(last)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(1)
    model.save_pretrained(tmp_path / "first")
    mixed = AutoModelForMaskedLM.from_pretrained(mix(last, tmp_path / "first", share, tmp_path / "mixed"))
    plain = AutoModelForMaskedLM.from_pretrained(last)
    for one, other in zip(mixed.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, other + share)
