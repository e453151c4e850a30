"""Fitting a pair head to the conditionals of its model, and measuring it on held-out text.

The loss is KL(p(. | a) || softmax(W h(a) + bias)), over the whole vocabulary. AdamW with a rate that rises
for a tenth of the steps and falls to nothing; the weights with the smallest held-out loss are kept, and the
fit stops once it has not fallen for a while. At the end each distance gets a scale, fitted on one half of the
held-out targets; the error that the card gives is that of the other half.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unmask.errors import RunError
from unmask.models.masked_lm import MaskedLM
from unmask.models.pair_head import FARTHEST, HeldOut, PairHead, held_out_errors
from unmask.progress import Progress, silent
from unmask.training.pair_data import PairData

SCALES = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)
FEWEST_TO_SCALE = 16
"""Held-out targets that a distance needs for a scale of its own; with fewer, its neighbours' count too."""
EVAL_BATCH = 512


@dataclass(frozen=True)
class FitSettings:
    """How a head is fitted; the fields are those of `unmask.training.distill.DistillSettings`."""

    width: int
    epochs: float
    batch_size: int
    lr: float
    weight_decay: float
    bf16: bool
    eval_steps: int
    patience: int
    seed: int


@dataclass
class FitState:
    """Where a fit is: the step, the best held-out loss and its weights, the course."""

    step: int
    best: float
    best_weights: dict[str, Tensor]
    waited: int
    history: list[dict[str, float]]


class PairFit:
    """A fit of a head to data; `run` goes on from its checkpoint, if there is one.

    Args:
        mlm: the model, whose output layer the loss goes through.
        data, held_out: what is learned from, and what is measured on.
        settings: how.
        checkpoint: the file that keeps where the fit is.
        start: a head of the same shape to start from; its scales by distance are fitted anew.
    """

    def __init__(
        self,
        mlm: MaskedLM,
        data: PairData,
        held_out: PairData,
        settings: FitSettings,
        checkpoint: Path,
        start: PairHead | None = None,
    ) -> None:
        self._data, self._held_out, self._settings = data, held_out, settings
        self._checkpoint = checkpoint
        every = torch.arange(mlm.vocabulary.size)
        self._decode: Callable[[Tensor], Tensor] = mlm.decoder(every)
        self._embeddings = mlm.input_embeddings.detach().float().clone()
        self._device = mlm.device
        torch.manual_seed(settings.seed)
        self.head = PairHead(data.states.shape[1], self._embeddings.shape[1], settings.width)
        if start is not None:
            self.head.load_state_dict(start.state_dict())
            self.head.scale.fill_(1)
        self.head.embedding_mean.copy_(self._embeddings.mean(0))
        self.head.embedding_std.copy_(self._embeddings.std(0).clamp_min(1e-6))
        self.head.to(self._device)
        self._optimizer = torch.optim.AdamW(
            self.head.parameters(), lr=settings.lr, weight_decay=settings.weight_decay
        )
        self.steps = max(1, math.ceil(settings.epochs * len(data) / settings.batch_size))
        self._state = FitState(0, math.inf, {}, 0, [])
        self._order: dict[int, Tensor] = {}

    def run(self, progress: Progress = silent) -> list[dict[str, float]]:
        """Fit to the end, and return the course: held-out loss by step."""
        settings, state = self._settings, self._resume()
        for _ in progress.over(range(state.step, self.steps), total=self.steps - state.step, stage="steps"):
            if state.waited >= settings.patience:
                break
            loss = self._step(state.step)
            state.step += 1
            if state.step % settings.eval_steps == 0 or state.step == self.steps:
                self._evaluate(loss)
                self._save()
        self.head.load_state_dict(state.best_weights)
        return state.history

    def _batch(self, data: PairData, which: Tensor) -> tuple[tuple[Tensor, Tensor, Tensor, Tensor], Tensor]:
        there, here = (data.states[i[which]].float().to(self._device) for i in (data.there, data.here))
        distances = (data.positions[data.here[which]] - data.positions[data.there[which]]).to(self._device)
        filled = self._embeddings[data.tokens[which].to(self._device)]
        return (there, here, filled, distances), data.targets[which].float().to(self._device)

    def _log_probs(self, states: Tensor) -> Tensor:
        return self._decode(states).float().log_softmax(-1)

    def _kl(self, states: Tensor, truth: Tensor) -> Tensor:
        with torch.no_grad():
            known = self._log_probs(truth)
        return (known.exp() * (known - self._log_probs(states))).sum(-1)

    def _step(self, step: int) -> float:
        settings = self._settings
        per_epoch = max(1, len(self._data) // settings.batch_size)
        epoch, place = divmod(step, per_epoch)
        if epoch not in self._order:
            generator = torch.Generator().manual_seed(settings.seed * 1000 + epoch)
            self._order = {epoch: torch.randperm(len(self._data), generator=generator)}
        start = place * settings.batch_size
        inputs, truth = self._batch(self._data, self._order[epoch][start : start + settings.batch_size])
        for group in self._optimizer.param_groups:
            group["lr"] = settings.lr * _rate(step / self.steps)
        self.head.train()
        with torch.autocast(self._device.type, torch.bfloat16, enabled=settings.bf16):
            loss = self._kl(self.head(*inputs), truth).mean()
        self._optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.head.parameters(), 1.0)
        self._optimizer.step()
        found = float(loss.detach())
        if not math.isfinite(found):
            raise RunError(f"the loss of the pair head is no number at step {step}: lower --lr")
        return found

    def _evaluate(self, loss: float) -> None:
        state = self._state
        errors = self.errors(torch.arange(len(self._held_out)))
        found = float(errors["kl"].mean())
        state.history.append({"step": state.step, "loss": round(loss, 5), "held_out": round(found, 5)})
        if found < state.best:
            kept = {name: value.detach().clone() for name, value in self.head.state_dict().items()}
            state.best, state.best_weights, state.waited = found, kept, 0
        else:
            state.waited += 1

    @torch.inference_mode()
    def errors(self, which: Tensor) -> dict[str, Tensor]:
        """Return the errors on held-out targets, [targets] each: `kl`, `kl_without`, `shift`."""
        self.head.eval()
        found: dict[str, list[Tensor]] = {"kl": [], "kl_without": [], "shift": []}
        for part in which.split(EVAL_BATCH):
            inputs, truth = self._batch(self._held_out, part)
            said = self.head(*inputs)
            found["kl"].append(self._kl(said, truth))
            found["kl_without"].append(self._kl(inputs[1], truth))
            true = self._held_out.true[part].to(self._device)[:, None]
            off = self._log_probs(said).gather(1, true) - self._log_probs(truth).gather(1, true)
            found["shift"].append(off[:, 0].abs())
        return {name: torch.cat(values).cpu() for name, values in found.items()}

    def calibrate(self) -> tuple[HeldOut, ...]:
        """Fit the scale of each distance on half of the held-out targets; return the errors of the others."""
        every = torch.arange(len(self._held_out))
        fitted, measured = every[::2], every[1::2]
        distances = self._held_out.distances
        clamped = distances.clamp(-FARTHEST, FARTHEST)
        by_scale = []
        for scale in SCALES:
            self.head.scale.fill_(scale)
            by_scale.append(self.errors(fitted)["kl"])
        losses = torch.stack(by_scale)
        best = torch.ones(2 * FARTHEST + 1)
        for place in range(2 * FARTHEST + 1):
            for reach in range(2 * FARTHEST + 1):  # more and more neighbours, until there are enough targets
                near = (clamped[fitted] - (place - FARTHEST)).abs() <= reach
                if int(near.sum()) >= FEWEST_TO_SCALE or bool(near.all()):
                    best[place] = SCALES[int(losses[:, near].mean(1).argmin())]
                    break
        self.head.scale.copy_(best)
        found = self.errors(measured)
        return held_out_errors(distances[measured], found["kl"], found["kl_without"], found["shift"])

    def _save(self) -> None:
        state = self._state
        partial = self._checkpoint.with_name(self._checkpoint.name + ".partial")
        kept = {"head": self.head.state_dict(), "optimizer": self._optimizer.state_dict(), **vars(state)}
        torch.save(kept, partial)
        partial.replace(self._checkpoint)

    def _resume(self) -> FitState:
        if self._checkpoint.is_file():
            kept: dict[str, Any] = torch.load(self._checkpoint, weights_only=True)
            self.head.load_state_dict(kept.pop("head"))
            self._optimizer.load_state_dict(kept.pop("optimizer"))
            self._state = FitState(**kept)
        return self._state


def _rate(done: float) -> float:
    """Return the share of the learning rate when so much of the fit is done."""
    return min(1.0, done / 0.1 + 0.01) if done < 0.1 else 0.5 * (1 + math.cos(math.pi * (done - 0.1) / 0.9))
