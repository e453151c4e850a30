"""ConditionalsCache: what the models said of the texts so far.

The expensive part, a model's conditionals of a text, is kept (`TextConditionals`) within a budget of bytes.
Another construction, another given word, a heat map or samples of the same text need no forward pass. Two
simultaneous requests about one text compute it once: the second waits for the first.

Of one or two blanks the tables of conditionals are kept, from which every construction is made. Of more, and
of `tree` and `grid`, the joint is. A chain runs the model whenever it is used, so it is used while the model
is held, and not kept.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, TypeVar

from unmask.errors import UsageError
from unmask.inference.infer import TEXTS_AT_ONCE, conditionals_of_many, infer, joint_of
from unmask.inference.query import Query
from unmask.inference.resolve import check_pair_tables, is_of_pairs
from unmask.inference.targets import are_single_tokens, targets_of
from unmask.joints.joint import Joint
from unmask.joints.table import TokenDistribution
from unmask.models.masked_lm import MaskedLM
from unmask.tables.pair_conditionals import PairConditionals
from unmask.text.cloze import Cloze, parse_blanks, parse_braces
from unmask.text.support import Support
from unmask.web.deadline import Deadline
from unmask.web.errors import LimitExceeded
from unmask.web.held_bytes import held_bytes
from unmask.web.in_flight import InFlight
from unmask.web.lru_cache import LRUCache
from unmask.web.model_cache import LoadedModel, ModelCache
from unmask.web.settings import Settings

Reading = Literal["blanks", "pair", "braces"]
"""Whether a text has blanks to be filled, two of them at the most, or words in braces to be scored."""
Made = TypeVar("Made")


MAX_JOINTS = 16
"""Joints kept for a text: every construction, and a few with options."""


class TextConditionals:
    """What a model said of a text: tables of conditionals, or the joint of its blanks."""

    def __init__(self, mlm: MaskedLM, said: PairConditionals | Joint) -> None:
        self.mlm, self._said = mlm, said
        self._joints: dict[Hashable, Joint] = {}
        self._lock = threading.Lock()

    def joint(self, query: Query, deadline: Deadline) -> Joint:
        """Return the joint by a query's construction, made but once."""
        if isinstance(self._said, Joint) and not isinstance(self._said, TokenDistribution):
            return self._said
        key = (query.method, *sorted(query.options.items()))
        with deadline.holding(self._lock):
            if key not in self._joints:
                while len(self._joints) >= MAX_JOINTS:
                    del self._joints[next(iter(self._joints))]
                self._joints[key] = joint_of(self._said, query)
            return self._joints[key]

    @property
    def runs_model(self) -> bool:
        """Whether its joint makes forward passes when it is used."""
        return isinstance(self._said, Joint) and not self._said.tractable

    @property
    def bytes(self) -> int:
        """Bytes of the tables, and of the joints so far."""
        return held_bytes((self._said, self._joints), self.mlm.model)


class _Asked(NamedTuple):
    """A query, its text as the model reads it, and the key under which the answer is kept."""

    query: Query
    cloze: Cloze
    key: Hashable

    @property
    def is_of_tables(self) -> bool:
        """Whether the model's answer is tables, from which every construction is made."""
        return is_of_pairs(self.query, self.cloze) and are_single_tokens(targets_of(self.query, self.cloze))


class _Used(threading.local):
    """What a thread has used of the cache since it was last counted."""

    def __init__(self) -> None:
        self.found: dict[Hashable, TextConditionals] = {}


class ConditionalsCache:
    """Conditionals by model, text and settings, each computed once."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._kept: LRUCache[TextConditionals] = LRUCache(settings.limits.tables)
        self.models = ModelCache(
            settings, on_removal=lambda name: self._kept.drop_where(lambda key: key[0] == name)
        )
        self._used = _Used()
        self._in_flight = InFlight()
        self.hits = self.misses = 0

    @property
    def bytes(self) -> int:
        """Bytes of all that is kept."""
        return self._kept.bytes

    def blanks(self, model: str, query: Query, deadline: Deadline) -> int:
        """Return how many blanks a query's text has."""
        return len(
            self._read(model, self.models.take(model, deadline).mlm, [query], 0, "blanks").cloze.blanks
        )

    def use(
        self,
        model: str,
        queries: Sequence[Query],
        reading: Reading,
        deadline: Deadline,
        make: Callable[[Joint, MaskedLM], Made],
    ) -> list[Made]:
        """Return what is made of the joint of each query, texts of one length sharing their passes."""
        loaded = self.models.take(model, deadline)
        asked = [self._read(model, loaded.mlm, queries, n, reading) for n in range(len(queries))]
        parts = (asked[start : start + TEXTS_AT_ONCE] for start in range(0, len(asked), TEXTS_AT_ONCE))
        return [made for part in parts for made in self._use_part(loaded, part, deadline, make)]

    def recount(self) -> None:
        """Take note of how large what this thread has used has become: a joint keeps what it computes."""
        while self._used.found:
            key, conditionals = self._used.found.popitem()
            self._kept.resize(key, conditionals, conditionals.bytes)

    def _read(
        self, model: str, mlm: MaskedLM, queries: Sequence[Query], number: int, reading: Reading
    ) -> _Asked:
        query, most = queries[number], self.settings.limits.blanks
        parse = parse_braces if reading == "braces" else parse_blanks
        several = len({one.text for one in queries}) > 1
        where = f"text {number}: " if several else ""
        try:
            cloze = parse(query.text, mlm.vocabulary, mlm.window, truncate=query.truncate)
        except UsageError as error:
            raise UsageError(f"{where}{error}") from None
        if len(cloze.blanks) > most:
            raise LimitExceeded(
                f"{where}the text has {len(cloze.blanks)} blanks, and this server takes {most}: leave fewer"
            )
        if reading == "pair":
            check_pair_tables(cloze)
        self._check_candidates(mlm, query)
        asked = _Asked(query, cloze, None)
        # tables are the same for every construction
        kept = replace(query, method="product", options={}) if asked.is_of_tables else query
        return asked._replace(key=(model, parse, kept))

    def _use_part(
        self,
        loaded: LoadedModel,
        asked: Sequence[_Asked],
        deadline: Deadline,
        make: Callable[[Joint, MaskedLM], Made],
    ) -> list[Made]:
        """Answer as many texts as are worked on at once."""
        distinct = {one.key: one for one in asked}
        found = self._find(distinct)
        made: dict[int, Made] = {}

        def use(number: int) -> None:
            deadline.check()
            one = asked[number]
            conditionals = found[one.key]
            made[number] = make(conditionals.joint(one.query, deadline), loaded.mlm)
            self._used.found[one.key] = conditionals

        if len(found) < len(distinct):
            with self._in_flight.claim(distinct.keys() - found, deadline):
                # another request may have asked the same meanwhile
                found |= self._find([key for key in distinct if key not in found])
                missing = [one for key, one in distinct.items() if key not in found]
                if missing:
                    with loaded.running(deadline) as mlm, deadline.checked_during(mlm.model):
                        self.misses += len(missing)
                        found |= self._compute(mlm, missing, deadline)
                        for number, one in enumerate(asked):
                            if found[one.key].runs_model:
                                use(number)
        for number in range(len(asked)):
            if number not in made:
                use(number)
        return [made[number] for number in range(len(asked))]

    def _find(self, keys: Iterable[Hashable]) -> dict[Hashable, TextConditionals]:
        found = {key: known for key in keys if (known := self._kept.get(key)) is not None}
        self.hits += len(found)
        return found

    def _compute(
        self, mlm: MaskedLM, missing: Sequence[_Asked], deadline: Deadline
    ) -> dict[Hashable, TextConditionals]:
        """Ask the model, and keep what it says."""
        sharing = [one for one in missing if one.is_of_tables]
        said: dict[Hashable, PairConditionals | Joint] = {}
        if sharing:
            clozes = [one.cloze for one in sharing]
            tables = conditionals_of_many(mlm, clozes, sharing[0].query, deadline)
            said = {one.key: table for one, table in zip(sharing, tables, strict=True)}
        for one in missing:
            if one.key not in said:
                said[one.key] = infer(mlm, one.cloze, one.query, deadline)
        found = {key: TextConditionals(mlm, value) for key, value in said.items()}
        for key, conditionals in found.items():
            if not conditionals.runs_model:
                self._kept.put(key, conditionals, conditionals.bytes)
        return found

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
