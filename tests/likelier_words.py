"""Pairs of blanks over a support of their likelier words, so small that exact answers are cheap."""

import torch

from unmask import MaskedLM
from unmask.text.cloze import Cloze, parse_braces
from unmask.text.support import Support


def with_likelier_words(mlm: MaskedLM, text: str, tokens: int) -> tuple[Cloze, tuple[Support, Support]]:
    """Return the cloze of a text with {braces}, and the likeliest words of both blanks, the true ones too."""
    cloze = parse_braces(text, mlm.vocabulary, mlm.window)
    ids, words = torch.tensor([cloze.ids]), Support.words(mlm.vocabulary)
    first, second = (
        words.likeliest(mlm.logits(ids, blank)[0, words.ids], tokens, [truth])
        for blank, truth in zip(cloze.blanks, cloze.truth, strict=True)
    )
    return cloze, (first, second)
