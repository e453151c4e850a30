"""Joint distributions over blanks: the contract, one file for each construction, and their registry.

Nothing here knows a model: a joint is made from tables of conditionals, whatever they come from.
"""

from unmask.joints.chain import Chain
from unmask.joints.edge_conditionals import EdgeConditionals, EdgeTable, PairEdge
from unmask.joints.grid import GridJoint
from unmask.joints.independent import Independent
from unmask.joints.joint import Filling, Joint
from unmask.joints.kl import estimate_kl_divergence
from unmask.joints.pair import PairJoint
from unmask.joints.registry import CONSTRUCTIONS, construct
from unmask.joints.spanning_tree import maximum_spanning_tree
from unmask.joints.table import TableJoint, TokenDistribution
from unmask.joints.tree import TreeJoint

__all__ = [
    "CONSTRUCTIONS",
    "Chain",
    "EdgeConditionals",
    "EdgeTable",
    "Filling",
    "GridJoint",
    "Independent",
    "Joint",
    "PairEdge",
    "PairJoint",
    "TableJoint",
    "TokenDistribution",
    "TreeJoint",
    "construct",
    "estimate_kl_divergence",
    "maximum_spanning_tree",
]
