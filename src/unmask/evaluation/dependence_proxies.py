"""Published proxies of how much two masked tokens depend on each other, each with its source.

Samplers of masked diffusion models fill several tokens in one pass as if they were independent, and each has
a score by which it tells when that is safe. Here every score is a number for a pair of blanks A and B, larger
for a pair that is less safe to fill independently. What is measured against them is the mutual information of
the model's own conditionals (`unmask.evaluation.dependence`).

With m(a), m(b) the model's answers with both blanks masked, and p(b|a) with A filled:

- `distance`: minus the number of tokens from A to B. It knows nothing of the model; a proxy has to beat it.
- `confidence`: -log of max m(a) max m(b), the product of confidences. Tokens above a threshold are filled
  together by Fast-dLLM (Wu et al. 2025), the most confident ones by MaskGIT (Chang et al. 2022).
- `entropy bound`: H(A) + H(B) - max(H(A), H(B)), by which the EB-Sampler bounds what the tokens of a pass
  tell each other (Ben-Hamu et al. 2025). For a pair this is the smaller entropy, and mutual information is
  never larger.
- `KL of steps`: KLASS fills a token if its distribution p_t has settled: KL(p_t || p_t-1) is small for the
  last two steps (Kim et al. 2025). The steps before are the text with one and with two more of its tokens
  masked, drawn at random; the score is the largest KL of both blanks and both steps.
- `KL of filling`: KL(p(b|a*) || m(b)), a* the best token of the more confident blank: what the independence
  test of PUNT comes to for one pair (Azangulov et al. 2026).
- `attention`: between the two positions, mean over both directions, all heads and layers. DAPD takes
  attention between masked tokens as the edges of their dependency graph (Kim et al. 2026).
- `pair head`: the mutual information of the pair head's conditionals (`unmask.models.pair_head`), ours.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unmask.errors import UsageError
from unmask.inference.guessed_edges import GuessedEdge
from unmask.inference.parallel_decoding import Pass
from unmask.models.engine import read_encoder
from unmask.models.masked_lm import MaskedLM

STEPS = 2
"""How many steps back KLASS looks."""


class Proxy(NamedTuple):
    """A score of a pair of blanks, and the forward passes that it takes beyond that with both masked."""

    of: Callable[[Pass], float]
    passes: int


def distance(seen: Pass) -> float:
    """Return minus the number of tokens from one blank to the other."""
    a, b = seen.cloze.blanks
    return -float(abs(b - a))


def confidence(seen: Pass) -> float:
    """Return -log of the product of the likeliest tokens' probabilities."""
    return -sum(float(line.max()) for line in seen.log_probs)


def entropy_bound(seen: Pass) -> float:
    """Return the sum of the entropies less the largest."""
    return float(seen.entropies.sum() - seen.entropies.max())


def kl_of_steps(seen: Pass) -> float:
    """Return the largest KL divergence of a blank's distribution from that of the step before."""
    mlm, cloze = seen.mlm, seen.cloze
    idle = mlm.vocabulary.special_ids | mlm.vocabulary.unused_ids
    others = [i for i, token in enumerate(cloze.ids) if token not in idle and i not in cloze.blanks]
    hidden = random.Random(repr((cloze.ids, cloze.blanks))).sample(others, min(STEPS, len(others)))
    if not hidden:
        return 0.0
    texts = torch.tensor([cloze.ids]).repeat(len(hidden), 1)
    for n in range(len(hidden)):
        texts[n, hidden[: n + 1]] = mlm.vocabulary.mask_id
    states = mlm.states_at(texts, cloze.blanks)
    largest = 0.0
    for blank, support in enumerate(seen.supports):
        earlier = mlm.log_probs(states[:, blank], support.ids).cpu()
        steps = torch.cat([seen.log_probs[blank][None], earlier])  # the newest first
        largest = max(largest, float(kl_rows(steps[:-1], steps[1:]).max()))
    return largest


def kl_of_filling(seen: Pass) -> float:
    """Return how far the less confident blank's distribution moves when the other gets its best token."""
    filled, asked = seen.most_confident
    best = seen.supports[filled].ids[seen.log_probs[filled].argmax()]
    state = seen.mlm.filled_states(seen.cloze, filled, best[None], seen.cloze.blanks[asked])
    after = seen.mlm.log_probs(state, seen.supports[asked].ids).cpu()
    return float(kl_rows(after, seen.log_probs[asked][None])[0])


def attention(seen: Pass) -> float:
    """Return the mean attention between the two positions."""
    a, b = seen.cloze.blanks
    weights = attention_weights(seen.mlm, torch.tensor([seen.cloze.ids]))
    return float((weights[..., a, b] + weights[..., b, a]).mean() / 2)


def pair_head(seen: Pass) -> float:
    """Return the mutual information of the pair head's conditionals, the mean of both directions."""
    found = 0.0
    for parent, child in ((0, 1), (1, 0)):
        pair = (seen.supports[parent], seen.supports[child])
        alone = seen.log_probs[parent]
        edge = GuessedEdge(seen.mlm, seen.cloze, seen.states, (parent, child), pair, alone)
        found += float(edge.mutual_information(alone)) / 2
    return found


PROXIES = {
    "distance": Proxy(distance, 0),
    "confidence": Proxy(confidence, 0),
    "entropy bound": Proxy(entropy_bound, 0),
    "KL of steps": Proxy(kl_of_steps, STEPS),
    "KL of filling": Proxy(kl_of_filling, 1),
    "attention": Proxy(attention, 0),
    "pair head": Proxy(pair_head, 0),
}


def kl_rows(one: Tensor, other: Tensor) -> Tensor:
    """Return KL(one || other) of each row, in nats, of log-probabilities [rows, tokens]."""
    return (one.exp() * (one - other)).sum(-1)


@torch.inference_mode()
def attention_weights(mlm: MaskedLM, ids: Tensor) -> Tensor:
    """Return the attention weights of texts [texts, length], as [layers, texts, heads, length, length].

    They are made of the queries and keys that a plain forward pass computes, so that any architecture whose
    layers the engine knows will do.
    """
    encoder = read_encoder(mlm.model)
    if encoder is None:
        raise UsageError(
            f"the attention of the model '{mlm.name}' ({mlm.model.config.model_type}) can't be read: "
            f"use a BERT"
        )
    heads = encoder.layers[0].heads
    caught: dict[str, list[Tensor]] = {"query": [], "key": []}

    def catch(part: str) -> Callable[[Any, Any, Tensor], None]:
        def keep(_module: Any, _inputs: Any, output: Tensor) -> None:
            caught[part].append(output)

        return keep

    modules = dict.fromkeys((layer.query, layer.key) for layer in encoder.layers)  # ALBERT's are all the same
    handles = [
        m.register_forward_hook(catch(p)) for pair in modules for p, m in zip(caught, pair, strict=True)
    ]
    try:
        mlm.model(input_ids=ids.to(mlm.device), attention_mask=torch.ones_like(ids, device=mlm.device))
    finally:
        for handle in handles:
            handle.remove()
    query, key = (
        torch.stack(caught[part]).unflatten(-1, (heads, -1)).transpose(2, 3) for part in ("query", "key")
    )
    scores: Tensor = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
    return scores.softmax(-1).cpu()
