"""load_loops: every compiled loop, loaded before it is needed.

A server does so at its start. Otherwise each is loaded from the disk at its first use, and where there is no
memory left by then, LLVM ends the process.
"""

from __future__ import annotations

import numpy as np
import torch

from unmask.kernels.divergences import divergences
from unmask.kernels.newman import sweep
from unmask.kernels.zermelo import round_of


def load_loops() -> None:
    """Run each loop once, on the smallest tables of the types that a model's tables have."""
    table, ones, logs = np.full((2, 2), 0.5, np.float32), np.ones(2), torch.zeros(2, dtype=torch.float64)
    for weights in (None, (logs, logs)):
        for precise in (False, True):
            sweep(table, table, logs, logs, log_w=weights, precise=precise)
    round_of(table, table, ones, ones)
    zeros = np.zeros(2, np.float32)
    divergences(np.log(table), table, table, zeros, zeros, zeros + 1, zeros + 1, 0.0)
