"""The Trainer with a task's evaluation, class weights, and an order of examples that is known in advance.

Row i of a run is a function of the seed and i alone: every epoch is a permutation of its own, in which
examples of like length lie together in batches (little padding), and the batches in random order. So a run
that was killed goes on with the very batch that was next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional
from transformers import Trainer, TrainerCallback

from unmask.tasks.encoding import IGNORED, Feature
from unmask.tasks.scores import Scores

POOL = 50
"""Batches that are sorted by length together."""


class Rows(torch.utils.data.Dataset[Feature]):
    """The features of all epochs, one after the other, in the order in which they are learned."""

    def __init__(self, features: Sequence[Feature], *, epochs: int, batch: int, seed: int) -> None:
        self.features = features
        lengths = np.array([len(feature["input_ids"]) for feature in features])
        self.order = order_of_epochs(lengths, batch, epochs, seed)

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, row: int) -> Feature:
        return self.features[int(self.order[row])]


def order_of_epochs(lengths: NDArray[np.int64], batch: int, epochs: int, seed: int) -> NDArray[np.int64]:
    """Return the indices of the examples in the order in which they are learned, each once per epoch.

    Those that fill no whole batch start the next epoch; at the end of the last they are a smaller batch.
    """
    parts: list[NDArray[np.int64]] = []
    left = np.empty(0, dtype=np.int64)
    for epoch in range(epochs):
        generator = np.random.default_rng([seed, epoch])
        order = np.concatenate([left, generator.permutation(len(lengths))])
        whole = len(order) // batch * batch
        order, left = order[:whole], order[whole:]
        pools = [order[i : i + POOL * batch] for i in range(0, whole, POOL * batch)]
        pools = [pool[np.argsort(lengths[pool], kind="stable")] for pool in pools]
        batches = [pool[i : i + batch] for pool in pools for i in range(0, len(pool), batch)]
        parts += [batches[i] for i in generator.permutation(len(batches))]
    return np.concatenate([*parts, left])


class TaskTrainer(Trainer):  # type: ignore[misc]
    """`transformers.Trainer` that scores a task, and may weigh its classes and give the head its own rate."""

    def __init__(
        self,
        *,
        weights: Tensor | None,
        score: Callable[[Any], Scores],
        head_lr: float | None = None,
        **arguments: Any,
    ) -> None:
        self.control: Any = None  # the Trainer's own, which makes it
        super().__init__(**arguments)
        self.weights, self.score, self.head_lr = weights, score, head_lr
        self.model_accepts_loss_kwargs = False

    def compute_loss(
        self, model: Any, inputs: Mapping[str, Tensor], return_outputs: bool = False, **_: Any
    ) -> Any:
        """Cross-entropy over the labelled examples or tokens."""
        inputs = dict(inputs)
        labels = inputs.pop("labels")
        output = model(**inputs)
        logits = output.logits
        weights = None if self.weights is None else self.weights.to(logits)
        loss = functional.cross_entropy(
            logits.flatten(0, -2), labels.flatten(), weight=weights, ignore_index=IGNORED
        )
        return (loss, output) if return_outputs else loss

    def create_optimizer(self, model: Any = None) -> Any:
        """The Trainer's own optimiser, its groups cut in two where the head has a rate of its own."""
        made_before = getattr(self, "optimizer", None) is not None
        whole = super().create_optimizer(model)
        if self.head_lr is None or made_before:
            return whole
        body = {
            id(weight)
            for name, weight in self.model.base_model.named_parameters()
            if "pooler" not in name  # part of the new head: a masked language model has none
        }
        groups = [
            {**group, "params": chosen, "lr": self.args.learning_rate if in_body else self.head_lr}
            for group in whole.param_groups
            for in_body in (True, False)
            if (chosen := [weight for weight in group["params"] if (id(weight) in body) == in_body])
        ]
        self.optimizer = type(whole)(groups)  # a group has every option of its own
        return self.optimizer

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Log the scores under `eval_NAME`."""
        bare = self.accelerator.unwrap_model(self.model)
        bare.eval()
        found = self.score(bare)
        metrics = {f"eval_{name}": value for name, value in found.overall.items()}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics


class Patience(TrainerCallback):  # type: ignore[misc]
    """Ends a run whose score has not risen for some evaluations; all it knows is the run's own history."""

    def __init__(self, metric: str, patience: int) -> None:
        self.metric, self.patience = metric, patience

    def on_evaluate(self, _args: Any, state: Any, control: Any, **_: Any) -> None:
        """Stop if patience is at an end."""
        if exhausted(state.log_history, self.metric, self.patience):
            control.should_training_stop = True


def exhausted(history: Sequence[Mapping[str, float]], metric: str, patience: int) -> bool:
    """Whether the last `patience` evaluations were all no better than the best before them."""
    scores = [entry[f"eval_{metric}"] for entry in history if f"eval_{metric}" in entry]
    return bool(patience) and len(scores) > patience and max(scores[-patience:]) <= max(scores[:-patience])
