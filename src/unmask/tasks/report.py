"""The result of a fine-tuning run: a checkpoint, its card, the curve and the scores.

The directory is written beside its place and moved there when it is whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.runs.disk import whole_directory
from unmask.tasks.examples import Examples
from unmask.tasks.scores import Scores
from unmask.tasks.settings import Settings

if TYPE_CHECKING:
    from unmask.tasks.predict import TunedModel

PIPELINES = {"classify": "text-classification", "pairs": "text-classification", "tag": "token-classification"}
TITLES = {"classify": "A text classifier", "pairs": "A classifier of text pairs", "tag": "A tagger of words"}


def write_result(
    out: Path,
    settings: Settings,
    tuned: TunedModel,
    examples: Examples,
    scores: Scores,
    history: Sequence[Mapping[str, float]],
) -> None:
    """Write `out/model`."""
    from unmask.tasks.record import RECORD

    results = {"dev": scores.record(), "history": list(history)}
    with whole_directory(out / "model") as partial:
        tuned.model.save_pretrained(partial)
        tuned.tokenizer.save_pretrained(partial)
        (partial / RECORD).write_text(json.dumps(asdict(tuned.record), indent=1), encoding="utf-8")
        (partial / "README.md").write_text(card(settings, examples, scores), encoding="utf-8")
        (partial / "results.json").write_text(json.dumps(results, indent=1), encoding="utf-8")
        draw_curve(history, settings.metric, partial / "curve.png")


def card(settings: Settings, examples: Examples, scores: Scores) -> str:
    """The model card: data, settings, results."""
    front = (
        f"---\nlicense: {settings.licence}\npipeline_tag: {PIPELINES[settings.task]}\n"
        f"library_name: transformers\n---\n\n"
    )
    start = f"`{Path(settings.model).name}`"
    if not settings.pretrained:
        start = f"the architecture of {start} with fresh weights (no pretraining)"
    scheme = f" Tags are in the scheme {examples.scheme.upper()}." if examples.scheme else ""
    kept = f"`{Path(settings.dev).name}`" if settings.dev else "held out of the training file"
    return (
        f"{front}# {TITLES[settings.task]}, fine-tuned with unmask\n\n"
        f"Fine-tuned from {start} on {len(examples.train):,} examples of `{Path(settings.train).name}`."
        f"{scheme}\n\n"
        f"## Results\n\n{scores.examples:,} examples, {kept}; the evaluation with the best "
        f"{settings.metric} was chosen on them, so expect a little less on new text.\n\n"
        f"{table(scores)}\n\n![Score and loss over the steps](curve.png)\n\n"
        f"## Labels\n\n{', '.join(f'`{label}`' for label in examples.labels)}\n\n"
        f"## Settings\n\n```json\n{json.dumps(asdict(settings), indent=1)}\n```\n"
    )


def table(scores: Scores) -> str:
    """The scores as Markdown."""
    overall = "  ·  ".join(f"{name.replace('_', ' ')} {value:.3f}" for name, value in scores.overall.items())
    lines = [overall, "", "| label | precision | recall | F1 | support |", "|---|---|---|---|---|"]
    for label, row in scores.by_label.items():
        numbers = " | ".join(f"{row[name]:.3f}" for name in ("precision", "recall", "f1"))
        lines.append(f"| {label} | {numbers} | {row['support']:,} |")
    return "\n".join(lines)


def draw_curve(history: Sequence[Mapping[str, Any]], metric: str, path: Path) -> None:
    """The training loss, and the score on the development examples, over the steps."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    losses = [(entry["step"], entry["loss"]) for entry in history if "loss" in entry]
    if losses:
        axes.plot(*zip(*losses, strict=True), color="0.7", label="training loss")
    axes.set(xlabel="step", ylabel="training loss (nats)")
    axes.set_ylim(bottom=0)
    scores = [(entry["step"], entry[f"eval_{metric}"]) for entry in history if f"eval_{metric}" in entry]
    beside = axes.twinx()
    beside.plot(*zip(*scores, strict=True), marker="o", color="C0", label=metric)
    beside.set(ylabel=f"{metric} on the development examples", ylim=(0, 1))
    axes.set_xlim(left=0)
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
