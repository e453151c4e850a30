"""unmask: explicit joint distributions from any masked language model.

    import unmask

    joint = unmask.fill("The [MASK] [MASK] in the pool.")
    joint.top(5)

Nothing heavy is imported before it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "load": "unmask.api",
    "fill": "unmask.api",
    "score": "unmask.api",
    "compare": "unmask.api",
    "Score": "unmask.api",
    "construct": "unmask.constructions",
    "CONSTRUCTIONS": "unmask.constructions",
    "PairConditionals": "unmask.conditionals",
    "MaskedLM": "unmask.mlm",
    "Joint": "unmask.joint",
    "TokenDistribution": "unmask.joint",
    "Filling": "unmask.joint",
    "PairJoint": "unmask.pair",
    "Progress": "unmask.progress",
    "Support": "unmask.vocabulary",
    "UnmaskError": "unmask.errors",
    "Misuse": "unmask.errors",
    "Failure": "unmask.errors",
}

if TYPE_CHECKING:
    from unmask.api import Score, compare, fill, load, score
    from unmask.conditionals import PairConditionals
    from unmask.constructions import CONSTRUCTIONS, construct
    from unmask.errors import Failure, Misuse, UnmaskError
    from unmask.joint import Filling, Joint, TokenDistribution
    from unmask.mlm import MaskedLM
    from unmask.pair import PairJoint
    from unmask.progress import Progress
    from unmask.vocabulary import Support

__all__ = [
    "CONSTRUCTIONS",
    "Failure",
    "Filling",
    "Joint",
    "MaskedLM",
    "Misuse",
    "PairConditionals",
    "PairJoint",
    "Progress",
    "Score",
    "Support",
    "TokenDistribution",
    "UnmaskError",
    "__version__",
    "compare",
    "construct",
    "fill",
    "load",
    "score",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'unmask' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
