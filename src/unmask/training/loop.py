"""The Trainer with our loss: MLM at predicted positions, next-sentence prediction, compatibility penalty."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from transformers import Trainer

from unmask.training import compatibility
from unmask.training.batches import collate
from unmask.training.eval import Score, score
from unmask.training.forward import Gathering, predicted, token_logits
from unmask.training.prepare_data import TrainingData
from unmask.training.settings import Settings


class MaskedTrainer(Trainer):  # type: ignore[misc]
    """`transformers.Trainer` for masked language models."""

    def __init__(self, settings: Settings, data: TrainingData, **arguments: Any) -> None:
        self.optimizer: Any = None
        self.lr_scheduler: Any = None
        # the evaluation rows go through `evaluate` below; the Trainer only asks that they exist
        eval_rows = data.domains or None
        super().__init__(train_dataset=data.rows, eval_dataset=eval_rows, data_collator=collate, **arguments)
        self.settings, self.data = settings, data
        self.gathering = Gathering(self.model)
        self.special = torch.from_numpy(data.vocabulary.special)
        self._scored: tuple[int, dict[str, Score]] | None = None
        self._parts: dict[str, Tensor] = {}  # sums of the objectives since the last log
        self._parts_from = 0  # and the step of that
        # the loss is divided by the predictions of the whole step, over all parts and processes
        self.model_accepts_loss_kwargs = self.loss_is_scaled_for_ga = True

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """Two rates; see `build_optimizer`."""
        if self.optimizer is None:
            self.optimizer = build_optimizer(model or self.model, self.settings)
        optimizer: torch.optim.Optimizer = self.optimizer
        return optimizer

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:  # noqa: ARG002
        """Warm up, stay, decay; see `Schedule`."""
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
        logits = token_logits(output).float()
        count = len(true) if num_items_in_batch is None else num_items_in_batch
        processes = self.accelerator.num_processes
        parts = {
            "mlm": functional.cross_entropy(logits, true, reduction="sum") / max(int(count), 1) * processes
        }
        if "next_sentence_label" in inputs:
            follows = functional.cross_entropy(
                output.seq_relationship_logits, inputs["next_sentence_label"], reduction="sum"
            )
            parts["next_sentence"] = follows / self.settings.batch_size * processes
        loss = sum(parts.values(), start=torch.zeros((), device=logits.device))
        if self.settings.compatibility > 0:
            parts["incompatibility"] = self._penalty(inputs) / self.settings.gradient_accumulation_steps
            loss = loss + self.settings.compatibility * parts["incompatibility"]
        if not self._parts:
            self._parts_from = self.state.global_step
        for name, part in parts.items() if len(parts) > 1 else ():
            self._parts[name] = self._parts.get(name, 0) + part.detach()
        return (loss, output) if return_outputs else loss

    def log(self, logs: dict[str, float], *arguments: Any, **named: Any) -> None:
        """Tell each of several objectives beside their sum: the mean over the steps since the last log."""
        if "loss" in logs:
            steps = max(1, self.state.global_step - self._parts_from)
            for name, total in self._parts.items():
                logs[f"{name}_part"] = float(self.accelerator.gather(total[None]).mean()) / steps
            self._parts = {}
        super().log(logs, *arguments, **named)

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        """Say nothing of weights that are tied to others: a checkpoint holds them once."""
        named = dict(self.model.named_parameters(remove_duplicate=False))
        missing = set(load_result.missing_keys)
        there = {id(weight) for name, weight in named.items() if name not in missing}
        lost = [name for name in missing if name not in named or id(named[name]) not in there]
        if lost or load_result.unexpected_keys:
            super()._issue_warnings_after_load(load_result)

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
            mask=self.data.vocabulary.mask,
            special=self.special,
            huber=rule.huber,
            seed=seed,
            fillings=rule.fillings,
        )

    def scores(self) -> dict[str, Score]:
        """The evaluation scores by domain at this step; every process takes its part of the batches."""
        if self._scored is None or self._scored[0] != self.state.global_step:
            self._scored = (self.state.global_step, self._scores())
        return self._scored[1]

    def forget_scores(self) -> None:
        """The weights were changed from outside, so the step's scores are no longer theirs."""
        self._scored = None

    def _scores(self) -> dict[str, Score]:
        part = slice(self.accelerator.process_index, None, self.accelerator.num_processes)
        bare = self.accelerator.unwrap_model(self.model)
        return score(bare, self.gathering, self.data.domains, self._total, part)

    def _total(self, sums: Tensor) -> Tensor:
        return self.accelerator.reduce(sums, reduction="sum")  # type: ignore[no-any-return]

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Log the scores under `eval_DOMAIN_NUMBER`; once per step, though the last step asks twice."""
        known = self._scored is not None and self._scored[0] == self.state.global_step
        metrics = {
            f"eval_{domain}_{name}": value
            for domain, found in self.scores().items()
            for name, value in found.record().items()
        }
        if not known:
            self.log(metrics)
        return metrics


BETAS = (0.9, 0.98)


def build_optimizer(model: Any, settings: Settings) -> torch.optim.Optimizer:
    """Return AdamW with two learning rates, and weight decay on matrices only.

    The encoder of a pretrained model knows much already and takes the smaller rate; embeddings and head take
    the larger one.
    """
    groups = []
    for in_encoder, lr in ((True, settings.encoder_lr), (False, settings.head_lr)):
        for decayed in (True, False):
            chosen = [
                weight
                for name, weight in model.named_parameters()
                if weight.requires_grad and _in_encoder(name) == in_encoder and (weight.dim() > 1) == decayed
            ]
            if chosen:
                weight_decay = settings.weight_decay if decayed else 0.0
                groups.append({"params": chosen, "lr": lr, "weight_decay": weight_decay})
    return torch.optim.AdamW(groups, betas=BETAS, eps=1e-6, fused=True)


def _in_encoder(name: str) -> bool:
    return ".encoder." in name or ".transformer." in name or ".layers." in name
