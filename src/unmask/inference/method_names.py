"""The names of the methods, by which a question is checked before torch is imported."""

from __future__ import annotations

CONSTRUCTION_NAMES = (
    *("product", "mrf-logit", "mrf-prob", "hcb", "ag", "ag-published", "ag-weighted", "gibbs"),
    *("l2r", "r2l", "mixture"),
)
"""The constructions of pairs, in the order of `unmask.joints.registry`."""
BEYOND_PAIRS = ("grid", "chain", "tree")
"""The methods that join any number of blanks."""
METHOD_NAMES = (*CONSTRUCTION_NAMES, *BEYOND_PAIRS)
"""The methods that a query may name."""
