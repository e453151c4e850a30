"""tree: a joint of any number of blanks, each given one other.

    q(x) = q(x_root) prod over edges q(x_child | x_parent)

Each factor sums to 1, so the product does, over all V^n fillings. What other joints of n blanks need a sum
over all fillings for is a sum over one edge after the other here (message passing, Pearl 1988): marginals,
conditionals given any of the blanks, the entropy, the likeliest fillings. All of it is exact, and costs n
tables of [rows, V] cells, with as many rows as the parents' tokens are told apart
(`unmask.joints.edge_conditionals`).

Which blanks are joined is chosen by `unmask.joints.spanning_tree` (Chow & Liu 1968).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import permutations

import torch
from torch import Tensor

from unmask.diagnostics import Diagnostics
from unmask.errors import UsageError
from unmask.joints.edge_conditionals import EdgeConditionals
from unmask.joints.fillings import Value, index_filling
from unmask.joints.joint import Block, Joint
from unmask.joints.spanning_tree import Edges, maximum_spanning_tree, topological_order
from unmask.joints.table import TokenDistribution
from unmask.tables.pair_conditionals import row_blocks
from unmask.text.cloze import Cloze
from unmask.text.support import Support


class TreeJoint(Joint):
    """The joint of blanks on a tree.

    Args:
        root_logits: of the root's tokens, or their log-probabilities, [tokens of the root].
        edges: (parent, child) -> the conditionals of the child; n - 1 of them for n blanks, directed away
            from the root, which is the one blank without a parent.
        supports: the tokens that each blank may hold.
        method: the name of the construction.
        information: the mutual information of every two blanks by which the edges were chosen, in nats,
            [blanks, blanks], if they were.
        diagnostics: how the conditionals came about.
        cloze: the text that the blanks stand in, if there is one.
    """

    def __init__(
        self,
        root_logits: Tensor,
        edges: Mapping[tuple[int, int], EdgeConditionals],
        supports: tuple[Support, ...],
        *,
        method: str = "tree",
        information: Tensor | None = None,
        diagnostics: Diagnostics | None = None,
        cloze: Cloze | None = None,
    ) -> None:
        super().__init__(supports, method=method, diagnostics=diagnostics, cloze=cloze)
        self._order = topological_order(edges, self.blanks)
        self._parent = {child: parent for parent, child in edges}
        self._edge = {child: edge for (_, child), edge in edges.items()}
        self.information = information
        self._root_log_probs = root_logits.detach().double().cpu().log_softmax(-1)
        self._check_sizes()

    def _check_sizes(self) -> None:
        size = len(self.supports[self.root])
        if self._root_log_probs.shape != (size,) or self._root_log_probs.isnan().any():
            raise UsageError(
                f"expected logits of the {size} tokens of the root, none undefined, got "
                f"{list(self._root_log_probs.shape)}"
            )
        for parent, child in self.edges:
            edge = self._edge[child]
            wanted = len(self.supports[parent]), len(self.supports[child])
            if (len(edge.group_of), edge.shape[1]) != wanted:
                raise UsageError(
                    f"expected conditionals of {wanted[0]} tokens of blank {parent} and {wanted[1]} of blank "
                    f"{child}, got {len(edge.group_of)} and {edge.shape[1]}"
                )

    @property
    def root(self) -> int:
        """The blank that has no parent."""
        return self._order[0]

    @property
    def edges(self) -> Edges:
        """The edges (parent, child), parents before their children."""
        return tuple((self._parent[child], child) for child in self._order[1:])

    def edge(self, child: int) -> EdgeConditionals:
        """Return the conditionals of a blank given its parent."""
        return self._edge[child]

    def entropy(self) -> Tensor:
        """Return the entropy in nats: of the root, and of each child given its parent."""
        total = self.marginal(self.root).entropy()
        for parent, child in self.edges:
            total = total + self._edge[child].entropy(self._log_marginals[parent])
        return total

    def factors(self, value: Value) -> list[tuple[Block, float]]:
        """Return log q of each blank of one filling given its parent, parents first."""
        indices = index_filling(value, self.supports)
        return [((blank,), float(log_q)) for blank, log_q in self._log_factors(indices)]

    def mass_outside_candidates(self) -> float | None:
        """Return the probability of fillings with a parent's token the model was not asked about."""
        if all(edge.evaluated is None for edge in self._edge.values()):
            return None
        asked: dict[int, Tensor] = {}
        for parent, child in self.edges:
            edge = self._edge[child]
            if edge.evaluated is not None:
                inside = edge.evaluated[edge.group_of].double().log()
                asked[parent] = asked.get(parent, 0.0) + inside
        beliefs = self._collect(asked, self._order)
        inside_mass = (self._root_log_probs + beliefs.get(self.root, 0.0)).logsumexp(0).exp()
        return max(0.0, 1.0 - float(inside_mass))

    def _log_factors(self, indices: list[Tensor]) -> Iterable[tuple[int, Tensor]]:
        """Go through the blanks, parents first, with log q of each given its parent, [fillings]."""
        flat = [i.reshape(-1).cpu() for i in indices]
        yield self.root, self._root_log_probs[flat[self.root]]
        for parent, child in self.edges:
            yield child, self._edge[child].log_prob(flat[parent], flat[child])

    def _log_prob(self, indices: list[Tensor]) -> Tensor:
        total = torch.zeros(indices[0].numel(), dtype=torch.float64)
        for _, log_q in self._log_factors(indices):
            total += log_q
        return total.reshape(indices[0].shape)

    def _sample(self, count: int, generator: torch.Generator | None) -> Tensor:
        weights = self._root_log_probs.exp()
        drawn = {self.root: torch.multinomial(weights, count, replacement=True, generator=generator)}
        for parent, child in self.edges:
            drawn[child] = self._edge[child].sample(drawn[parent], generator)
        return self._ids([drawn[blank] for blank in range(self.blanks)])

    @cached_property
    def _log_marginals(self) -> dict[int, Tensor]:
        """The log-probabilities of every blank, by messages from the root to the leaves."""
        found = {self.root: self._root_log_probs}
        for parent, child in self.edges:
            found[child] = self._edge[child].sum_over_parent(found[parent])
        return found

    def _marginal(self, blank: int) -> TokenDistribution:
        return TokenDistribution(self._log_marginals[blank], self.supports[blank], method=self.method)

    def _conditional(self, blank: int, given: Mapping[int, int]) -> TokenDistribution:
        """Collect what is given along the path from the blank up to the root, or to a given blank."""
        path = [blank]
        while path[-1] != self.root and path[-1] not in given:
            path.append(self._parent[path[-1]])
        known = {i: _only(token, len(self.supports[i])) for i, token in given.items()}
        messages = self._collect(known, self._below(path, given), path)
        top = path.pop()
        belief = known[top] if top in given else self._root_log_probs + messages.get(top, 0.0)
        while path:
            child = path.pop()
            belief = self._edge[child].sum_over_parent(belief) + messages.get(child, 0.0)
        total = belief.logsumexp(0)
        if not torch.isfinite(total):
            raise UsageError(
                f"the tokens that are given have probability 0 together, so blank {blank} has no "
                f"distribution: give others"
            )
        return TokenDistribution(belief - total, self.supports[blank], method=self.method)

    def _below(self, path: list[int], given: Mapping[int, int]) -> list[int]:
        """Return the path, and the blanks below it that no given blank parts from it, parents first."""
        kept = set(path)
        for parent, child in self.edges:
            if parent in kept and parent not in given:
                kept.add(child)
        return [i for i in self._order if i in kept]

    def _collect(
        self, known: Mapping[int, Tensor], blanks: Iterable[int], path: Iterable[int] = ()
    ) -> dict[int, Tensor]:
        """Return log weights of some blanks' tokens times the messages of the blanks below them.

        Args:
            known: log weights of the tokens of some blanks, [tokens].
            blanks: which send messages to their parents, parents first.
            path: which of them send none.
        """
        within, silent = set(blanks), {self.root, *path}
        found = {i: weights for i, weights in known.items() if i in within}
        for child in reversed([i for i in self._order if i in within and i not in silent]):
            if child in found:
                edge, parent = self._edge[child], self._parent[child]
                found[parent] = found.get(parent, 0.0) + edge.sum_over_child(found[child])[edge.group_of]
        return found

    @cached_property
    def _best_below(self) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
        """The log-probability of the best filling of all blanks below each blank, and with the blank itself.

        The first is by the blank's token, [tokens], the second by its parent's row, [rows].
        """
        below = {i: torch.zeros(len(s), dtype=torch.float64) for i, s in enumerate(self.supports)}
        with_it: dict[int, Tensor] = {}
        for parent, child in reversed(self.edges):
            edge = self._edge[child]
            with_it[child] = edge.best_over_child(below[child])
            below[parent] += with_it[child][edge.group_of]
        return below, with_it

    def _top(self, k: int) -> tuple[Tensor, Tensor]:
        """Fill blank by blank, parents first, and keep the k partial fillings with the best completions.

        How good its best completion is, is known from the messages. So what is dropped has k better ones.
        """
        below, with_it = self._best_below
        best = (self._root_log_probs + below[self.root]).topk(min(k, len(below[self.root])))
        scores, filled = best.values, torch.zeros(len(best.values), self.blanks, dtype=torch.long)
        filled[:, self.root] = best.indices
        for parent, child in self.edges:
            rows = self._edge[child].group_of[filled[:, parent]]
            before = torch.where(scores > -torch.inf, scores - with_it[child][rows], -torch.inf)
            scores, which, tokens = self._best_extensions(child, rows, before, below[child], k)
            filled = filled[which]
            filled[:, child] = tokens
        log_probs = self._log_prob(list(filled.T))
        order = log_probs.argsort(descending=True, stable=True)
        return self._ids(list(filled[order].T)), log_probs[order]

    def _best_extensions(
        self, child: int, rows: Tensor, before: Tensor, below: Tensor, k: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the k best ways to fill one more blank: scores, partial fillings and tokens, [k]."""
        scores = torch.empty(0, dtype=torch.float64)
        which, tokens = torch.empty(0, dtype=torch.long), torch.empty(0, dtype=torch.long)
        for part in row_blocks(len(rows), len(below)):
            distinct, row_of = torch.unique(rows[part], return_inverse=True)
            block = self._edge[child].log_rows(distinct)[row_of] + below + before[part, None]
            found = block.flatten().topk(min(k, block.numel()))
            scores = torch.cat([scores, found.values])
            which = torch.cat([which, found.indices // len(below) + part.start])
            tokens = torch.cat([tokens, found.indices % len(below)])
            kept = scores.topk(min(k, len(scores)))
            scores, which, tokens = kept.values, which[kept.indices], tokens[kept.indices]
        return scores, which, tokens


def choose_edges(
    alone: Sequence[Tensor],
    conditionals: Callable[[int, int], EdgeConditionals],
    compared: Callable[[int, int], EdgeConditionals] | None = None,
) -> tuple[dict[tuple[int, int], EdgeConditionals], Tensor]:
    """Return the edges of the tree of blanks that tell each other most, and what every two tell each other.

    The root is the blank of the lowest entropy. The mutual information of two blanks, [blanks, blanks] in
    nats, is the mean of what their conditionals say in both directions.

    Args:
        alone: log-probabilities of each blank with all masked, [tokens] each.
        conditionals: (parent, child) -> those of the child. They are asked for once for each ordered pair,
            and again for the edges that are chosen, so that no more need be held.
        compared: smaller ones to compare the pairs by, where those of the edges are large.
    """
    blanks = len(alone)
    information = torch.zeros(blanks, blanks, dtype=torch.float64)
    for parent, child in permutations(range(blanks), 2):
        of_pair = (compared or conditionals)(parent, child)
        information[parent, child] = of_pair.mutual_information(alone[parent])
    information = (information + information.T) / 2
    entropies = torch.stack([-torch.special.xlogy(m.exp(), m.exp()).sum() for m in alone])
    edges = maximum_spanning_tree(information, int(entropies.argmin()))
    return {edge: conditionals(*edge) for edge in edges}, information


def _only(token: int, tokens: int) -> Tensor:
    """Return the log weights under which a blank holds one token, [tokens]."""
    weights = torch.full((tokens,), -torch.inf, dtype=torch.float64)
    weights[token] = 0.0
    return weights
