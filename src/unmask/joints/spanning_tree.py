"""The tree of blanks that tell each other most: a maximum spanning tree of their mutual informations.

Of all trees, the one with the largest sum of mutual informations over its edges gives the product
q(root) prod q(child | parent) that is closest to a joint in KL divergence, if these are the joint's own
(Chow & Liu 1968). scipy finds it; the order of the pairs is all that it depends on.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from unmask.errors import UsageError
from unmask.joints.fillings import whole_number

Edges = tuple[tuple[int, int], ...]
"""Pairs (parent, child) of blanks, parents before their children."""
MOST_BLANKS = 2048
"""The most blanks that a tree is sought for: it is chosen from the table of all their pairs."""


def maximum_spanning_tree(mutual_information: Tensor, root: int = 0) -> Edges:
    """Return the edges of the maximum spanning tree, directed away from a root.

    Of equal values (all of them 0, if the blanks are independent) those of nearer blanks come first, then
    those of earlier ones. The root does not change which blanks are joined. Any will do for conditionals of
    one joint; a model's are not of one joint, and only a few tokens of a parent have rows of their own, so
    the blank that is most certain, of the lowest entropy, makes a good one.

    Args:
        mutual_information: in nats, [blanks, blanks]; the mean of both directions counts, the diagonal does
            not.
        root: the blank that has no parent.
    """
    import numpy as np
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

    blanks = check_blanks(mutual_information)
    if whole_number(root, "the number of a blank", 0) >= blanks:
        raise UsageError(f"there is no blank {root}: they are numbered from 0 to {blanks - 1}")
    values = mutual_information.detach().double().cpu().numpy()
    values = (values + values.T) / 2
    first, second = np.triu_indices(blanks, 1)
    ranked = np.lexsort((first, second - first, -values[first, second]))
    ranks = np.empty(len(ranked))
    ranks[ranked] = np.arange(1, len(ranked) + 1)  # no weight is 0, which would mean no edge; none is equal
    tree = minimum_spanning_tree(csr_matrix((ranks, (first, second)), shape=(blanks, blanks)))
    _, parents = breadth_first_order(tree, root, directed=False)
    order = topological_order(((int(parents[c]), c) for c in range(blanks) if c != root), blanks)
    return tuple((int(parents[child]), child) for child in order[1:])


def check_blanks(mutual_information: Tensor) -> int:
    """Return the number of blanks of a table of mutual informations, or say what is wrong with it."""
    shape = list(mutual_information.shape)
    if len(shape) != 2 or shape[0] != shape[1] or not shape[0]:
        raise UsageError(f"expected mutual informations [blanks, blanks], got {shape}")
    if shape[0] > MOST_BLANKS:
        raise UsageError(
            f"a tree is chosen from all pairs of at most {MOST_BLANKS:,} blanks, got {shape[0]:,}: use the "
            f"method chain, or cut the text"
        )
    off_diagonal = ~torch.eye(shape[0], dtype=torch.bool, device=mutual_information.device)
    if not torch.isfinite(mutual_information[off_diagonal]).all():
        raise UsageError("expected finite mutual informations, got infinite or undefined ones")
    return shape[0]


def topological_order(edges: Iterable[tuple[int, int]], blanks: int) -> list[int]:
    """Return the blanks of a tree with parents before their children, or say what makes it none."""
    children: dict[int, list[int]] = {blank: [] for blank in range(blanks)}
    roots = set(children)
    count = 0
    for parent, child in edges:
        if parent not in children or child not in roots or parent == child:
            raise UsageError(
                f"edge ({parent}, {child}) fits no tree of {blanks} blanks: expected pairs (parent, child), "
                f"numbers from 0 to {blanks - 1}, each blank but the root once as a child"
            )
        children[parent].append(child)
        roots.remove(child)
        count += 1
    order = sorted(roots) if len(roots) == 1 else []
    for blank in order:  # grows as it is gone through
        order.extend(sorted(children[blank]))
    if len(order) != blanks:
        raise UsageError(
            f"a tree of {blanks} blanks has one root, from which {blanks - 1} edges lead to all others, got "
            f"{len(roots)} without a parent and {count} edges"
        )
    return order
