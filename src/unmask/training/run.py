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
import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from unmask.errors import RunError, UnmaskError, UsageError
from unmask.models.parameters import parameters_of
from unmask.runs import directory as run_directory
from unmask.runs.denormals import without_denormals
from unmask.training.averaging import average_into
from unmask.training.eval import Score
from unmask.training.prepare_data import TrainingData, changed_text, initial_model, prepare_data
from unmask.training.report import write_result
from unmask.training.settings import Settings


@dataclass(frozen=True)
class Result:
    """Where the model is, and how it does on each evaluation domain."""

    model: Path
    scores: dict[str, Score]
    history: list[dict[str, float]]


def train(settings: Settings, out: Path, *, yield_cores: bool = False) -> Result:
    """Train, or go on with the run that `out` holds if its settings are the same.

    `yield_cores` leaves busy cores to other processes: the number of threads follows the free ones.
    """
    try:
        with without_denormals(), run_directory.alone(out):
            return _train(settings, out, yield_cores)
    except OSError as error:
        raise run_directory.disk_failure(error, out) from error
    except UnmaskError:
        raise
    except Exception as error:
        told = run_directory.writer_failure(error, out)
        if told is None:
            raise
        raise told from error


def _train(settings: Settings, out: Path, yield_cores: bool) -> Result:
    from accelerate import PartialState
    from transformers import set_seed
    from transformers.utils import logging

    logging.disable_progress_bar()  # ours are lines; theirs would draw over them at every checkpoint
    state = PartialState()
    parts = settings.gradient_accumulation_steps
    if settings.batch_size % (state.num_processes * parts):
        raise UsageError(
            f"expected a batch_size that {state.num_processes} processes × {parts} parts divide, got "
            f"{settings.batch_size}: choose a multiple of {state.num_processes * parts}"
        )
    with state.main_process_first():
        if state.is_main_process:
            run_directory.claim(out, settings, may_go_on=partial(_check_going_on, settings, out))
        data = prepare_data(settings, out)
        set_seed(settings.seed)
        model = initial_model(settings, data)
    if state.is_main_process:
        run_directory.refuse_full_disk(out, parameters_of(model), settings.checkpoints)
    trainer = _trainer(settings, out, model, data, yield_cores)
    last = run_directory.last_checkpoint(out)
    for checkpoint in run_directory.whole_checkpoints(out)[
        -settings.average_checkpoints :
    ]:  # the last ones are averaged
        run_directory.refuse_damaged(checkpoint)
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


def _check_going_on(settings: Settings, out: Path) -> None:
    """Refuse to go on with other texts, or to fewer steps than were done; before the first, begin anew."""
    last = run_directory.last_checkpoint(out)
    changed = changed_text(settings, out)
    if last is None:
        if changed is not None:
            run_directory.forget_preparations(out)
        return
    if changed is not None:
        raise UsageError(
            f"{changed} has changed since the run in {out} began: restore it, or give another output "
            "directory"
        )
    done = run_directory.step_of(last)
    if done > settings.max_steps:
        raise UsageError(
            f"{out} is at step {done} already: give max_steps of {done} or more, or another directory"
        )


def _trainer(settings: Settings, out: Path, model: Any, data: TrainingData, yield_cores: bool) -> Any:
    from accelerate import PartialState
    from transformers import PrinterCallback, TrainingArguments

    from unmask.training.callbacks import Progress, YieldCores
    from unmask.training.loop import MaskedTrainer

    processes = PartialState().num_processes
    arguments = TrainingArguments(
        output_dir=str(out),
        max_steps=settings.max_steps,
        per_device_train_batch_size=settings.batch_size // (processes * settings.gradient_accumulation_steps),
        gradient_accumulation_steps=settings.gradient_accumulation_steps,
        max_grad_norm=settings.max_grad_norm,
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
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(Progress(settings))
    if yield_cores:
        trainer.add_callback(YieldCores(os.cpu_count() or 1))
    return trainer
