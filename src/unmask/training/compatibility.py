"""The compatibility penalty: teach the conditionals of one model to agree on a joint.

Take two positions A and B of a text, two fillings a, a′ of A and two b, b′ of B. If p(·|b) and p(·|a) come
from one joint distribution, both give the same log odds ratio (Arnold and Press 1989):

    log p(a|b) − log p(a′|b) − log p(a|b′) + log p(a′|b′)
        = log p(b|a) − log p(b′|a) − log p(b|a′) + log p(b′|a′).

The normalisers cancel on both sides, so raw logits will do, and no softmax over the vocabulary is needed.
The penalty is the Huber loss of the difference of the two sides. a and b are the true tokens (or drawn, too),
a′ and b′ are drawn from the model's own distribution with both positions masked, so that the penalty looks
where the model puts its mass. One text costs four forward passes (B holding b or b′ with A masked, and the
mirror) at one position each, and one pass without gradients for the draw.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from unmask.training.batches import Batch
from unmask.training.compatibility_rule import Compatibility
from unmask.training.forward import Gathering, token_logits
from unmask.training.masking import IGNORED


@dataclass(frozen=True)
class Pairs:
    """Texts alone and without corruption, two positions in each: ids [texts, length], places [texts, 2]."""

    batch: Batch
    places: Tensor

    @property
    def true(self) -> Tensor:
        """The true tokens at the two places: [texts, 2]."""
        return self.batch["input_ids"].gather(1, self.places)


def draw_pairs(
    batch: Batch, special: Tensor, rule: Compatibility, generator: np.random.Generator
) -> Pairs | None:
    """Undo the masking of the batch's first rows that have two fit positions, and draw the two in each.

    Fit are ordinary tokens of one segment, `nearest` to `farthest` apart. A batch without any gives None.
    """
    ids = torch.where(batch["labels"] == IGNORED, batch["input_ids"], batch["labels"])
    ordinary = ~special.to(ids.device)[ids] & (batch["segments"] >= 0)
    rows, places = [], []
    for row in range(len(ids)):
        where = ordinary[row].nonzero().flatten()
        gaps = where[None, :] - where[:, None]
        segment = batch["segments"][row, where]
        fit = (gaps >= rule.nearest) & (gaps <= rule.farthest) & (segment[:, None] == segment[None, :])
        choices = fit.nonzero()
        if len(choices):
            first, second = choices[int(generator.integers(len(choices)))]
            rows.append(row)
            places.append(torch.stack([where[first], where[second]]))
        if len(rows) == rule.texts:
            break
    if not rows:
        return None
    chosen = torch.tensor(rows, device=ids.device)
    kept = {name: value[chosen] for name, value in batch.items() if value.dim() == 2}
    return _alone(Pairs({**kept, "input_ids": ids[chosen]}, torch.stack(places)))


def _alone(pairs: Pairs) -> Pairs:
    """Cut every row down to the segment of its two places: the others of a packed row have no say."""
    segments = pairs.batch["segments"]
    own = segments == segments.gather(1, pairs.places[:, :1])
    starts, sizes = own.int().argmax(1, keepdim=True), own.sum(1, keepdim=True)  # a segment lies in one piece
    columns = torch.arange(int(sizes.max()), device=segments.device)
    taken = (starts + columns).clamp(max=segments.shape[1] - 1)
    cut = {name: value.gather(1, taken) for name, value in pairs.batch.items()}
    cut["segments"] = torch.where(columns < sizes, 0, -1)
    return Pairs(cut, pairs.places - starts)


def penalty(
    model: nn.Module,
    gathering: Gathering,
    pairs: Pairs,
    *,
    mask: int,
    special: Tensor,
    huber: float,
    seed: int,
    fillings: str = "true",
) -> Tensor:
    """The mean Huber loss of the difference of the two log odds ratios, over the texts."""
    count = len(pairs.places)
    index = torch.arange(count, device=pairs.places.device)
    true = pairs.true
    with torch.no_grad():
        both = pairs.batch["input_ids"].scatter(1, pairs.places, mask)
        logits = _logits(model, gathering, pairs.batch, both, index.repeat(2), pairs.places.T.flatten())
        generator = torch.Generator().manual_seed(seed)
        # a special token is no filling, nor is one that the tokenizer does not have
        logits[:, : len(special)].masked_fill_(special.to(logits.device), -torch.inf)
        logits[:, len(special) :] = -torch.inf
        chances = logits.float().softmax(-1).cpu()  # drawn there, so that every device draws the same
        other, another = (
            torch.multinomial(chances, 1, generator=generator).view(2, count).T.to(true.device)
            for _ in range(2)
        )
    chosen = torch.stack([true if fillings == "true" else another, other], dim=2)  # [texts, place, filling]

    # four inputs per text: for each place held, its two fillings, the other place masked
    inputs, columns, targets = [], [], []
    for held in (1, 0):
        for which in (0, 1):
            ids = pairs.batch["input_ids"].scatter(1, pairs.places, mask)
            inputs.append(ids.scatter(1, pairs.places[:, held : held + 1], chosen[:, held, which][:, None]))
            columns.append(pairs.places[:, 1 - held])
            targets.append(chosen[:, 1 - held])
    repeated = {name: value.repeat(4, 1) for name, value in pairs.batch.items()}
    logits = _logits(
        model,
        gathering,
        repeated,
        torch.cat(inputs),
        torch.arange(4 * count, device=index.device),
        torch.cat(columns),
    )
    picked = logits.gather(1, torch.cat(targets)).view(
        2, 2, count, 2
    )  # [asked A or B, held filling, text, filling]
    contrast = picked[..., 0] - picked[..., 1]
    ratios = contrast[:, 0] - contrast[:, 1]  # [A or B, text]
    return functional.huber_loss(ratios[0], ratios[1], delta=huber)


def _logits(
    model: nn.Module, gathering: Gathering, batch: Batch, ids: Tensor, rows: Tensor, columns: Tensor
) -> Tensor:
    arguments = gathering.inputs({**batch, "input_ids": ids})
    with gathering.at(rows, columns):
        output = model(**arguments)
    return token_logits(output)
