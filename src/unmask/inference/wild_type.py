"""WildType: a sequence as a model reads it, a letter per token."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from unmask.errors import UsageError
from unmask.inference.sentences import SentenceReader
from unmask.models.masked_lm import MaskedLM
from unmask.text.support import Support

AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"


@dataclass(frozen=True)
class WildType:
    """A sequence as a model reads it.

    Attributes:
        ids: the token ids of the sequence, the model's special tokens around them.
        positions: where among them the letters stand.
        letters: the letters that a site may hold, and the token id of each.
    """

    mlm: MaskedLM
    sequence: str
    ids: tuple[int, ...]
    positions: tuple[int, ...]
    letters: dict[str, int]

    @classmethod
    def read(cls, mlm: MaskedLM, sequence: str, others: Iterable[str] = ()) -> WildType:
        """Read a sequence; `others` are the letters of its mutants.

        A site may hold the 20 amino acids, those of them that the model knows, and whatever other letters
        the sequence and its mutants have: a model of DNA or RNA has its own.
        """
        sentence = SentenceReader(mlm)(sequence)
        if len(sentence) != len(sequence):
            raise UsageError(
                f"the model reads {len(sequence)} letters as {len(sentence)} tokens: expected one that reads "
                f"a letter as a token, such as ESM"
            )
        if len(sentence.ids) > mlm.window:
            raise UsageError(
                f"the wild type makes {len(sentence.ids)} tokens, but the model's window holds {mlm.window}: "
                f"give the part of it that is mutated, and the number of its first letter"
            )
        letters = _known_letters(mlm, set(sequence), set(others))
        return cls(mlm, sequence, sentence.ids, sentence.positions, letters)

    @property
    def support(self) -> Support:
        """The tokens of the letters."""
        return Support(torch.tensor(sorted(set(self.letters.values()))), self.mlm.vocabulary, "letters")

    def tokens(self, places: Sequence[int]) -> list[int]:
        """Return the token ids of the wild type at some places."""
        return [self.letters[self.sequence[place]] for place in places]


def _known_letters(mlm: MaskedLM, of_wild: set[str], of_mutants: set[str]) -> dict[str, int]:
    found = {}
    for letter in sorted({*AMINO_ACIDS, *of_wild, *of_mutants}):
        try:
            found[letter] = mlm.vocabulary.find(letter)
        except UsageError:
            if letter in of_wild:
                raise UsageError(
                    f"the model does not know the letter '{letter}' of the wild type: take another model"
                ) from None
            if letter in of_mutants:
                raise UsageError(
                    f"the model does not know the letter '{letter}': leave out the mutants that have it"
                ) from None
    return found
