"""Have the chains settled? Effective sample size and R-hat, by arviz.

Both are for numbers, and fillings are tokens. So they are taken of the chains' log-weight, and for each blank
of whether it holds the token that it holds most often; over every sweep after the burn-in, not over the few
that are drawn. R-hat (rank-normalised, split; Vehtari et al. 2021) compares chains with each other and with
their own halves. Above 1.01 they have not settled, where they are long enough for that bound: the halves of
chains of some tens of sweeps differ by a few hundredths by chance alone, so that for these it is the older
1.1. Chains that stand still at different places have an infinite R-hat; a quantity that is the same in all of
them, and chains of fewer than `FEWEST_SWEEPS` sweeps, can't be judged: None. The effective size is
that of the sweeps, and no more than their number: antithetic chains, of which more could be said, are rare,
and mere chance looks like them.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import torch

from unmask.inference.markov_chains import Trace
from unmask.lazy import require

FEWEST_SWEEPS = 20
"""Sweeps a chain below which nothing is said."""
STILL = 1e-4
"""What a log-weight may differ by from sweep to sweep though its chain stands still: rounding."""
LONG = 100
"""Sweeps a chain from which on R-hat is held to the stricter bound."""


def settled_below(sweeps: int) -> float:
    """Return the R-hat above which chains of so many sweeps have not settled."""
    return 1.01 if sweeps >= LONG else 1.1


def diagnose(trace: Trace) -> dict[str, dict[str, float | None]]:
    """Return {quantity: {"ess", "rhat"}} for the log-weight and for each blank."""
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
