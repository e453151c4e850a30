"""The training run, from top to bottom: claim the directory, prepare the data, train, evaluate, write
the result.

The loop is `transformers.Trainer` with accelerate: checkpoints, several processes and devices are its work.
Ours are the loss (logits at the predicted positions only), the optimiser, the schedule, and the evaluation
by domain.

A run's directory holds `settings.json`, the tokenizer and token files, `checkpoint-N/`, and at the end
`model/`: an ordinary Hugging Face checkpoint with its card, the loss curve and `results.json`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unmask.errors import RunError, UsageError
from unmask.models.parameters import parameters_of
from unmask.runs import checkpoints
from unmask.runs.checkpoints import average_into
from unmask.runs.claim import remove
from unmask.runs.denormals import without_denormals
from unmask.runs.run import Run
from unmask.runs.settings_record import NAME, RunKind
from unmask.training.eval import Score
from unmask.training.prepare_data import TrainingData, changed_text, initial_model, prepare_data
from unmask.training.report import write_result
from unmask.training.settings import Settings

MAY_CHANGE = (
    *("max_steps", "decay_steps", "average_checkpoints", "eval_steps", "eval_rows", "save_steps"),
    *("logging_steps", "bf16", "licence", "data_licences"),
)
"""What may differ when a run is resumed: how long, how often and how precisely, not what is learned."""
TRAINING = RunKind(
    "training run",
    may_change=frozenset(MAY_CHANGE),
    prepared=("tokenizer", "tokenizer.partial", "tokens", "full", "sentences"),
    earlier=(NAME, frozenset({"corpora", "steps"})),
)


@dataclass(frozen=True)
class Result:
    """Where the model is, and how it does on each evaluation domain."""

    model: Path
    scores: dict[str, Score]
    history: list[dict[str, float]]


def train(settings: Settings, out: Path) -> Result:
    """Train; a directory that holds the same run is resumed."""
    _check_batch(settings)
    with without_denormals(), Run.in_directory(TRAINING, out, settings.to_dict()) as run:
        return _train(settings, out, run)


def _check_batch(settings: Settings) -> None:
    from accelerate import PartialState

    processes, parts = PartialState().num_processes, settings.gradient_accumulation_steps
    if settings.batch_size % (processes * parts):
        raise UsageError(
            f"expected a batch_size that {processes} processes × {parts} parts divide, got "
            f"{settings.batch_size}: choose a multiple of {processes * parts}"
        )


def _train(settings: Settings, out: Path, run: Run) -> Result:
    from accelerate import PartialState
    from transformers import set_seed
    from transformers.utils import logging

    logging.disable_progress_bar()  # ours are lines; theirs would draw over them at every checkpoint
    state = PartialState()
    with state.main_process_first():
        if state.is_main_process:
            _check_resumable(settings, out)
            run.update_settings(settings.to_dict())
        data = prepare_data(settings, out)
        set_seed(settings.seed)
        model = initial_model(settings, data)
    if state.is_main_process:
        checkpoints.check_disk_space(out, parameters_of(model), settings.checkpoints)
    trainer = _trainer(settings, out, model, data)
    last = checkpoints.last_checkpoint(out)
    for checkpoint in checkpoints.whole_checkpoints(out)[
        -settings.average_checkpoints :
    ]:  # the last ones are averaged
        checkpoints.check_checkpoint(checkpoint)
    trainer.train(resume_from_checkpoint=last)
    if settings.average_checkpoints > 1:
        state.wait_for_everyone()  # the last checkpoint is the main process's work
        average_into(trainer.accelerator.unwrap_model(trainer.model), out, settings.average_checkpoints)
        trainer.forget_scores()
    scores = trainer.scores()
    lost = sorted(name for name, score in scores.items() if not math.isfinite(score.loss))
    if lost:
        raise RunError(
            f"the evaluation loss of {lost[0]} is no number: lower encoder_lr and head_lr or raise "
            "warmup_steps"
        )
    history = list(trainer.state.log_history)
    if state.is_main_process:
        write_result(out, settings, data, trainer.model, scores, history)
    state.wait_for_everyone()
    return Result(out / "model", scores, history)


def _check_resumable(settings: Settings, out: Path) -> None:
    """Raise for other texts, or fewer steps than were done; before the first step, forget other texts."""
    last = checkpoints.last_checkpoint(out)
    changed = changed_text(settings, out)
    if last is None:
        if changed is not None:
            for name in TRAINING.prepared:
                remove(out / name)
        return
    if changed is not None:
        raise UsageError(
            f"{changed} has changed since the run in {out} began: restore it, or give another output "
            "directory"
        )
    done = checkpoints.step_of(last)
    if done > settings.max_steps:
        raise UsageError(
            f"{out} is at step {done} already: give max_steps of {done} or more, or another directory"
        )


def _trainer(settings: Settings, out: Path, model: Any, data: TrainingData) -> Any:
    import torch
    from accelerate import PartialState
    from transformers import PrinterCallback, TrainingArguments

    from unmask.training.callbacks import ProgressLines
    from unmask.training.loop import MaskedTrainer

    processes = PartialState().num_processes
    arguments = TrainingArguments(
        output_dir=str(out),
        max_steps=settings.max_steps,
        per_device_train_batch_size=settings.batch_size // (processes * settings.gradient_accumulation_steps),
        gradient_accumulation_steps=settings.gradient_accumulation_steps,
        max_grad_norm=settings.max_grad_norm,
        bf16=settings.bf16,
        use_cpu=not torch.accelerator.is_available(),
        train_sampling_strategy="sequential",
        logging_steps=settings.logging_steps,
        logging_nan_inf_filter=False,
        eval_strategy="steps" if data.domains else "no",
        eval_steps=settings.eval_steps,
        save_steps=settings.save_steps,
        save_total_limit=settings.checkpoints,
        seed=settings.seed,
        report_to=[],
        disable_tqdm=True,
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        ddp_find_unused_parameters=False,
    )
    trainer = MaskedTrainer(settings, data, model=model, args=arguments)
    if settings.bf16 and arguments.device.type == "cpu":
        # on a CPU, the gradient of torch's fused attention in bfloat16 takes as long as a third of a step
        model.set_attn_implementation("eager")
        trainer.gathering.mask_dtype = torch.bfloat16  # or all scores would be in single precision
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(ProgressLines(settings))
    return trainer
