"""Tag schemes for named entities: IO, BIO and BIOES, read, written, checked, converted and repaired.

In IO a token of an entity is `I-TYPE`, and neighbours of one type run together. BIO marks the first token
with B. BIOES also marks the last with E, and an entity of one token with S.

Any sequence of tags has one reading, broken ones included, by the rule of the CoNLL-2000 scorer: a token
goes on with the entity before it if that one is open (its last tag is B or I), the types agree, and its own
tag is I or E; any other token that is not O starts an entity. A sequence is valid in a scheme if writing its
reading in that scheme gives the sequence back; repairing it is just that writing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, get_args

from unmask.errors import UsageError

Scheme = Literal["io", "bio", "bioes"]
PREFIXES = {"io": "I", "bio": "BI", "bioes": "BIES"}
OUTSIDE = "O"


class Entity(NamedTuple):
    """The tokens `start` to `end` (not included) and their type."""

    start: int
    end: int
    type: str


class Fault(NamedTuple):
    """Where a sequence breaks its scheme, what stands there and what the scheme would have."""

    place: int
    found: str
    expected: str


def parse(tag: str) -> tuple[str, str]:
    """Return a tag's prefix and type; `O` has no type."""
    if tag == OUTSIDE:
        return OUTSIDE, ""
    prefix, dash, kind = tag.partition("-")
    if not dash or not kind or prefix not in ("B", "I", "E", "S"):
        raise UsageError(f"expected a tag such as B-PER, I-PER or O, got '{tag}'")
    return prefix, kind


def entities(tags: Sequence[str]) -> list[Entity]:
    """Return the entities of a sequence, valid or not."""
    found: list[Entity] = []
    is_open, last = False, ""
    for place, tag in enumerate(tags):
        prefix, kind = parse(tag)
        if prefix != OUTSIDE:
            if is_open and kind == last and prefix in "IE":
                found[-1] = found[-1]._replace(end=place + 1)
            else:
                found.append(Entity(place, place + 1, kind))
        is_open, last = prefix in ("B", "I"), kind
    return found


def write(found: Iterable[Entity], length: int, scheme: Scheme) -> list[str]:
    """Return the tags of entities that do not overlap."""
    check_scheme(scheme)
    tags = [OUTSIDE] * length
    for start, end, kind in found:
        tags[start:end] = [f"I-{kind}"] * (end - start)
        if scheme in ("bio", "bioes"):
            tags[start] = f"B-{kind}"
        if scheme == "bioes":
            tags[end - 1] = f"E-{kind}" if end - start > 1 else f"S-{kind}"
    return tags


def convert(tags: Sequence[str], scheme: Scheme) -> list[str]:
    """Return the same entities in a scheme (in IO, neighbours of one type become one); this repairs, too."""
    return write(entities(tags), len(tags), scheme)


def fault(tags: Sequence[str], scheme: Scheme) -> Fault | None:
    """Return the first place where a sequence breaks its scheme, or None if it is valid."""
    for place, (found, expected) in enumerate(zip(tags, convert(tags, scheme), strict=True)):
        if found != expected:
            return Fault(place, found, expected)
    return None


def detect(sequences: Iterable[Sequence[str]]) -> Scheme:
    """Return the smallest scheme that has all the prefixes in use."""
    prefixes = {parse(tag)[0] for tags in sequences for tag in tags}
    if prefixes & {"E", "S"}:
        return "bioes"
    return "bio" if "B" in prefixes else "io"


def labels(types: Iterable[str], scheme: Scheme) -> list[str]:
    """Return all the tags of a scheme for these types, O first."""
    check_scheme(scheme)
    return [OUTSIDE, *(f"{prefix}-{kind}" for kind in sorted(set(types)) for prefix in PREFIXES[scheme])]


def check_scheme(scheme: str) -> None:
    """Refuse an unknown scheme."""
    if scheme not in get_args(Scheme):
        raise UsageError(f"unknown scheme '{scheme}': expected {', '.join(get_args(Scheme))}")
