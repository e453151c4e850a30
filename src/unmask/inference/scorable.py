"""Which texts can be scored by a model, and why the others cannot.

Not scored: an empty text, one longer than the model's window, one that spells a special token (a mask in a
text is a blank, and no token to be scored), one with tokens outside the support. A text with tokens unknown
to the model is scored, with a note.
"""

from __future__ import annotations

from dataclasses import dataclass

from unmask.inference.sentences import Sentence, SentenceReader
from unmask.models.causal_lm import CausalLM
from unmask.models.masked_lm import MaskedLM
from unmask.text.cloze import unknown_note
from unmask.text.support import Support


@dataclass(frozen=True)
class Scorable:
    """A text as a sentence, None if it can't be scored, with how many tokens it has and a note."""

    sentence: Sentence | None
    length: int
    note: str | None = None


class TextReader:
    """Reads texts for a model.

    Args:
        lm: the model.
        support: the tokens that a text may hold.
        truncate: cut texts that are longer than the window.
    """

    def __init__(self, lm: MaskedLM | CausalLM, support: Support, *, truncate: bool = False) -> None:
        self.lm, self._truncate = lm, truncate
        self._read = SentenceReader(lm)
        self._known = set(support.ids.tolist())
        self._special = lm.vocabulary.special_ids - {lm.tokenizer.unk_token_id}

    def __call__(self, text: str, *, prefix: str = "", suffix: str = "") -> Scorable:
        """Read a text; with a prefix or a suffix, which are joined to it as they are."""
        vocabulary, window = self.lm.vocabulary, self.lm.window
        sentence = self._read(text, prefix=prefix, suffix=suffix)
        length, note = len(sentence), None
        if len(sentence.ids) > window and self._truncate and length and not prefix and not suffix:
            sentence = self._read.of_ids(sentence.tokens[: window - len(sentence.ids) + length])
            note = f"cut from {length} tokens"
        typed = [token for token in sentence.tokens if token in self._special]
        strange = set(sentence.tokens) - self._known
        if len(sentence.ids) > window:
            return Scorable(
                None, length, f"{len(sentence.ids)} tokens, and the model's window holds {window}"
            )
        if typed:
            return Scorable(None, len(sentence), self._not_text(typed))
        if strange:
            return Scorable(None, length, f"'{vocabulary.token(min(strange))}' is no token of the support")
        if not len(sentence):
            return Scorable(None, 0, note)
        unknown = unknown_note(sentence.tokens, vocabulary)
        return Scorable(sentence, len(sentence), "; ".join(filter(None, [note, unknown])) or None)

    def _not_text(self, typed: list[int]) -> str:
        """Say why a text with special tokens is not scored."""
        mask = self.lm.vocabulary.mask_id
        if mask in typed:
            return f"it has a blank, {self.lm.vocabulary.token(mask)}: put a word there, or take unmask fill"
        return f"it has {self.lm.vocabulary.token(typed[0])}, a special token of this model: leave it out"
