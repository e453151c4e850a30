"""The constructions: ways to make one joint distribution out of a pair of conditionals.

One file each, one contract (`PairJoint`), one registry. A construction is a class whose `__init__` takes the
conditionals and its options, solves what has to be solved, and whose `log_block` is the formula of a cell.
"""

from __future__ import annotations

from inspect import signature
from typing import Any

from unmask.errors import UsageError
from unmask.joints.arnold_gokhale import ArnoldGokhale
from unmask.joints.arnold_gokhale_published import ArnoldGokhalePublished
from unmask.joints.arnold_gokhale_weighted import WeightedArnoldGokhale
from unmask.joints.chain_orders import LeftToRight, Mixture, RightToLeft
from unmask.joints.gibbs import Gibbs
from unmask.joints.hcb import HammersleyCliffordBesag
from unmask.joints.mrf import LogitField, ProbabilityField
from unmask.joints.pair import PairJoint
from unmask.joints.product import Product
from unmask.tables.pair_conditionals import PairConditionals

CONSTRUCTIONS: dict[str, type[PairJoint]] = {
    "product": Product,
    "mrf-logit": LogitField,
    "mrf-prob": ProbabilityField,
    "hcb": HammersleyCliffordBesag,
    "ag": ArnoldGokhale,
    "ag-published": ArnoldGokhalePublished,
    "ag-weighted": WeightedArnoldGokhale,
    "gibbs": Gibbs,
    "l2r": LeftToRight,
    "r2l": RightToLeft,
    "mixture": Mixture,
}


NOT_OPTIONS = ("conditionals", "method")


def construct(method: str, conditionals: PairConditionals, **options: Any) -> PairJoint:
    """Make the joint of that name from conditionals; options go to the construction (`pivot`, `rounds`)."""
    if method not in CONSTRUCTIONS:
        raise UsageError(f"unknown method '{method}': expected one of {', '.join(CONSTRUCTIONS)}")
    known = [name for name in signature(CONSTRUCTIONS[method]).parameters if name not in NOT_OPTIONS]
    for name in options:
        if name not in known:
            raise UsageError(f"{method} has no option '{name}': expected {' or '.join(known) or 'none'}")
    return CONSTRUCTIONS[method](conditionals, **options)
