"""The Trainer with our loss: MLM at the predicted positions, next-sentence prediction, the compatibility
penalty.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from transformers import Trainer

from unmask.training import compatibility
from unmask.training.batches import collate
from unmask.training.forward import Gathering, predicted, token_logits
from unmask.training.held_out import Score, score
from unmask.training.materials import Materials
from unmask.training.optimizer import build_optimizer
from unmask.training.settings import Settings


class MaskedTrainer(Trainer):  # type: ignore[misc]
    """`transformers.Trainer` for masked language models."""

    def __init__(self, settings: Settings, materials: Materials, **arguments: Any) -> None:
        self.optimizer: Any = None
        self.lr_scheduler: Any = None
        # the held-out rows go through `evaluate` below; the Trainer only asks that they exist
        held = materials.domains or None
        super().__init__(train_dataset=materials.rows, eval_dataset=held, data_collator=collate, **arguments)
        self.settings, self.materials = settings, materials
        self.gathering = Gathering(self.model)
        self.special = torch.from_numpy(materials.vocabulary.special)
        self._scored: tuple[int, dict[str, Score]] | None = None
        # the loss is divided by the predictions of the whole step, over all parts and processes
        self.model_accepts_loss_kwargs = self.loss_is_scaled_for_ga = True

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """Two rates; see `optimizer.py`."""
        if self.optimizer is None:
            self.optimizer = build_optimizer(model or self.model, self.settings)
        optimizer: torch.optim.Optimizer = self.optimizer
        return optimizer

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:  # noqa: ARG002
        """Warm up, stay, decay; see `schedule.py`."""
        if self.lr_scheduler is None:
            self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(
                optimizer or self.optimizer, self.settings.schedule.factor
            )
        return self.lr_scheduler

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Tensor],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """The sum of the objectives, scaled so that the processes' mean is the mean over the global batch."""
        rows, columns, true = predicted(inputs["labels"])
        with self.gathering.at(rows, columns):
            output = model(**self.gathering.inputs(inputs))
        logits = token_logits(output)
        count = len(true) if num_items_in_batch is None else num_items_in_batch
        processes = self.accelerator.num_processes
        loss = functional.cross_entropy(logits, true, reduction="sum") / max(int(count), 1) * processes
        if "next_sentence_label" in inputs:
            follows = functional.cross_entropy(
                output.seq_relationship_logits, inputs["next_sentence_label"], reduction="sum"
            )
            loss = loss + follows / self.settings.batch * processes
        if self.settings.compatibility > 0:
            loss = loss + self._penalty(inputs) * self.settings.compatibility / self.settings.accumulate
        return (loss, output) if return_outputs else loss

    def _penalty(self, inputs: dict[str, Tensor]) -> Tensor:
        rule = self.settings.penalty
        ids = inputs["input_ids"]
        # the ids too, so that the parts of a step differ in their draws
        key = [self.settings.seed, 2, self.state.global_step, self.accelerator.process_index, int(ids.sum())]
        generator = np.random.default_rng(key)
        pairs = compatibility.draw_pairs(inputs, self.special, rule, generator)
        if pairs is None:
            return ids.new_zeros((), dtype=torch.float32)
        seed = int(generator.integers(1 << 31))
        # the bare model: a second pass through a distributed wrapper would reset its bookkeeping
        bare = self.accelerator.unwrap_model(self.model)
        return compatibility.penalty(
            bare,
            self.gathering,
            pairs,
            mask=self.materials.vocabulary.mask,
            special=self.special,
            huber=rule.huber,
            seed=seed,
        )

    def scores(self) -> dict[str, Score]:
        """The held-out scores by domain at this step; every process takes its part of the batches."""
        if self._scored is None or self._scored[0] != self.state.global_step:
            self._scored = (self.state.global_step, self._scores())
        return self._scored[1]

    def forget_scores(self) -> None:
        """The weights were changed from outside, so the step's scores are no longer theirs."""
        self._scored = None

    def _scores(self) -> dict[str, Score]:
        part = slice(self.accelerator.process_index, None, self.accelerator.num_processes)
        bare = self.accelerator.unwrap_model(self.model)
        return score(bare, self.gathering, self.materials.domains, self._total, part)

    def _total(self, sums: Tensor) -> Tensor:
        return self.accelerator.reduce(sums, reduction="sum")  # type: ignore[no-any-return]

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Log the scores under `eval_DOMAIN_NUMBER`; once a step, though the last step asks twice."""
        known = self._scored is not None and self._scored[0] == self.state.global_step
        metrics = {
            f"eval_{domain}_{name}": value
            for domain, found in self.scores().items()
            for name, value in found.record().items()
        }
        if not known:
            self.log(metrics)
        return metrics
