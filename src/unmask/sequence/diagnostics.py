"""Have the chains settled? Effective sample size and R-hat, by arviz.

Both are for numbers, and fillings are tokens. So they are taken of the chains' log-weight, and for each blank
of whether it holds the token that it holds most often. R-hat (rank-normalised, split; Vehtari et al. 2021)
compares chains with each other and with their own halves: above 1.01 they have not settled. Chains that
never move, or of fewer than four draws, can't be judged: None.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import torch

from unmask.errors import Misuse
from unmask.sequence.sampling import Draws

FEWEST_DRAWS = 4


def diagnose(draws: Draws) -> dict[str, dict[str, float | None]]:
    """Return {quantity: {"ess", "rhat"}} for the log-weight and for each blank."""
    traces = {"log_weight": draws.log_weights.numpy()}
    for blank in range(draws.ids.shape[-1]):
        column = draws.ids[:, :, blank]
        common = torch.mode(column.flatten()).values
        traces[f"blank {blank}"] = (column == common).double().numpy()
    return {name: {"ess": _ess(trace), "rhat": _rhat(trace)} for name, trace in traces.items()}


def _arviz() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import arviz
    except ImportError:
        raise Misuse("the diagnostics of chains need arviz: pip install 'unmask[sample]'") from None
    return arviz


def _ess(trace: np.ndarray[Any, Any]) -> float | None:
    return _judged(trace, "ess")


def _rhat(trace: np.ndarray[Any, Any]) -> float | None:
    return _judged(trace, "rhat") if len(trace) > 1 else None


def _judged(trace: np.ndarray[Any, Any], what: str) -> float | None:
    if trace.shape[1] < FEWEST_DRAWS or np.ptp(trace) == 0:
        return None
    arviz = _arviz()
    with np.errstate(all="ignore"):  # a half of a chain that never moves has no variance
        found = float(getattr(arviz, what)(trace))
    return found if math.isfinite(found) else None
