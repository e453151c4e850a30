"""A random sample of tokens in which those that matter more are more likely to be.

Cross conditionals estimate sums over contexts from a few of them. A context's weight in these sums is about
its probability m, as long as that is small; but the completion has to be learned for all contexts alike. Of
8,000 tokens a uniform sample holds hardly any that weigh something, and one in proportion to m nothing of the
long tail. So a token's chance grows with the square root of m.

Token i gets the key log(m_i) / 2 + g_i with a Gumbel number g_i, and those with the highest keys are drawn
(Efraimidis & Spirakis 2006). With the highest key t that was not drawn as a threshold, the chance of being
drawn is pi_i = 1 - exp(-exp(log(m_i) / 2 - t)), and the token stands for 1/pi_i - 1 others like it (Horvitz &
Thompson 1952; priority sampling, Duffield, Lund & Thorup 2007).
"""

from __future__ import annotations

import torch
from torch import Tensor


def draw(log_m: Tensor, known: Tensor, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw `count` tokens, or all, that are not `known`; a larger sample of a seed holds the smaller one.

    Returns:
        The tokens, as indices, and how many of those that are neither drawn nor known each of them stands
        for: the sum of any values over these, so weighted, is estimated without bias.
    """
    halves = log_m.double() / 2
    uniform = torch.rand(len(halves), generator=generator, dtype=torch.float64)
    keys = halves - (-uniform.log()).log()
    keys[known] = -torch.inf
    open_tokens, count = len(keys) - len(known), max(count, 0)
    order = keys.topk(min(count + 1, open_tokens)).indices
    drawn, left = order[:count], order[count:]
    if not len(left):
        return drawn, torch.zeros(len(drawn), dtype=torch.float64)
    return drawn, 1 / torch.expm1((halves[drawn] - keys[left[0]]).exp())
