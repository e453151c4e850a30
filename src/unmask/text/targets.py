"""Targets: the words that a blank may hold, spelled by a model's tokenizer.

A word is spelled as it stands in the text: the text with the word in the blank, and masks in the others, is
tokenized whole, and the tokens of the word are its spelling. That is how words in braces are read, too.
A token written with its mark (`##ing`, `Ġthe`) means that token.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from unmask.errors import UsageError
from unmask.text.cloze import Cloze, locate
from unmask.text.support import Support
from unmask.text.vocabulary import WORD_INSIDE_MARK, Vocabulary


class Target(NamedTuple):
    """A word that a blank may hold, and its tokens."""

    word: str
    ids: tuple[int, ...]


class TargetVocabulary(Vocabulary):
    """A model's tokens and, after them, the targets of several tokens: the n-th has the id `size + n`."""

    def __init__(self, vocabulary: Vocabulary, targets: Sequence[Target]) -> None:
        several = [target.word for target in targets if len(target.ids) > 1]
        self.tokenizer, self.mask_id = vocabulary.tokenizer, vocabulary.mask_id
        self.tokens = (*vocabulary.tokens, *several)
        self.size = len(self.tokens)
        longer = iter(range(vocabulary.size, self.size))
        self.ids_of_targets = [t.ids[0] if len(t.ids) == 1 else next(longer) for t in targets]
        self._named = {t.word: i for t, i in zip(targets, self.ids_of_targets, strict=True)}

    def find(self, text: str) -> int:
        """Return the id of a target, or else of the token that a person means by `text`."""
        return self._named[text] if text in self._named else super().find(text)


def target_support(targets: Sequence[Target], vocabulary: Vocabulary) -> Support:
    """Return the targets of a blank as the tokens that it may hold."""
    named = TargetVocabulary(vocabulary, targets)
    return Support(torch.tensor(named.ids_of_targets), named, "target")


def spell_targets(
    lists: Sequence[Sequence[str | int]], cloze: Cloze, tokens: Support
) -> tuple[tuple[Target, ...], ...]:
    """Return the targets of each blank; `lists` is one list for all of them, or one per blank."""
    blanks = len(cloze.blanks)
    if len(lists) not in (1, blanks):
        raise UsageError(
            f"targets: expected one list for all blanks, or one for each of {blanks}, got {len(lists)}"
        )
    found = tuple(
        tuple(_spelled(word, blank, cloze) for word in lists[blank if len(lists) > 1 else 0])
        for blank in range(blanks)
    )
    for targets in found:
        known: dict[tuple[int, ...], str] = {}
        for target in targets:
            for token_id in target.ids:
                tokens.index(token_id)  # raises if a blank can't hold it
            if target.ids in known:
                raise UsageError(
                    f"targets: '{known[target.ids]}' and '{target.word}' are the same to this model: leave "
                    f"one out"
                )
            known[target.ids] = target.word
    return found


def _spelled(word: str | int, blank: int, cloze: Cloze) -> Target:
    vocabulary = cloze.vocabulary
    if isinstance(word, int):
        return Target(vocabulary.token(word), (word,))
    word = word.strip()
    marks = [WORD_INSIDE_MARK] if vocabulary.has_inside_mark else []
    marks += [vocabulary.start_mark] if vocabulary.start_mark else []
    no_text = len(cloze.blanks) > 1 and not any(cloze.pieces)  # a cloze that was made of ids
    if no_text or any(word.startswith(mark) and word != mark for mark in marks):
        return Target(word, (vocabulary.find(word),))
    mask = vocabulary.tokenizer.mask_token
    before, after = (mask.join(cloze.pieces[part]) for part in (slice(blank + 1), slice(blank + 1, None)))
    try:
        ids, (inside,) = locate(before + word + after, [(len(before), len(before + word))], vocabulary)
    except UsageError:  # nothing of it is left, or it runs into what stands beside it
        raise _cannot_spell(word, blank) from None
    spelled = tuple(ids[token.position] for token in inside)
    if vocabulary.tokenizer.unk_token_id in spelled:
        raise _cannot_spell(word, blank)
    return Target(word, spelled)


def _cannot_spell(word: str, blank: int) -> UsageError:
    return UsageError(
        f"targets: this model's tokenizer can't spell '{word}' in blank {blank + 1}: check the spelling, and "
        f"that there are spaces around the blank"
    )
