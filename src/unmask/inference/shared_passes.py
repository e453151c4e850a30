"""Forward passes of several texts in one batch: texts of one length go through the model together.

A text with many fillings of one blank is a batch of its own, and `MaskedLM.filled_states` computes what its
fillings share but once. A text with few is too small a batch, so such texts are put together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Hashable, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

import torch
from torch import Tensor

from unmask.models.masked_lm import MaskedLM
from unmask.progress import Progress, silent
from unmask.text.cloze import Cloze

FILLINGS_ALONE = 16
"""From so many fillings on a text is a batch of its own: on a CPU sharing gained with 8 and lost with 32."""

Key = TypeVar("Key", bound=Hashable)
Found = TypeVar("Found")


class Fillings(NamedTuple):
    """The tokens that one blank of a text holds in turn, and the position where the states are asked for.

    `partial` asks for partial passes (`MaskedLM.partial_states`) instead of whole ones.
    """

    cloze: Cloze
    blank: int
    token_ids: Tensor
    position: int
    partial: bool = False


Steps: TypeAlias = Generator[list[Fillings], list[Tensor], Found]
"""Work on one text that yields what it wants to ask the model, is sent the states, and returns its result."""


def run_together(mlm: MaskedLM, works: Sequence[Steps[Found]], progress: Progress = silent) -> list[Found]:
    """Run work on several texts step by step side by side, their forward passes in common batches."""
    results: dict[int, Found] = {}
    answers: dict[int, list[Tensor] | None] = dict.fromkeys(range(len(works)))
    while answers:
        asked: dict[int, list[Fillings]] = {}
        for n, answer in answers.items():
            try:
                asked[n] = works[n].send(answer) if answer is not None else next(works[n])
            except StopIteration as end:
                results[n] = end.value
        states = iter(filled_states(mlm, [one for each in asked.values() for one in each], progress))
        answers = {n: [next(states) for _ in each] for n, each in asked.items()}
    return [results[n] for n in range(len(works))]


@torch.inference_mode()
def masked_states(mlm: MaskedLM, clozes: Sequence[Cloze]) -> list[Tensor]:
    """Return the states at the blanks of each text, all of them masked, [blanks, features] each."""
    found: dict[int, Tensor] = {}
    for group in _grouped([(len(cloze.ids), len(cloze.blanks)) for cloze in clozes]):
        ids = torch.tensor([clozes[n].ids for n in group])
        states = mlm.states_each(ids, torch.tensor([clozes[n].blanks for n in group]))
        found.update(zip(group, states, strict=True))
    return [found[n] for n in range(len(clozes))]


@torch.inference_mode()
def filled_states(mlm: MaskedLM, asked: Sequence[Fillings], progress: Progress = silent) -> list[Tensor]:
    """Return the states that each text's fillings come to, [tokens, features] each."""
    found: dict[int, Tensor] = {}
    few = [n for n, one in enumerate(asked) if len(one.token_ids) < FILLINGS_ALONE and not one.partial]
    for group in _grouped([len(asked[n].cloze.ids) for n in few]):
        members = [few[n] for n in group]
        if len(members) > 1:
            parts = [asked[n] for n in members]
            ids = torch.cat([mlm.fillings(one.cloze, one.blank, one.token_ids) for one in parts])
            sizes = [len(one.token_ids) for one in parts]
            places = torch.tensor([one.position for one in parts]).repeat_interleave(torch.tensor(sizes))
            states = mlm.states_each(ids, places[:, None], progress)[:, 0]
            found.update(zip(members, states.split(sizes), strict=True))
    partial = [n for n, one in enumerate(asked) if one.partial]
    for group in _grouped([id(asked[n].cloze) for n in partial]):
        members = [partial[n] for n in group]
        fillings = [(asked[n].blank, asked[n].token_ids) for n in members]
        found.update(zip(members, mlm.partial_states(asked[members[0]].cloze, *fillings), strict=True))
    return [found[n] if n in found else mlm.filled_states(*one[:4], progress) for n, one in enumerate(asked)]


def _grouped(keys: Sequence[Key]) -> list[list[int]]:
    """Return the places of equal keys together."""
    groups: defaultdict[Key, list[int]] = defaultdict(list)
    for place, key in enumerate(keys):
        groups[key].append(place)
    return list(groups.values())
