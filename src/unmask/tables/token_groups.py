"""TokenGroups: the tokens of a support, the likely ones each by itself, the unlikely ones in groups.

Most of a vocabulary is unlikely in any one place: of 8,000 tokens a thousand hold 97 to 99.9 % of the mass.
A table with a row for every token spends nearly all its cells on the rest. So unlikely tokens of nearly equal
probability share a row: the row holds the value of a single one of them, and `counts` how many they are. Sums
over tokens become sums over groups weighted by the counts, and a joint solved on groups is a joint over all
tokens.

Within a group the tokens are not quite alike. What is known of them without a forward pass is m, the model's
answer with both blanks masked. `log_within` is the log-probability of a token within its group by m, relative
to an equal share. Spreading a group's probability in this proportion keeps every sum as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from unmask.tables.ranking import by_group, descending

EVENNESS = 0.75
"""The power of m that groups share evenly: with 1 the long tail is one group, with 0 all have one size."""


@dataclass(frozen=True, eq=False)
class TokenGroups:
    """Which group each token of a support is in.

    Attributes:
        group_of: the group of each token, [tokens].
        counts: the number of tokens in each group, [groups], in float64.
        log_within: log of a token's share of its group times the group's count, [tokens]; 0 for a token that
            is a group by itself.
    """

    group_of: Tensor
    counts: Tensor
    log_within: Tensor

    @staticmethod
    def singletons(tokens: int) -> TokenGroups:
        """Every token is a group by itself."""
        return TokenGroups(
            torch.arange(tokens), torch.ones(tokens, dtype=torch.float64), torch.zeros(tokens).double()
        )

    @staticmethod
    def by_probability(log_m: Tensor, ungrouped: Tensor, groups: int) -> TokenGroups:
        """Group all tokens but the `ungrouped` ones with others of similar probability.

        Args:
            log_m: the log-probability of every token, [tokens].
            ungrouped: the tokens that stay by themselves; their groups come first, in this order.
            groups: the number of groups for the others, an equal share of the sum of m^(3/4) in each: finer
                where tokens weigh more, and yet some for the long tail.
        """
        log_m = log_m.detach().double().cpu()
        single = torch.zeros(len(log_m), dtype=torch.bool)
        single[ungrouped] = True
        order = descending(log_m)
        others = order[~single[order]]
        group_of = torch.empty(len(log_m), dtype=torch.long)
        group_of[ungrouped] = torch.arange(len(ungrouped))
        for number, members in enumerate(others.tensor_split(_edges(log_m[others], groups))):
            group_of[members] = len(ungrouped) + number
        counts = torch.bincount(group_of).double()
        even = TokenGroups(group_of, counts, torch.zeros_like(log_m))
        return TokenGroups(group_of, counts, log_m - even.mean(log_m)[group_of])

    def __len__(self) -> int:
        return len(self.counts)

    @cached_property
    def ungrouped(self) -> bool:
        """Whether every token is a group by itself, in order: a table over groups is one over tokens then."""
        tokens = len(self.group_of)
        return len(self.counts) == tokens and bool((self.group_of == torch.arange(tokens)).all())

    def same(self, other: TokenGroups) -> bool:
        """Whether both group the tokens alike, with the same shares."""
        if self.ungrouped and other.ungrouped:
            return len(self) == len(other)
        return torch.equal(self.group_of, other.group_of) and torch.equal(self.log_within, other.log_within)

    @cached_property
    def order(self) -> Tensor:
        """The tokens in the order of their groups, [tokens]."""
        return by_group(self.group_of, len(self))

    @cached_property
    def starts(self) -> Tensor:
        """Where each group starts in `order`, [groups]."""
        return (self.counts.cumsum(0) - self.counts).long()

    def representatives(self, count: int) -> Tensor:
        """Return the tokens that stand for the groups, `count` of each at the most, evenly spread over it."""
        steps = torch.linspace(0, 1, count + 2, dtype=torch.float64)[1:-1]
        return self.order[(self.starts[:, None] + (steps * self.counts[:, None]).long()).unique()]

    def mean(self, log_values: Tensor) -> Tensor:
        """Return the log of the mean over each group's tokens of exp(log_values): [tokens] -> [groups]."""
        if self.ungrouped:
            return log_values
        top = log_values.max()
        sums = torch.zeros(len(self), dtype=log_values.dtype, device=log_values.device)
        sums.index_add_(0, self.group_of.to(log_values.device), (log_values - top).exp())
        return sums.log() + top - self.counts.to(sums).log()

    def spread(self, log_values: Tensor) -> Tensor:
        """Return each token's log-probability from that of a token of its group: [groups] -> [tokens]."""
        if self.ungrouped:
            return log_values
        return log_values[self.group_of.to(log_values.device)] + self.log_within.to(log_values.device)


def _edges(log_m: Tensor, groups: int) -> Tensor:
    """Return where to cut falling log-probabilities [tokens] into groups, none empty, [groups - 1]."""
    tokens = len(log_m)
    groups = max(1, min(groups, tokens))
    steps = torch.arange(1, groups)
    if not len(steps):
        return steps
    mass = (EVENNESS * (log_m - log_m[0])).exp().cumsum(0)
    edges = torch.searchsorted(mass, mass[-1] * steps / groups)
    # a token for each: the n-th cut is after the one before, and leaves one for each group to come
    edges = (edges - steps).clamp_min(0).cummax(0).values + steps
    return torch.minimum(edges, tokens - groups + steps)
