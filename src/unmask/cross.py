"""Cross conditionals: the model asked about K tokens a side, and the rest completed.

With K tokens at B one knows K whole columns of p(a|b); with K at A, K whole rows of p(b|a): 2K + 1 forward
passes instead of 2V + 1. The unevaluated columns and rows are completed, so that the result is still a
pair of conditionals over all V tokens, and every joint made from it a distribution over all V^2 pairs.

- *plain*: p(a|b) = m(a) for an unevaluated b. The K tokens are the likeliest by m.
- *learned*: the state before the output layer is predicted from the token's input embedding, by a ridge
  regression fitted on the K evaluated tokens of this very text, and goes through the model's own output
  layer. Half of the K tokens are the likeliest, half a random sample of the others, so that the
  regression has seen the kind of token that it has to answer for. The strength of the ridge is the one
  with the smallest leave-one-out error, which costs no refitting: with hat matrix H the left-out residual
  of token i is (y_i - yhat_i) / (1 - H_ii).

How far the completion may be trusted is measured, not assumed: `evidence` holds the mean KL divergence, in
nats, of the model's true conditional from the completed one, each evaluated token left out in turn
(`completion_error`), over the random part of the sample where there is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from unmask.cloze import Cloze
from unmask.conditionals import (
    PairConditionals,
    Supports,
    both_blank,
    check_pair,
    check_tables_fit,
    decoded,
)
from unmask.errors import Misuse
from unmask.mlm import MaskedLM
from unmask.progress import Progress, silent
from unmask.vocabulary import Support

Completion = Literal["plain", "learned"]
RIDGES = tuple(10.0**power for power in range(-6, 4))


@dataclass(frozen=True)
class Evaluated:
    """The tokens of one blank that the model was asked about, as indices into the support."""

    likely: Tensor
    random: Tensor

    @property
    def indices(self) -> Tensor:
        """All of them: the likely ones, then the random ones."""
        return torch.cat([self.likely, self.random])


@torch.inference_mode()
def cross_conditionals(
    mlm: MaskedLM,
    cloze: Cloze,
    supports: Supports,
    candidates: int,
    *,
    completion: Completion = "learned",
    include: tuple[tuple[int, ...], tuple[int, ...]] = ((), ()),
    seed: int = 0,
    progress: Progress = silent,
) -> PairConditionals:
    """Ask the model about `candidates` tokens a side and complete the rest.

    Args:
        mlm: the model.
        cloze: a text with two blanks.
        supports: the tokens that A and B may hold.
        candidates: how many tokens to evaluate at each side, from 1 to the size of the support.
        completion: how to complete the others, `plain` or `learned`.
        include: token ids that must be among those evaluated at A and at B.
        seed: of the random part of the sample.
        progress: told of the forward passes.
    """
    check_pair(cloze)
    if completion not in ("plain", "learned"):
        raise Misuse(f"unknown completion '{completion}': expected plain or learned")
    most = max(len(support) for support in supports)
    if not 1 <= candidates <= most:
        raise Misuse(f"expected from 1 to {most} candidates (the tokens a blank may hold), got {candidates}")
    check_tables_fit(mlm, supports)
    alone = both_blank(mlm, cloze, supports)
    generator = torch.Generator().manual_seed(seed)
    share = candidates if completion == "plain" else (candidates + 1) // 2
    a_side, b_side = (
        _choose(alone[i], candidates, share, [supports[i].index(t) for t in include[i]], generator)
        for i in (0, 1)
    )
    # the columns of p(a|b) come from fillings of B seen at A; the rows of p(b|a) from fillings of A seen at B
    b_fillings = mlm.fillings(cloze, 1, supports[1].ids[b_side.indices])
    a_fillings = mlm.fillings(cloze, 0, supports[0].ids[a_side.indices])
    a_states = mlm.states(b_fillings, cloze.blanks[0], progress)
    b_states = mlm.states(a_fillings, cloze.blanks[1], progress)
    complete = _complete_plain if completion == "plain" else _complete_learned
    a_table, a_log_z, a_error = complete(mlm, supports[1], supports[0], b_side, a_states, alone[0])
    b_table, b_log_z, b_error = complete(mlm, supports[0], supports[1], a_side, b_states, alone[1])
    evidence = {
        "conditionals": "cross",
        "candidates": candidates,
        "completion": completion,
        "seed": seed,
        "passes": len(a_side.indices) + len(b_side.indices) + 1,
        "completion_error": {"a_given_b": a_error, "b_given_a": b_error},
        "evaluated": (a_side.indices, b_side.indices),
    }
    return PairConditionals(a_table.T.contiguous(), b_table, *alone, a_log_z, b_log_z, *supports, evidence)


def _choose(
    alone: Tensor, candidates: int, likely: int, include: list[int], generator: torch.Generator
) -> Evaluated:
    """Choose the tokens to evaluate: those asked for, the likeliest, and a random sample of the rest."""
    order = alone.argsort(descending=True, stable=True).tolist()
    chosen = list(dict.fromkeys([*include, *order]))[: max(likely, len(set(include)))]
    others = torch.tensor([i for i in order if i not in set(chosen)], dtype=torch.long)
    rest = min(max(candidates - len(chosen), 0), len(others))
    drawn = others[torch.randperm(len(others), generator=generator)[:rest]]
    return Evaluated(torch.tensor(chosen), drawn)


def _complete_plain(
    mlm: MaskedLM, filled: Support, asked: Support, side: Evaluated, states: Tensor, alone: Tensor
) -> tuple[Tensor, Tensor, float | None]:
    """Let every unevaluated token of the filled blank leave the asked one as it is with both blank.

    Returns log-probabilities [filled, asked], the normalisers of their logits [filled], and the error.
    """
    known, known_log_z = decoded(mlm, states, asked)
    table = alone.to(known.dtype).expand(len(filled), -1).clone()
    log_z = known_log_z.mean().expand(len(filled)).clone()
    chosen = side.indices.to(mlm.tables_on)
    table[chosen], log_z[chosen] = known, known_log_z
    if len(side.indices) == len(filled):
        return table, log_z, None
    return table, log_z, float(_divergence(known, alone).mean())


def _complete_learned(
    mlm: MaskedLM, filled: Support, asked: Support, side: Evaluated, states: Tensor, _alone: Tensor
) -> tuple[Tensor, Tensor, float | None]:
    """Predict the states of the unevaluated tokens from their input embeddings; returns the same."""
    states = states.to(mlm.tables_on)
    if len(side.indices) == len(filled):
        return (*decoded(mlm, states[side.indices.argsort()], asked), None)
    features = mlm.input_embeddings[filled.ids.to(mlm.device)].to(mlm.tables_on).double()
    chosen = side.indices.to(mlm.tables_on)
    predicted, left_out = ridge(features[chosen], states.double(), features)
    everyone = predicted.to(states.dtype)
    everyone[chosen] = states
    table, log_z = decoded(mlm, everyone, asked)
    if len(chosen) == 1:
        return table, log_z, None  # nothing is left to predict the only one from
    judged = slice(len(side.likely), None) if len(side.random) else slice(None)
    without, _ = decoded(mlm, left_out[judged].to(states.dtype), asked)
    return table, log_z, float(_divergence(table[chosen[judged]], without).mean())


def ridge(features: Tensor, targets: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
    """Fit targets [n, d] on features [n, e] and answer queries [m, e].

    Returns the answers [m, d] and the left-out predictions [n, d] at the ridge that makes their error the
    smallest. The penalty is relative to the mean squared singular value of the centred features.
    """
    centre, level = features.mean(0), targets.mean(0)
    x, y = features - centre, targets - level
    u, s, vt = torch.linalg.svd(x, full_matrices=False)
    uy = u.T @ y
    scale = s.square().mean().clamp_min(1e-30)
    best: tuple[float, Tensor, Tensor] | None = None
    for penalty in RIDGES:
        shrink = s.square() / (s.square() + penalty * scale)
        fitted = u @ (shrink[:, None] * uy)
        leverage = (u.square() * shrink).sum(1) + 1 / len(x)  # the mean is fitted too
        left_out = y - (y - fitted) / (1 - leverage).clamp_min(1e-6)[:, None]
        error = float((left_out - y).square().mean())
        if best is None or error < best[0]:
            weights = vt.T @ ((shrink / s.clamp_min(1e-30))[:, None] * uy)
            best = (error, weights, left_out + level)
    assert best is not None
    return (queries - centre) @ best[1] + level, best[2]


def _divergence(truth: Tensor, other: Tensor) -> Tensor:
    """KL(truth || other) of each row of log-probabilities."""
    return (truth.exp() * (truth - other)).sum(-1)
