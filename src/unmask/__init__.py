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
    "load": "unmask.models.load",
    "fill": "unmask.api",
    "score": "unmask.api",
    "compare": "unmask.api",
    "Score": "unmask.api",
    "score_sentences": "unmask.inference.score_texts",
    "SentenceScores": "unmask.inference.score_texts",
    "CausalLM": "unmask.models.causal_lm",
    "construct": "unmask.joints.registry",
    "CONSTRUCTIONS": "unmask.joints.registry",
    "Query": "unmask.inference.query",
    "PairConditionals": "unmask.tables.pair_conditionals",
    "MaskedLM": "unmask.models.masked_lm",
    "Joint": "unmask.joints.joint",
    "TokenDistribution": "unmask.joints.token_distribution",
    "Filling": "unmask.joints.joint",
    "PairJoint": "unmask.joints.pair",
    "Progress": "unmask.progress",
    "Diagnostics": "unmask.diagnostics",
    "Support": "unmask.text.support",
    "UnmaskError": "unmask.errors",
    "UsageError": "unmask.errors",
    "RunError": "unmask.errors",
}

if TYPE_CHECKING:
    from unmask.api import Score, compare, fill, score
    from unmask.diagnostics import Diagnostics
    from unmask.errors import RunError, UnmaskError, UsageError
    from unmask.inference.query import Query
    from unmask.inference.score_texts import SentenceScores, score_sentences
    from unmask.joints.joint import Filling, Joint
    from unmask.joints.pair import PairJoint
    from unmask.joints.registry import CONSTRUCTIONS, construct
    from unmask.joints.token_distribution import TokenDistribution
    from unmask.models.causal_lm import CausalLM
    from unmask.models.load import load
    from unmask.models.masked_lm import MaskedLM
    from unmask.progress import Progress
    from unmask.tables.pair_conditionals import PairConditionals
    from unmask.text.support import Support

__all__ = [
    "CONSTRUCTIONS",
    "CausalLM",
    "Diagnostics",
    "Filling",
    "Joint",
    "MaskedLM",
    "PairConditionals",
    "PairJoint",
    "Progress",
    "Query",
    "RunError",
    "Score",
    "SentenceScores",
    "Support",
    "TokenDistribution",
    "UnmaskError",
    "UsageError",
    "__version__",
    "compare",
    "construct",
    "fill",
    "load",
    "score",
    "score_sentences",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'unmask' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
