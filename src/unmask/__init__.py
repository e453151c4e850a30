"""unmask: explicit joint distributions from any masked language model.

    import unmask

    joint = unmask.fill("The [MASK] [MASK] in the pool.")
    joint.top(5)

Nothing heavy is imported before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unmask.lazy import lazy_attributes

__version__ = "0.1.0"

if TYPE_CHECKING:
    from unmask.api import Score, compare, fill, load, score
    from unmask.diagnostics import Diagnostics
    from unmask.errors import RunError, UnmaskError, UsageError
    from unmask.inference.query import Query
    from unmask.joints import CONSTRUCTIONS, Filling, Joint, PairJoint, TokenDistribution, construct
    from unmask.models.masked_lm import MaskedLM
    from unmask.progress import Progress
    from unmask.tables.pair_conditionals import PairConditionals
    from unmask.text.support import Support

__all__ = [
    "CONSTRUCTIONS",
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
]


__getattr__ = lazy_attributes(
    __name__,
    {
        "unmask.api": "Score compare fill load score",
        "unmask.diagnostics": "Diagnostics",
        "unmask.errors": "RunError UnmaskError UsageError",
        "unmask.inference.query": "Query",
        "unmask.joints": "CONSTRUCTIONS Filling Joint PairJoint TokenDistribution construct",
        "unmask.models.masked_lm": "MaskedLM",
        "unmask.progress": "Progress",
        "unmask.tables.pair_conditionals": "PairConditionals",
        "unmask.text.support": "Support",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
