"""The independent answer of a model: every blank by itself, all of them masked, in one pass."""

from __future__ import annotations

import torch

from unmask.diagnostics import Diagnostics
from unmask.joints.independent import Independent
from unmask.models.masked_lm import MaskedLM
from unmask.text.cloze import Cloze
from unmask.text.support import Support


@torch.inference_mode()
def independent_joint(
    mlm: MaskedLM,
    cloze: Cloze,
    supports: tuple[Support, ...],
    diagnostics: Diagnostics = Diagnostics(conditionals="product", passes=1),  # noqa: B008
) -> Independent:
    """Ask the model once, and return the product of its answers."""
    states = mlm.states_at(torch.tensor([cloze.ids]), cloze.blanks)[0]
    pairs = zip(supports, states, strict=True)
    lines = [mlm.decoder(s.ids)(h).double().log_softmax(-1) for s, h in pairs]
    return Independent(tuple(lines), supports, diagnostics=diagnostics, cloze=cloze)
