"""The constructions: ways to make one joint distribution out of a pair of conditionals.

One file each, one contract (`PairJoint`), one registry. A construction is a class whose `__init__` takes the
conditionals and its options, solves what has to be solved, and whose `log_block` is the formula of a cell.
"""

from __future__ import annotations

from typing import Any

from unmask.joints.arnold_gokhale import ArnoldGokhale
from unmask.joints.arnold_gokhale_published import ArnoldGokhalePublished
from unmask.joints.arnold_gokhale_weighted import WeightedArnoldGokhale
from unmask.joints.chain_orders import LeftToRight, Mixture, Product, RightToLeft
from unmask.joints.gibbs import Gibbs
from unmask.joints.hcb import HammersleyCliffordBesag
from unmask.joints.mrf import LogitField, ProbabilityField
from unmask.joints.options import check_options
from unmask.joints.pair import PairJoint
from unmask.tables.pair_conditionals import PairConditionals
from unmask.values import check_method

CONSTRUCTIONS: dict[str, type[PairJoint]] = {
    kind.method: kind
    for kind in (
        Product,
        LogitField,
        ProbabilityField,
        HammersleyCliffordBesag,
        ArnoldGokhale,
        ArnoldGokhalePublished,
        WeightedArnoldGokhale,
        Gibbs,
        LeftToRight,
        RightToLeft,
        Mixture,
    )
}


def construct(method: str, conditionals: PairConditionals, **options: Any) -> PairJoint:
    """Make the joint of that name from conditionals; options go to the construction (`pivot`, `rounds`)."""
    check_method(method, CONSTRUCTIONS)
    kind = CONSTRUCTIONS[method]
    return kind(conditionals, **check_options(method, kind, options))
