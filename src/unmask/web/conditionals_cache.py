"""ConditionalsCache: the models' conditionals of the texts so far.

The expensive part, a model's conditionals of a text, is kept (`TextConditionals`) within a budget of bytes.
Another construction, another given word, a heat map or samples of the same text need no forward pass. Two
simultaneous requests about one text compute it once: the second waits for the first.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from dataclasses import replace
from typing import Literal

from torch import Tensor

from unmask.inference.infer import conditionals, joint_of, joint_of_targets
from unmask.inference.query import Query
from unmask.inference.resolve import check_pair_tables
from unmask.inference.targets import are_single_tokens, targets_of
from unmask.joints.joint import Joint
from unmask.joints.table import TokenDistribution
from unmask.joints.targets import TargetJoint
from unmask.models.masked_lm import MaskedLM
from unmask.tables.pair_conditionals import PairConditionals
from unmask.text.cloze import Cloze, parse_blanks, parse_braces
from unmask.text.support import Support
from unmask.web.deadline import Deadline
from unmask.web.errors import LimitExceeded
from unmask.web.lru_cache import LRUCache
from unmask.web.model_cache import ModelCache
from unmask.web.settings import Settings

Table = PairConditionals | TokenDistribution | TargetJoint
Reading = Literal["blanks", "braces"]
"""Whether a text has blanks to be filled, or words in braces to be scored."""


MAX_JOINTS = 16
"""Joints kept for a text: every construction, and a few with options. They are small beside the tables."""


class TextConditionals:
    """A model's conditionals of a text, and the joints made from them so far."""

    def __init__(self, mlm: MaskedLM, cloze: Cloze, table: Table) -> None:
        self.mlm, self.cloze, self.table = mlm, cloze, table
        self._joints: dict[Hashable, Joint] = {}
        self._lock = threading.Lock()

    def joint(self, query: Query, deadline: Deadline) -> Joint:
        """Return the joint by a query's construction, made but once."""
        key = (query.method, *sorted(query.options.items()))
        with deadline.holding(self._lock):
            if key not in self._joints:
                while len(self._joints) >= MAX_JOINTS:
                    del self._joints[next(iter(self._joints))]
                self._joints[key] = joint_of(self.table, query)
            return self._joints[key]

    @property
    def bytes(self) -> int:
        """Bytes of the tables."""
        tables = [value for value in vars(self.table).values() if isinstance(value, Tensor)]
        return sum({table.data_ptr(): table.nbytes for table in tables}.values())


class ConditionalsCache:
    """Conditionals by model, text and settings, each computed once."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._kept: LRUCache[TextConditionals] = LRUCache(settings.limits.tables)
        self.models = ModelCache(
            settings, on_removal=lambda name: self._kept.drop_where(lambda key: key[0] == name)
        )
        self.hits = self.misses = 0

    @property
    def bytes(self) -> int:
        """Bytes of all that is kept."""
        return self._kept.bytes

    def conditionals_of(
        self, model: str | None, query: Query, reading: Reading, deadline: Deadline
    ) -> TextConditionals:
        """Return what the model says of a query's text, whatever is constructed from it."""
        # targets of several tokens are more blanks, which every method joins in its own way
        asked = query if query.targets else replace(query, method="product", options={})
        key = (model, reading, asked)
        assert model is not None  # the service has put a name there
        loaded = self.models.take(model, deadline)
        known = self._kept.get(key)
        if known is not None:
            self.hits += 1
            return known
        with deadline.holding(loaded.lock):
            known = self._kept.get(key)  # another request may have asked the same meanwhile
            if known is not None:
                self.hits += 1
                return known
            self.misses += 1
            with deadline.checked_during(loaded.mlm.model):
                found = self._compute(loaded.mlm, query, reading, deadline)
            self._kept.put(key, found, found.bytes)
            return found

    def _compute(self, mlm: MaskedLM, query: Query, reading: Reading, deadline: Deadline) -> TextConditionals:
        parse = parse_blanks if reading == "blanks" else parse_braces
        cloze = parse(query.text, mlm.vocabulary, mlm.window, truncate=query.truncate)
        self._check_candidates(mlm, query)
        check_pair_tables(cloze)
        if are_single_tokens(targets_of(query, cloze)):
            return TextConditionals(mlm, cloze, conditionals(mlm, cloze, query, deadline))
        return TextConditionals(mlm, cloze, joint_of_targets(mlm, cloze, query, deadline))

    def _check_candidates(self, mlm: MaskedLM, query: Query) -> None:
        """Hold `all` to the limit that a number is held to."""
        if query.candidates != "all":
            return
        tokens = len(Support.by_kind(mlm.vocabulary, query.support))
        size = min(query.support, tokens) if isinstance(query.support, int) else tokens
        most = self.settings.limits.candidates
        if size > most:
            raise LimitExceeded(
                f"all candidates are {size:,} here, and this server asks about {most:,} at the most: give a "
                f"number, or cut the support to {most:,} tokens"
            )
