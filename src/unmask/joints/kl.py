"""Kullback-Leibler divergence between any two joints over the same supports.

    KL(p || q) = sum over fillings x of p(x) [log p(x) - log q(x)],    in nats

`torch.distributions.kl_divergence(p, q)` finds the rule here: closed forms where both joints have one, and
the sum over all fillings elsewhere, where these are few enough. `estimate_kl_divergence` works for any two
joints.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import register_kl

from unmask.errors import UsageError
from unmask.joints.edge_conditionals import EdgeConditionals, EdgeTable
from unmask.joints.fillings import whole_number
from unmask.joints.independent import Independent
from unmask.joints.joint import Joint, check_enumerable
from unmask.joints.pair import PairJoint
from unmask.joints.tree import TreeJoint
from unmask.tables.pair_conditionals import EVERYTHING, row_blocks


def check_same_supports(p: Joint, q: Joint) -> None:
    """Raise unless two joints are over the same blanks and the same tokens."""
    same = [a.same_tokens(b) for a, b in zip(p.supports, q.supports, strict=False)]
    if p.blanks != q.blanks or not all(same):
        sizes = [" × ".join(f"{len(s):,}" for s in joint.supports) for joint in (p, q)]
        raise UsageError(
            f"expected two joints over the same blanks and the same tokens, got {sizes[0]} and {sizes[1]}: "
            f"make both from one text with one support"
        )


def estimate_kl_divergence(
    p: Joint, q: Joint, samples: int, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Return the mean of log p - log q over samples of p, and its standard error."""
    check_same_supports(p, q)
    drawn = p.sample(whole_number(samples, "a number of samples", 2), generator)
    ratio = p.log_prob(drawn).double().cpu() - q.log_prob(drawn).double().cpu()
    return ratio.mean(), ratio.std() / samples**0.5


def _expected(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Return sum p (log p - log q), where nothing is impossible's share is 0."""
    log_p, log_q = log_p.double(), log_q.double().to(log_p.device)
    return torch.where(log_p > -torch.inf, log_p.exp() * (log_p - log_q), 0.0).sum()


@register_kl(Joint, Joint)  # type: ignore[untyped-decorator]
def _by_enumeration(p: Joint, q: Joint) -> Tensor:
    check_same_supports(p, q)
    check_enumerable(
        p.supports,
        f"the divergence of a {p.method} joint from a {q.method} joint",
        "use `unmask.joints.estimate_kl_divergence`, or a smaller support",
    )
    return _expected(p._log_prob_of_all(), q._log_prob_of_all())


@register_kl(Independent, Independent)  # type: ignore[untyped-decorator]
def _of_products(p: Independent, q: Independent) -> Tensor:
    check_same_supports(p, q)
    return torch.stack([_expected(a, b) for a, b in zip(p.log_m, q.log_m, strict=True)]).sum()


@register_kl(PairJoint, PairJoint)  # type: ignore[untyped-decorator]
def _of_pairs(p: PairJoint, q: PairJoint) -> Tensor:
    """Stream over blocks of rows, so that no table of all pairs is held."""
    check_same_supports(p, q)
    total = torch.zeros((), dtype=torch.float64)
    if all(one.same(two) for one, two in zip(p.groups, q.groups, strict=True)):
        for rows in p.row_blocks():
            log_p = p.log_block(rows, EVERYTHING).double()
            weight = (log_p + p.log_counts(rows)).exp()
            total += (weight * (log_p - q.log_block(rows, EVERYTHING))).sum().cpu()
        return total
    every = torch.arange(len(p.supports[1]), device=p.conditionals.device)
    for part in row_blocks(len(p.supports[0]), len(every)):
        rows_of_tokens = torch.arange(part.start, part.stop, device=every.device)
        total += _expected(p.log_tokens(rows_of_tokens, every), q.log_tokens(rows_of_tokens, every)).cpu()
    return total


@register_kl(TreeJoint, TreeJoint)  # type: ignore[untyped-decorator]
def _of_trees(p: TreeJoint, q: TreeJoint) -> Tensor:
    """Sum over the edges, if both trees have the same ones; else over all fillings."""
    check_same_supports(p, q)
    if p.edges == q.edges:
        return _along_edges(p, q)
    summed: Tensor = _by_enumeration(p, q)
    return summed


def _along_edges(p: TreeJoint, q: TreeJoint) -> Tensor:
    """Return the divergence of the roots, and the mean ones of the children given their parents."""
    total = _expected(p.marginal(p.root).log_probs, q.marginal(q.root).log_probs)
    for parent, child in p.edges:
        total = total + _of_edges(p.edge(child), q.edge(child), p.marginal(parent).log_probs)
    return total


@register_kl(TreeJoint, Independent)  # type: ignore[untyped-decorator]
def _of_tree_from_product(p: TreeJoint, q: Independent) -> Tensor:
    check_same_supports(p, q)
    return _along_edges(p, _product_on_edges(q, p))


@register_kl(Independent, TreeJoint)  # type: ignore[untyped-decorator]
def _of_product_from_tree(p: Independent, q: TreeJoint) -> Tensor:
    check_same_supports(p, q)
    return _along_edges(_product_on_edges(p, q), q)


def _product_on_edges(product: Independent, tree: TreeJoint) -> TreeJoint:
    """Return a product as a tree in which no blank depends on its parent."""
    edges = {
        (parent, child): EdgeTable(
            product.log_m[child][None], torch.zeros(len(tree.supports[parent]), dtype=torch.long)
        )
        for parent, child in tree.edges
    }
    return TreeJoint(product.log_m[tree.root], edges, tree.supports, method=product.method)


def _of_edges(p: EdgeConditionals, q: EdgeConditionals, log_parent: Tensor) -> Tensor:
    """Return the mean divergence of the child's distributions, the parent being distributed as [parent]."""
    pairs = torch.stack([p.group_of, q.group_of], dim=1)
    pairs, which = torch.unique(pairs[log_parent > -torch.inf], dim=0, return_inverse=True)
    weights = torch.zeros(len(pairs), dtype=torch.float64)
    weights.index_add_(0, which, log_parent[log_parent > -torch.inf].exp())
    total = torch.zeros((), dtype=torch.float64)
    for part in row_blocks(len(pairs), p.shape[1]):
        log_p, log_q = p.log_rows(pairs[part, 0]), q.log_rows(pairs[part, 1])
        gained = torch.where(log_p > -torch.inf, log_p.exp() * (log_p - log_q), 0.0)
        total += weights[part] @ gained.sum(1)
    return total
