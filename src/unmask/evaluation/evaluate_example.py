"""One example, evaluated: from two blanked tokens to a record of every construction's metrics.

`Evaluator` is what runs in each worker. Its answer depends on the example, the model and the settings alone,
and is plain data: one line of `examples.jsonl`.
"""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from typing import Any

import torch

from unmask.evaluation.sampling import Example
from unmask.evaluation.settings import Settings, parse_methods
from unmask.inference.infer import conditionals
from unmask.inference.resolve import tokens_of
from unmask.joints.metrics import incompatibility, marginals_of, measure
from unmask.joints.pair import Marginals, PairJoint
from unmask.joints.registry import construct
from unmask.models.masked_lm import MaskedLM
from unmask.runs.cost import peak_memory
from unmask.tables.pair_conditionals import PairConditionals
from unmask.text.vocabulary import ends_in_mark, word_parts

SHOWN = 5
"""How many likely tokens per side, beside the true one, the small table of a joint in the report has."""


class Evaluator:
    """Evaluates examples with a model that is loaded once."""

    def __init__(self, mlm: MaskedLM, settings: Settings) -> None:
        tokens = tokens_of(settings.query, mlm)
        self.mlm = mlm
        self.settings = settings
        self.methods = parse_methods(settings.methods)
        named = [options["pivot"] for _, _, options in self.methods if "pivot" in options]
        pivots = [int(tokens.ids[tokens.index(pivot)]) for pivot in named]
        self._query = replace(settings.query, include=pivots)
        self._goes_on, self._ends = word_parts(mlm.vocabulary)[1], ends_in_mark(mlm.vocabulary)

    def __call__(self, examples: list[Example]) -> list[dict[str, Any]]:
        """Return the records of examples."""
        return [self.evaluate_example(example) for example in examples]

    def evaluate_example(self, example: Example) -> dict[str, Any]:
        """Return the record of an example."""
        start = time.perf_counter()
        vocabulary = self.mlm.vocabulary
        table = conditionals(self.mlm, example.cloze(vocabulary), self._query)
        assert isinstance(table, PairConditionals)
        asked = time.perf_counter()
        a, b = table.a_support.index(example.truth[0]), table.b_support.index(example.truth[1])
        row, column = int(table.groups[0].group_of[a]), int(table.groups[1].group_of[b])
        metrics: dict[str, dict[str, Any]] = {}
        stuck: list[str] = []
        joints: dict[str, PairJoint] = {}
        marginals: list[Marginals] = []
        for label, name, options in self.methods:
            joint = construct(name, table, **options)
            found = marginals_of(joint)
            metrics[label] = asdict(measure(joint, (row, column), found))
            if not joint.diagnostics.converged:
                stuck.append(label)
            joints[label] = joint
            marginals.append(found)
        return asdict(example) | {
            "tokens": [vocabulary.token(t) for t in example.truth],
            "distance": example.distance,
            "inside": [self._inside(example, position) for position in example.blanks],
            "metrics": metrics,
            "incompatibility": incompatibility(table),
            "not_converged": stuck,
            "passes": table.diagnostics.passes,
            "completion_error": table.diagnostics.to_dict()["completion_error"],
            "mass_outside_support": max(table.diagnostics.mass_outside_support),
            "table": _small_table(example, joints, marginals),
            "seconds": {
                "conditionals": round(asked - start, 3),
                "all": round(time.perf_counter() - start, 3),
            },
            "peak_memory": peak_memory(),
        }

    def _inside(self, example: Example, position: int) -> bool:
        """Whether a token goes on the word before it: a mark of punctuation does not, nor a first token."""
        before = example.ids[position - 1] if position else None
        if before is None or before in self.mlm.vocabulary.special_ids or self._ends[before]:
            return False
        return bool(self._goes_on[example.ids[position]])


def _small_table(
    example: Example, joints: dict[str, PairJoint], marginals: list[Marginals]
) -> dict[str, Any]:
    """Return log q of the likeliest tokens of both blanks and the true ones, under every construction."""
    some = next(iter(joints.values()))
    shown = []
    for blank, truth in enumerate(example.truth):
        mean = torch.stack([some.groups[blank].spread(m[blank]).exp() for m in marginals]).mean(0)
        best = some.supports[blank].ids[mean.topk(min(SHOWN, len(mean))).indices.cpu()].tolist()
        shown.append([*best, truth] if truth not in best else best)
    pairs = torch.stack(torch.meshgrid(*map(torch.tensor, shown), indexing="ij"), dim=-1)
    vocabulary = some.supports[0].vocabulary
    assert vocabulary is not None
    return {
        "a": [vocabulary.token(t) for t in shown[0]],
        "b": [vocabulary.token(t) for t in shown[1]],
        "log_probs": {
            label: [[round(x, 3) for x in row] for row in joint.log_prob(pairs).tolist()]
            for label, joint in joints.items()
        },
    }
