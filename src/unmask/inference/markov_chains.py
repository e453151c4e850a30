"""Markov chains over the fillings of n blanks: Gibbs, block-Gibbs and Metropolis-Hastings.

- `Gibbs` redraws one blank after the other from p(x_i | x_-i). On compatible conditionals its law is their
  joint. A masked language model's are not compatible, as a rule; then there is no joint whose conditionals
  they are, and what the chain settles at (a dependency network, Heckerman et al. 2000) depends on the order
  of the blanks and on where in a sweep one looks. It is a law, but none that can be written down or scored.
- `BlockGibbs` redraws two neighbours at once from their joint (`ag` by default) given the others: the pairs
  (0, 1), (2, 3), ... in one sweep, (1, 2), (3, 4), ... in the next. It mixes faster; of its law the same is
  to be said.
- `Metropolis` proposes x_i' from p(. | x_-i) and accepts it with probability

      min(1,  w(x') p(x_i | x_-i)  /  w(x) p(x_i' | x_-i) ),

  so that its law is exactly w up to a constant, a Markov random field: log w(x) = sum_i log p(x_i | x_-i)
  (`mrf-prob`) or sum_i logit(x_i | x_-i) (`mrf-logit`), as the constructions of those names (Goyal et al.
  2022). Each proposal costs n passes, for the weight.

All chains move together, a batch of passes per step. Draws begin after `burn_in` sweeps, `thin` sweeps apart;
the sweeps between them are kept for the diagnostics.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unmask.errors import UsageError
from unmask.joints.blank_conditionals import BlankConditionals
from unmask.joints.fillings import whole_number
from unmask.lazy import require
from unmask.progress import Progress, silent

ENERGIES = ("mrf-prob", "mrf-logit")


@dataclass(frozen=True)
class Trace:
    """Where chains were after each sweep, [chains, sweeps, blanks], and the log-weights [chains, sweeps]."""

    ids: Tensor
    log_weights: Tensor


@dataclass(frozen=True)
class Draws:
    """What chains drew: every `thin`-th of the sweeps after the burn-in; and the accept rates [chains]."""

    sweeps: Trace
    thin: int = 1
    accepted: Tensor | None = None

    @property
    def ids(self) -> Tensor:
        """The fillings drawn, [chains, draws, blanks]."""
        return self.sweeps.ids[:, self.thin - 1 :: self.thin]

    @property
    def log_weights(self) -> Tensor:
        """Their log-weights, [chains, draws]."""
        return self.sweeps.log_weights[:, self.thin - 1 :: self.thin]


class Kernel(ABC):
    """One sweep over all blanks, of all chains at once."""

    def __init__(self, conditionals: BlankConditionals) -> None:
        self.conditionals = conditionals

    @abstractmethod
    def sweep(self, states: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return the new states [chains, blanks] and log-weights [chains], which diagnostics go by."""

    def accept_rates(self) -> Tensor | None:
        """Return the share of accepted proposals, [chains], if there is such a thing."""
        return None


class Gibbs(Kernel):
    """Each blank in turn from its conditional."""

    def sweep(self, states: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Redraw blank after blank; the log-weight is the sum of the log-probabilities of what was drawn."""
        states = states.clone()
        total = torch.zeros(len(states), dtype=torch.float64)
        for blank in range(self.conditionals.blanks):
            log_probs = self.conditionals.log_probs(states, blank)
            states[:, blank], drawn = self.conditionals.draw(log_probs, blank, generator)
            total += drawn
        return states, total


class BlockGibbs(Kernel):
    """Two neighbours at a time from their joint."""

    def __init__(self, conditionals: BlankConditionals) -> None:
        super().__init__(conditionals)
        self._sweeps = 0

    def sweep(self, states: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Redraw pair after pair; the log-weight is the pseudo-log-likelihood of where it ends."""
        states = states.clone()
        blanks = self.conditionals.blanks
        offset = self._sweeps % 2 if blanks > 2 else 0
        self._sweeps += 1
        singles = [0] * offset + ([blanks - 1] if (blanks - offset) % 2 else [])
        for first in range(offset, blanks - 1, 2):
            states[:, [first, first + 1]] = self.conditionals.draw_pair(states, (first, first + 1), generator)
        for blank in singles:
            log_probs = self.conditionals.log_probs(states, blank)
            states[:, blank], _ = self.conditionals.draw(log_probs, blank, generator)
        return states, log_weight(self.conditionals, states, "mrf-prob")


class Metropolis(Kernel):
    """Each blank in turn by a proposal, accepted or not.

    Args:
        conditionals: the model's conditionals.
        energy: the target, `mrf-prob` or `mrf-logit`.
    """

    def __init__(self, conditionals: BlankConditionals, energy: str = "mrf-prob") -> None:
        super().__init__(conditionals)
        if energy not in ENERGIES:
            raise UsageError(f"unknown energy '{energy}': expected {' or '.join(ENERGIES)}")
        self.energy = energy
        self._weights: Tensor | None = None
        self._accepted = torch.zeros(0, dtype=torch.float64)
        self._proposed = 0

    def sweep(self, states: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Propose for blank after blank; the log-weight is the target's."""
        states = states.clone()
        if self._weights is None:
            self._weights = log_weight(self.conditionals, states, self.energy)
            self._accepted = torch.zeros(len(states), dtype=torch.float64)
        for blank in range(self.conditionals.blanks):
            log_probs = self.conditionals.log_probs(states, blank)
            here = self.conditionals.supports[blank].indices(states[:, blank])
            back = log_probs.gather(1, here[:, None])[:, 0]
            proposed = states.clone()
            proposed[:, blank], forth = self.conditionals.draw(log_probs, blank, generator)
            weights = log_weight(self.conditionals, proposed, self.energy)
            ratio = weights - self._weights + back - forth
            chance = torch.rand(len(states), generator=generator, dtype=torch.float64)
            taken = chance.log() < ratio
            states[taken] = proposed[taken]
            self._weights = torch.where(taken, weights, self._weights)
            self._accepted += taken
            self._proposed += 1
        return states, self._weights.clone()

    def accept_rates(self) -> Tensor | None:
        """Return the share of accepted proposals, [chains]."""
        return self._accepted / max(1, self._proposed)


def log_weight(conditionals: BlankConditionals, states: Tensor, energy: str) -> Tensor:
    """Return the log of a Markov random field's weight of each state, [chains]."""
    total = torch.zeros(len(states), dtype=torch.float64)
    for blank, support in enumerate(conditionals.supports):
        logits = conditionals.logits(states, blank).double()
        scores = logits.log_softmax(-1) if energy == "mrf-prob" else logits
        total += scores.gather(1, support.indices(states[:, blank])[:, None])[:, 0]
    return total


def run_chains(
    kernel: Kernel,
    *,
    chains: int,
    draws: int,
    burn_in: int,
    thin: int,
    generator: torch.Generator,
    progress: Progress = silent,
) -> Draws:
    """Run chains side by side and return what they draw after the burn-in, every `thin`-th sweep."""
    for name, value, least in (
        ("a number of chains", chains, 1),
        ("a number of draws", draws, 1),
        ("a number of sweeps of burn-in", burn_in, 0),
        ("a number of sweeps between draws", thin, 1),
    ):
        whole_number(value, name, least)
    states = kernel.conditionals.start(chains, generator)
    kept, weights = [], []
    sweeps = burn_in + draws * thin
    for number in progress.over(range(sweeps), total=sweeps, stage="sweeps"):
        states, log_weights = kernel.sweep(states, generator)
        if number >= burn_in:
            kept.append(states)
            weights.append(log_weights)
    trace = Trace(torch.stack(kept, dim=1), torch.stack(weights, dim=1))
    return Draws(trace, thin, kernel.accept_rates())


FEWEST_SWEEPS = 20
"""Sweeps a chain below which nothing is said."""
STILL = 1e-4
"""What a log-weight may differ by from sweep to sweep though its chain stands still: rounding."""
LONG = 100
"""Sweeps a chain from which on R-hat is held to the stricter bound."""


def settled_below(sweeps: int) -> float:
    """Return the R-hat above which chains of so many sweeps have not settled.

    The halves of chains of some tens of sweeps differ by a few hundredths by chance alone.
    """
    return 1.01 if sweeps >= LONG else 1.1


def diagnose(trace: Trace) -> dict[str, dict[str, float | None]]:
    """Return {quantity: {"ess", "rhat"}} for the log-weight and for each blank, by arviz.

    Effective size and R-hat are for numbers, and fillings are tokens. So they are taken of the chains'
    log-weight, and for each blank of whether it holds the token that it holds most often; over every sweep
    after the burn-in, not over the few that are drawn. R-hat (rank-normalised, split; Vehtari et al. 2021)
    compares chains with each other and with their own halves. Chains that stand still at different places
    have an infinite R-hat; a quantity that is the same in all of them, and chains of fewer than
    `FEWEST_SWEEPS` sweeps, can't be judged: None. The effective size is no more than the number of sweeps:
    antithetic chains, of which more could be said, are rare, and mere chance looks like them.
    """
    traces = {"log_weight": trace.log_weights.numpy()}
    for blank in range(trace.ids.shape[-1]):
        column = trace.ids[:, :, blank]
        common = torch.mode(column.flatten()).values
        traces[f"blank {blank}"] = (column == common).double().numpy()
    return {name: {"ess": _ess(values), "rhat": _rhat(values)} for name, values in traces.items()}


def _ess(trace: np.ndarray[Any, Any]) -> float | None:
    found = _judged(trace, "ess")
    return None if found is None or not math.isfinite(found) else min(found, float(trace.size))


def _rhat(trace: np.ndarray[Any, Any]) -> float | None:
    found = _judged(trace, "rhat") if len(trace) > 1 else None
    # no variance within any chain, and some between them
    still = bool((np.ptp(trace, axis=1) <= STILL).all())
    return math.inf if found is not None and (still or not math.isfinite(found)) else found


def _judged(trace: np.ndarray[Any, Any], what: str) -> float | None:
    if trace.shape[1] < FEWEST_SWEEPS or np.ptp(trace) <= STILL:
        return None
    require("diagnosing Markov chains", "sample", "arviz")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import arviz
    with np.errstate(all="ignore"):  # a half of a chain that never moves has no variance
        return float(getattr(arviz, what)(trace))
