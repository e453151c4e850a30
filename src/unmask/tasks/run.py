"""A fine-tuning run, from top to bottom: claim the directory, read the examples, train, write the result.

The loop is `transformers.Trainer`: checkpoints at every evaluation, several processes and devices are its
work. A run that was killed is resumed from its last whole checkpoint, and ends as it would have. The best
evaluation's model is written to `OUT/model`: an ordinary Hugging Face checkpoint with its card, the scores in
`results.json` and what the task was in `task.json`.
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from unmask.errors import RunError, UsageError
from unmask.models.embedded import locate
from unmask.models.parameters import DROPOUTS, parameters_of
from unmask.runs.checkpoints import check_checkpoint, check_disk_space, last_checkpoint
from unmask.runs.denormals import without_denormals
from unmask.runs.run import Run
from unmask.runs.settings_record import NAME, RunKind
from unmask.tasks.encoding import Encoded, collator
from unmask.tasks.examples import Examples, gather, label_counts
from unmask.tasks.predict import TunedModel, encoding_notes, kind_of
from unmask.tasks.record import TaskRecord
from unmask.tasks.report import write_result
from unmask.tasks.scale import even_scale
from unmask.tasks.scores import Scores
from unmask.tasks.settings import Settings

FINETUNING = RunKind(
    "run of 'unmask finetune'",
    may_change=frozenset({"eval_steps", "licence", "allow_pickle"}),
    earlier=(NAME, frozenset({"task", "train"})),
)
HEAD_DROPOUTS = ("classifier_dropout", "seq_classif_dropout", "classifier_dropout_prob")


@dataclass(frozen=True)
class Result:
    """Where the model is, how it does on the development examples, and what the user should know."""

    model: Path
    scores: Scores
    history: list[dict[str, float]]
    notes: list[str]


def finetune(settings: Settings, out: Path, examples: Examples | None = None) -> Result:
    """Fine-tune; a directory that holds the same run is resumed.

    `examples` are those of the settings' files, if they have been read already (`unmask.tasks.examples`).
    """
    from accelerate import PartialState

    processes = PartialState().num_processes
    if settings.batch_size % processes:
        raise UsageError(
            f"expected a batch_size that {processes} processes divide, got {settings.batch_size}: choose "
            "a multiple"
        )
    examples = examples or gather(settings)  # before the directory is claimed: bad files leave nothing behind
    with without_denormals(), Run.in_directory(FINETUNING, out, settings.to_dict()) as run:
        run.update_settings(settings.to_dict())
        PartialState().wait_for_everyone()
        return _finetune(settings, out, examples)


def _finetune(settings: Settings, out: Path, examples: Examples) -> Result:
    from accelerate import PartialState
    from transformers import set_seed

    from unmask.models.checkpoint import open_with_head

    set_seed(settings.seed)
    model, tokenizer, fresh_head = open_with_head(
        locate(settings.model),
        kind_of(settings.task),
        dict.fromkeys((*DROPOUTS, *HEAD_DROPOUTS), settings.dropout) | _label_settings(examples.labels),
        pretrained=settings.pretrained,
        allow_pickle=settings.allow_pickle,
    )
    check_disk_space(out, parameters_of(model))
    tuned = TunedModel(model, tokenizer, TaskRecord.of(settings, examples), device="cpu")
    encoded = {
        "train": tuned.encoder.encode(examples.train, settings.train),
        "dev": tuned.encoder.encode(examples.dev, settings.dev or settings.train),
    }
    if fresh_head:
        first = encoded["train"].features[: settings.batch_size]
        inputs = collator(settings.task, tokenizer)([dict(feature) for feature in first])
        even_scale(model, {name: values for name, values in inputs.items() if name != "labels"})
    notes = [
        *examples.notes,
        *encoding_notes(encoded["train"], settings.long, "training texts"),
        *encoding_notes(encoded["dev"], settings.long, "development texts"),
    ]
    if PartialState().is_main_process:
        for note in notes:
            print(f"note: {note}", file=sys.stderr)
    trainer = _trainer(settings, out, tuned, examples, encoded)
    history = _train(trainer, settings, out)
    tuned.model = trainer.model.to("cpu").eval()
    tuned.device = torch.device("cpu")
    scores = tuned.score(examples.dev, encoded["dev"])
    if trainer.is_world_process_zero():
        write_result(out, settings, tuned, examples, scores, history)
    PartialState().wait_for_everyone()
    return Result(out / "model", scores, history, notes)


def _label_settings(labels: list[str]) -> dict[str, Any]:
    return {
        "num_labels": len(labels),
        "id2label": dict(enumerate(labels)),
        "label2id": {label: number for number, label in enumerate(labels)},
        "problem_type": None,
    }


def _trainer(
    settings: Settings, out: Path, tuned: TunedModel, examples: Examples, encoded: dict[str, Encoded]
) -> Any:
    from accelerate import PartialState
    from transformers import PrinterCallback, TrainingArguments

    from unmask.runs.step_lines import StepLines
    from unmask.tasks.loop import Patience, Rows, TaskTrainer

    processes = PartialState().num_processes
    batch = min(settings.batch_size, max(len(encoded["train"].features) // processes, 1) * processes)
    rows = Rows(encoded["train"].features, epochs=settings.epochs, batch=batch, seed=settings.seed)
    steps = math.ceil(len(rows) / batch)
    every = settings.eval_steps or max(steps // settings.epochs, 1)
    arguments = TrainingArguments(
        output_dir=str(out),
        max_steps=steps,
        per_device_train_batch_size=batch // processes,
        learning_rate=settings.lr,
        warmup_steps=math.ceil(settings.warmup_ratio * steps),
        weight_decay=settings.weight_decay,
        lr_scheduler_type="linear",
        train_sampling_strategy="sequential",
        logging_steps=min(20, every),
        logging_nan_inf_filter=False,
        eval_strategy="steps",
        eval_steps=every,
        save_strategy="steps",
        save_steps=every,
        save_total_limit=2,
        load_best_model_at_end=True,
        metric_for_best_model=f"eval_{settings.metric}",
        greater_is_better=True,
        seed=settings.seed,
        report_to=[],
        disable_tqdm=True,
        remove_unused_columns=False,
        dataloader_pin_memory=False,
    )

    def score(model: Any) -> Scores:
        tuned.model, tuned.device = model, next(model.parameters()).device
        return tuned.score(examples.dev, encoded["dev"])

    trainer = TaskTrainer(
        model=tuned.model,
        args=arguments,
        train_dataset=rows,
        eval_dataset=encoded["dev"].features,
        data_collator=collator(settings.task, tuned.tokenizer),
        weights=class_weights(examples, tuned.labels) if settings.class_weights == "balanced" else None,
        score=score,
        head_lr=settings.head_lr,
    )
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(StepLines(steps, batch, "examples", "lower --lr"))
    if settings.patience:
        trainer.add_callback(Patience(settings.metric, settings.patience))
    return trainer


def _train(trainer: Any, settings: Settings, out: Path) -> list[dict[str, float]]:
    """Train to the end and leave the best model in the trainer; returns what was logged."""
    last = last_checkpoint(out)
    state = json.loads((Path(last) / "trainer_state.json").read_text()) if last is not None else None
    if state is None or not _finished(state, trainer.args.max_steps, settings):
        check_checkpoint(last)
        trainer.train(resume_from_checkpoint=last)
        if trainer.state.best_model_checkpoint is None:
            raise RunError(f"{out}: the run ended without an evaluation: start it anew in another directory")
        return list(trainer.state.log_history)
    # killed between its last step and its result: the best model is there, and nothing is left to train
    best = out / Path(state["best_model_checkpoint"]).name
    check_checkpoint(str(best))
    trainer.model.load_state_dict(load_file(best / "model.safetensors"))
    return list(state["log_history"])


def _finished(state: dict[str, Any], steps: int, settings: Settings) -> bool:
    from unmask.tasks.loop import exhausted

    early = exhausted(state["log_history"], settings.metric, settings.patience)
    return early or bool(state["global_step"] >= steps)


def class_weights(examples: Examples, labels: list[str]) -> torch.Tensor:
    """Return weights by which every class counts as much in all: n / (classes · n of the class)."""
    counts = label_counts(examples.train)
    seen = [label for label in labels if counts[label]]
    total = sum(counts.values())
    return torch.tensor([total / (len(seen) * counts[label]) if counts[label] else 1.0 for label in labels])
