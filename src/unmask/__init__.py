"""unmask: explicit joint distributions from any masked language model.

    import unmask

    joint = unmask.fill("The [MASK] [MASK] in the pool.")
    joint.top(5)

Nothing heavy is imported before it is used.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from unmask.lazy import lazy_attributes

__version__ = "0.1.0"

# Where colorama is installed, numba would swap the standard streams of the whole process, for a moment and
# from whichever thread compiles, to write errors in bold; what another thread prints meanwhile can get lost.
# numba reads this when it is imported.
os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")

if TYPE_CHECKING:
    from unmask.api import Score, compare, fill, score
    from unmask.diagnostics import Diagnostics
    from unmask.errors import RunError, UnmaskError, UsageError
    from unmask.inference.mutant_scan import MutantScan, scan_mutants
    from unmask.inference.mutant_scores import MutantScores, score_mutants
    from unmask.inference.query import Query
    from unmask.inference.score_texts import SentenceScores, score_sentences
    from unmask.joints import CONSTRUCTIONS, Filling, Joint, PairJoint, TokenDistribution, construct
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
    "MutantScan",
    "MutantScores",
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
    "scan_mutants",
    "score",
    "score_mutants",
    "score_sentences",
]


__getattr__ = lazy_attributes(
    __name__,
    {
        "unmask.api": "Score compare fill score",
        "unmask.diagnostics": "Diagnostics",
        "unmask.errors": "RunError UnmaskError UsageError",
        "unmask.inference.mutant_scan": "MutantScan scan_mutants",
        "unmask.inference.mutant_scores": "MutantScores score_mutants",
        "unmask.inference.query": "Query",
        "unmask.inference.score_texts": "SentenceScores score_sentences",
        "unmask.joints": "CONSTRUCTIONS Filling Joint PairJoint TokenDistribution construct",
        "unmask.models.causal_lm": "CausalLM",
        "unmask.models.load": "load",
        "unmask.models.masked_lm": "MaskedLM",
        "unmask.progress": "Progress",
        "unmask.tables.pair_conditionals": "PairConditionals",
        "unmask.text.support": "Support",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
