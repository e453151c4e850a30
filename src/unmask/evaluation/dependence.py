"""How much two masked tokens depend on each other, and how well proxies tell it.

The reference is the mutual information of the model's own conditionals. In the joint m(a) p(b|a) it is

    I = sum_a m(a) KL(p(.|a) || q),   q(b) = sum_a m(a) p(b|a),

and the mean of both directions is taken. A pass for each of V tokens on both sides would be exact. Here the
likeliest tokens of A have their own pass, and of the others some are drawn, each standing for an equal share
of what is left (systematic sampling in the order of probability). Mutual information is concave in the
distribution of A, and the draws have the right distribution on average: so the estimate is, on average, no
larger than I. With m(b) in the place of q the same sum is, on average, I + KL(q || m(b)), no smaller than I.
Both are recorded, and so are the estimates by the even and by the odd draws alone, whose difference tells the
noise of the draws. A few pairs are computed exactly beside their estimates.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import torch
from torch import Tensor

from unmask.errors import UsageError
from unmask.evaluation.dependence_proxies import PROXIES
from unmask.evaluation.keyed_tasks import Record, Task, run_tasks, worker_with
from unmask.evaluation.sampling import Pairs, draw_examples
from unmask.evaluation.sentences import read_sentences
from unmask.inference.exact import exact_conditionals
from unmask.inference.pair_guess import check_has_head
from unmask.inference.parallel_decoding import Pass
from unmask.joints.registry import construct
from unmask.models.digests import weights_digest
from unmask.models.masked_lm import MaskedLM
from unmask.runs.run import Spread
from unmask.runs.settings_record import RunKind
from unmask.text.cloze import Cloze
from unmask.text.support import Support

DEPENDENCE = RunKind("measurement of dependence")


@dataclass(frozen=True)
class DependenceSettings:
    """What a measurement depends on, beside the model and the data.

    Attributes:
        examples: pairs per data set.
        furthest: the largest distance between the two tokens.
        tokens: the likeliest tokens of a blank that have their own pass.
        draws: the passes for the others.
        exact: pairs per data set that are computed exactly, too.
        seed: of the pairs.
    """

    examples: int = 500
    furthest: int = 16
    tokens: int = 64
    draws: int = 64
    exact: int = 8
    seed: int = 0

    def check(self) -> None:
        """Refuse what can't be."""
        for name, least in (("examples", 1), ("furthest", 1), ("tokens", 1), ("draws", 1), ("exact", 0)):
            if getattr(self, name) < least:
                raise UsageError(f"expected {name} of at least {least}, got {getattr(self, name)}")


class Information(NamedTuple):
    """What passes for some tokens tell of a pair; all are means of both directions, in nats.

    Attributes:
        estimate: of the mutual information, on average no larger than it.
        upper: another one, on average no smaller.
        left: the probability of the tokens that draws stand for.
        halves: the estimates by the even and by the odd draws alone.
    """

    estimate: float
    upper: float
    left: float
    halves: tuple[float, float]


@torch.inference_mode()
def estimate_information(seen: Pass, tokens: int, draws: int, rng: random.Random) -> Information:
    """Return the estimates of the mutual information of two blanks."""
    found = torch.zeros(5, dtype=torch.float64)
    for filled, asked in ((0, 1), (1, 0)):
        support, weights = seen.supports[filled], seen.log_probs[filled].exp()
        which, share = choose_tokens(weights, tokens, draws, rng.random())
        states = seen.mlm.filled_states(seen.cloze, filled, support.ids[which], seen.cloze.blanks[asked])
        log_rows = seen.mlm.log_probs(states, seen.supports[asked].ids).cpu()
        rows = log_rows.exp()
        negentropy = (rows * log_rows).sum(1)
        drawn = len(which) < len(support)  # otherwise all tokens have their pass
        shares = torch.stack([share, *halves(share, tokens)]) if drawn else share.expand(3, -1)
        mixed = shares @ rows
        estimates = shares @ negentropy - torch.special.xlogy(mixed, mixed).sum(1)
        upper = share @ (negentropy - rows @ seen.log_probs[asked])
        found += torch.stack([*estimates.clamp_min(0.0), upper, share[tokens:].sum() * drawn]) / 2
    estimate, even, odd, upper_estimate, left = found.tolist()
    return Information(estimate, upper_estimate, left, (even, odd))


def halves(share: Tensor, tokens: int) -> list[Tensor]:
    """Return what each token stands for if only every other draw were there, [tokens + draws] each."""
    found = []
    for odd in range(2):
        half = share.clone()
        half[tokens:][1 - odd :: 2] = 0.0
        drawn = half[tokens:].sum()
        half[tokens:] *= share[tokens:].sum() / drawn if drawn > 0 else 0.0
        found.append(half / half.sum())
    return found


def choose_tokens(weights: Tensor, tokens: int, draws: int, start: float) -> tuple[Tensor, Tensor]:
    """Return the likeliest tokens and draws of the others, and what each stands for, [tokens + draws] each.

    Args:
        weights: the probability of every token, [tokens].
        tokens: how many of the likeliest stand for themselves.
        draws: how many are drawn of the others, by systematic sampling in the order of probability.
        start: where the first draw falls within its share, from 0 to 1.
    """
    order = weights.argsort(descending=True, stable=True)
    likely, others = order[:tokens], order[tokens:]
    if len(others) <= draws:
        return order, weights[order] / weights.sum()
    sums = weights[others].cumsum(0)
    left = sums[-1]
    marks = (torch.arange(draws, dtype=weights.dtype) + start) * left / draws
    drawn = others[torch.searchsorted(sums, marks).clamp_max(len(others) - 1)]
    share = torch.cat([weights[likely], (left / draws).expand(draws)])
    return torch.cat([likely, drawn]), share / share.sum()


def exact_information(mlm: MaskedLM, cloze: Cloze, support: Support) -> float:
    """Return the mutual information by a pass for every token on both sides: mean of both directions."""
    table = exact_conditionals(mlm, cloze, (support, support))
    return sum(float(construct(name, table).mutual_information()) for name in ("l2r", "r2l")) / 2


class Measurer:
    """Measures pairs with a model: the mutual information, and every proxy of it."""

    def __init__(self, mlm: MaskedLM, settings: DependenceSettings) -> None:
        self.mlm, self.settings = mlm, settings
        self._support = Support.words(mlm.vocabulary)

    def __call__(self, tasks: list[Task]) -> list[Record]:
        """Return the record of each pair."""
        return [{**task, **self._measured(task)} for task in tasks]

    def _measured(self, task: Task) -> dict[str, Any]:
        cloze = Cloze.of_ids(task["ids"], task["blanks"], self.mlm.vocabulary)
        if task["exact"]:
            return {"information": exact_information(self.mlm, cloze, self._support)}
        seen = Pass(self.mlm, cloze, (self._support, self._support))
        rng = random.Random(task["key"])
        found = estimate_information(seen, self.settings.tokens, self.settings.draws, rng)
        return {
            "information": found.estimate,
            "upper": found.upper,
            "left": found.left,
            "halves": list(found.halves),
            "proxies": {name: proxy.of(seen) for name, proxy in PROXIES.items()},
        }


def measure_dependence(
    mlm: MaskedLM,
    data: Sequence[str],
    settings: DependenceSettings,
    *,
    out: Path | None = None,
    **spread: Unpack[Spread],
) -> list[Record]:
    """Measure pairs of tokens of data such as `snli=FILE`; with `out`, a killed run is resumed.

    Args:
        mlm: a model with a pair head.
        data: data sets as `evaluate` reads them.
        settings: what to measure.
        out: the file of records.
        spread: `ray`, `workers` and `progress`, as for `unmask.runs.run.Run.work`.
    """
    settings.check()
    check_has_head(mlm, wanted_by="measuring dependence")
    tasks: list[Task] = []
    for named in data:
        name = named.partition("=")[0]
        drawn, _ = draw_examples(
            read_sentences(named).texts,
            mlm.vocabulary,
            mlm.window,
            pairs=Pairs(1, settings.furthest),
            examples=settings.examples,
            seed=settings.seed,
        )
        for exact in (False, True):
            tasks += [
                {
                    "key": f"{name}:{example.key}" + ":exact" * exact,
                    "data": name,
                    "exact": exact,
                    "distance": example.distance,
                    "ids": list(example.ids),
                    "blanks": list(example.blanks),
                }
                for example in (drawn[: settings.exact] if exact else drawn)
            ]
    return run_tasks(
        DEPENDENCE,
        tasks,
        worker_with(Measurer, mlm, settings, spread.get("ray")),
        {"model": mlm.name, "weights": weights_digest(mlm.name), **asdict(settings)},
        batch=1,
        out=out,
        stage="pairs",
        **spread,
    )
