"""The names of the methods, by which a question is checked before torch is imported."""

from __future__ import annotations

import sys

CONSTRUCTION_NAMES = (
    *("product", "mrf-logit", "mrf-prob", "hcb", "ag", "ag-published", "ag-weighted", "gibbs"),
    *("l2r", "r2l", "mixture"),
)
"""The constructions of pairs, in the order of `unmask.joints.registry`."""
BEYOND_PAIRS = ("grid", "chain", "tree")
"""The methods that join any number of blanks."""


def construction_names() -> tuple[str, ...]:
    """Return the constructions, with those that a program has added to the registry."""
    registry = sys.modules.get("unmask.joints.registry")  # nobody has added any before it is imported
    return CONSTRUCTION_NAMES if registry is None else tuple(registry.CONSTRUCTIONS)


def method_names() -> tuple[str, ...]:
    """Return the methods that a query may name."""
    return (*construction_names(), *BEYOND_PAIRS)
