"""How finely the tables of cross conditionals are cut.

The likeliest tokens of a blank, and all those asked for by name, have a row or a column of their own; the
others are gathered into groups (`unmask.tables.token_groups`). What counts as likely is the mean of two
guesses at the blank's marginal in the joint: its answer with both blanks masked, and the mean of its answers
given the evaluated tokens of the other blank. Under `ag` a token weighs as much as its marginal, which may be
many times the first of the two.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from unmask.inference.completed import Side
from unmask.tables.ranking import descending, put_first
from unmask.tables.token_groups import TokenGroups


class Resolution(NamedTuple):
    """How finely a table is cut.

    Attributes:
        least, most: bounds of the number of tokens with a row of their own.
        covered: the share of the mass that these are to hold.
        groups: how many groups the others are gathered into.
        members: how many tokens of a group stand for it, beside those of it that were evaluated.
    """

    least: int
    most: int
    covered: float
    groups: int
    members: int

    def cut(self, side: Side, log_mean: Tensor | None) -> TokenGroups:
        """Gather the tokens of a blank.

        Args:
            side: the blank.
            log_mean: its mean conditional given the evaluated tokens of the other one, if that is known.
        """
        if len(side.support) <= 2 * self.least:  # groups would save little
            return TokenGroups.singletons(len(side.support))
        log_q = side.alone
        if log_mean is not None:
            log_q = torch.logaddexp(log_q, log_mean.to(log_q)) - math.log(2)
        order = descending(log_q)
        first = torch.cat([side.named, side.likely]).unique()
        ranked = put_first(order, first)
        holding = int((log_q[order].softmax(0).cumsum(0) < self.covered).sum()) + 1
        single = max(min(max(holding, self.least), self.most), len(first))
        return TokenGroups.by_probability(log_q, ranked[:single], self.groups)


ASKED, PREDICTED = Resolution(256, 1024, 0.95, 32, 8), Resolution(128, 128, 1.0, 32, 16)
"""Of a table with candidates, and of one without: no finer than the completion's own error."""
