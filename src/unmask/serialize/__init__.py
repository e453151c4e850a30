"""Answers as plain data: what `--json` prints, and what the server answers.

Each function returns one dictionary of strings, numbers and lists that tells the whole story: the answer,
and the model, method, candidates, seed and errors that it rests on.
"""

from unmask.serialize.basis import filling_answer, token_answer
from unmask.serialize.explorer import conditional_answer, map_answer, marginals_answer
from unmask.serialize.joints import (
    compare_answer,
    compatibility_answer,
    explain_answer,
    fill_answer,
    score_answer,
    words_answer,
)
from unmask.serialize.samples import markov_chains_answer, passes_answer, sample_answer

__all__ = [
    "compare_answer",
    "compatibility_answer",
    "conditional_answer",
    "explain_answer",
    "fill_answer",
    "filling_answer",
    "map_answer",
    "marginals_answer",
    "markov_chains_answer",
    "passes_answer",
    "sample_answer",
    "score_answer",
    "token_answer",
    "words_answer",
]
