"""A tiny model with a pair head of random weights."""

import copy

import torch

from unmask.models.digests import parameters_digest
from unmask.models.masked_lm import MaskedLM
from unmask.models.pair_head import HeldOut, PairHead, PairHeadCard
from unmask.text.cloze import Cloze

ERRORS = (HeldOut(1, 10, 0.2, 0.8, 0.1), HeldOut(3, 10, 0.05, 0.1, 0.02))


def random_head(mlm: MaskedLM, seed: int = 0) -> PairHead:
    """A head that changes what a model says, and says that it belongs to it."""
    torch.manual_seed(seed)
    features = mlm.output_layer.weight.shape[1]
    head = PairHead(features, mlm.input_embeddings.shape[1], 16)
    torch.nn.init.normal_(head.out.weight, std=0.1)
    head.card = PairHeadCard("m", parameters_digest(mlm.model), features, 16, {"texts": 1}, ERRORS)
    return head.eval().requires_grad_(False)


def with_head(mlm: MaskedLM, seed: int = 0) -> MaskedLM:
    """The model with a head, the given one left as it is."""
    found = copy.copy(mlm)
    found.pair_head = random_head(mlm, seed)
    return found


def guessed_table(
    mlm: MaskedLM, cloze: Cloze, states: torch.Tensor, ids: torch.Tensor, parent: int, child: int
) -> torch.Tensor:
    """What the head says of a child blank given each token of its parent, [tokens, tokens]."""
    assert mlm.pair_head is not None
    distance = cloze.blanks[child] - cloze.blanks[parent]
    guesses = mlm.pair_head.states(states[parent], states[child], mlm.input_embeddings[ids], distance)
    return mlm.decoder(ids)(guesses).double().log_softmax(-1)
