"""Library: what the models have said of the texts so far.

All that costs much, the model's conditionals of a text, is kept (`Said`) within a budget of bytes. Another
construction, another word that is given, a heat map or samples of the same text ask nothing of the model.
Two requests about one text at the same time ask it once: the second waits for the first.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Any, Literal

from torch import Tensor

from unmask.inference import infer as ask
from unmask.joints.joint import Joint
from unmask.joints.token_distribution import TokenDistribution
from unmask.models.masked_lm import MaskedLM
from unmask.tables.pair_conditionals import PairConditionals
from unmask.text.cloze import Cloze, parse_blanks, parse_braces
from unmask.text.support import Support
from unmask.web.deadline import Watch
from unmask.web.errors import OverLimit
from unmask.web.lru_cache import Store
from unmask.web.model_cache import Shelf
from unmask.web.request_schemas import Question
from unmask.web.settings import Settings

Reading = Literal["blanks", "braces"]
"""Whether a text has blanks to be filled, or words in braces to be scored."""


MOST_JOINTS = 16
"""Joints kept for a text: every construction, and a few with options. They are small beside the tables."""


class Said:
    """What a model said of a text, and the joints made from it so far."""

    def __init__(self, mlm: MaskedLM, cloze: Cloze, table: PairConditionals | TokenDistribution) -> None:
        self.mlm, self.cloze, self.table = mlm, cloze, table
        self._joints: dict[Hashable, Joint] = {}
        self._lock = threading.Lock()

    def joint(self, method: str, options: dict[str, Any], watch: Watch) -> Joint:
        """Return the joint by a construction, made but once."""
        key = (method, tuple(sorted(options.items())))
        with watch.holding(self._lock):
            if key not in self._joints:
                while len(self._joints) >= MOST_JOINTS:
                    del self._joints[next(iter(self._joints))]
                self._joints[key] = ask.joint_of(self.table, method, **options)
            return self._joints[key]

    @property
    def bytes(self) -> int:
        """What the tables take."""
        tables = [value for value in vars(self.table).values() if isinstance(value, Tensor)]
        return sum({table.data_ptr(): table.nbytes for table in tables}.values())


class Library:
    """Answers of models to questions about texts, asked for once."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._kept: Store[Said] = Store(settings.limits.tables)
        self.shelf = Shelf(settings, on_removal=self._forget)
        self.found = self.asked = 0

    @property
    def bytes(self) -> int:
        """What is kept."""
        return self._kept.bytes

    def said(self, question: Question, reading: Reading, watch: Watch) -> Said:
        """Return what the model says of a question's text."""
        key = (
            question.model,
            reading,
            question.text,
            question.truncate,
            question.candidates,
            question.completion,
            question.support,
            tuple(question.include),
            question.seed,
        )
        assert question.model is not None  # the desk has put a name there
        placed = self.shelf.take(question.model, watch)
        known = self._kept.get(key)
        if known is not None:
            self.found += 1
            return known
        with watch.holding(placed.lock):
            known = self._kept.get(key)  # another request may have asked the same meanwhile
            if known is not None:
                self.found += 1
                return known
            self.asked += 1
            with watch.inside(placed.mlm.model):
                said = self._ask(placed.mlm, question, reading, watch)
            self._kept.put(key, said, said.bytes)
            return said

    def _ask(self, mlm: MaskedLM, question: Question, reading: Reading, watch: Watch) -> Said:
        parse = parse_blanks if reading == "blanks" else parse_braces
        cloze = parse(question.text, mlm.vocabulary, mlm.window, truncate=question.truncate)
        self._check_candidates(mlm, question)
        table = ask.conditionals(
            mlm,
            cloze,
            candidates=question.candidates,
            completion=question.completion,
            support=question.support,
            include=question.include,
            seed=question.seed,
            progress=watch,
        )
        return Said(mlm, cloze, table)

    def _check_candidates(self, mlm: MaskedLM, question: Question) -> None:
        """Hold `all` to the limit that a number is held to."""
        if question.candidates != "all":
            return
        everything = question.support == "all"
        tokens = (Support.everything if everything else Support.words)(mlm.vocabulary)
        size = min(question.support, len(tokens)) if isinstance(question.support, int) else len(tokens)
        most = self.settings.limits.candidates
        if size > most:
            raise OverLimit(
                f"all candidates are {size:,} here, and this server asks about {most:,} at the most: give a "
                f"number, or cut the support to {most:,} tokens"
            )

    def _forget(self, model: str) -> None:
        self._kept.drop_where(lambda key: isinstance(key, tuple) and key[0] == model)
