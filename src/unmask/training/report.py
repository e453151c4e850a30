"""The result of a run: an ordinary checkpoint, a model card, the loss curve and the numbers.

The directory is written beside its place and moved there when it is whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.models.embedded import locate
from unmask.runs.disk import whole_directory
from unmask.training.eval import Score
from unmask.training.init_model import PRESETS, restore_dropout
from unmask.training.settings import Settings

if TYPE_CHECKING:
    from unmask.training.prepare_data import TrainingData

History = Sequence[Mapping[str, float]]


def write_result(
    out: Path,
    settings: Settings,
    data: TrainingData,
    model: Any,
    scores: Mapping[str, Score],
    history: History,
) -> None:
    """Write `out/model`, replacing the result of an earlier, shorter attempt at the same run."""
    restore_dropout(model)
    results = {name: found.record() | {"predictions": found.predictions} for name, found in scores.items()}
    with whole_directory(out / "model") as partial:
        model.save_pretrained(partial)
        data.tokenizer.save_pretrained(partial)
        card_file = partial / "README.md"
        card_file.write_text(card(settings, data, scores), encoding="utf-8")
        for path in partial.iterdir():
            path.chmod(card_file.stat().st_mode)  # safetensors keeps its files from all others
        record = {"eval": results, "history": list(history)}
        (partial / "results.json").write_text(json.dumps(record, indent=1))
        draw_curves(history, partial / "loss.png")


def card(settings: Settings, data: TrainingData, scores: Mapping[str, Score]) -> str:
    """The model card: data, licence, settings, results."""
    front = f"---\nlicense: {settings.licence}\npipeline_tag: fill-mask\nlibrary_name: transformers\n---\n\n"
    licences = settings.data_licences
    trained = [(name, data.tokens[name], f"{share:.0%}") for name, share in data.shares.items()]
    evaluated = [(name, tokens, "none, evaluated on") for name, tokens in data.eval_tokens.items()]
    rows = "\n".join(
        f"| {name} | {tokens:,} | {share} | {licences.get(name, 'not stated')} |"
        for name, tokens, share in trained + evaluated
    )
    return (
        f"{front}# A masked language model trained with unmask\n\n"
        f"Started from `{_short_name(settings.init_from)}`; {settings.max_steps:,} steps of "
        f"{settings.batch_size} rows of {settings.max_length} tokens; "
        f"{len(data.tokenizer):,} tokens of vocabulary.\n\n"
        "## Data\n\n| corpus | tokens | share of the batches | licence |\n|---|---|---|---|\n"
        f"{rows}\n\n"
        "## Evaluation\n\n15% of the tokens masked, 80/10/10, text never trained on.\n\n"
        f"{table(scores)}\n\n"
        "![Loss over the steps](loss.png)\n\n"
        f"## Settings\n\n```json\n{json.dumps(settings.to_dict(), indent=1)}\n```\n"
    )


def _short_name(source: str) -> str:
    """A preset's or an embedded model's name; a path's last two parts, as many are called model."""
    path = Path(source)
    if source in PRESETS or locate(source) != source or not path.exists():
        return source
    return "/".join(path.resolve().parts[-2:])


def table(scores: Mapping[str, Score]) -> str:
    """The scores by domain, as Markdown."""
    if not scores:
        return "No text was kept for evaluation."
    columns = list(dict.fromkeys(name for found in scores.values() for name in found.record()))
    lines = [
        "| domain | " + " | ".join(name.replace("_", " ") for name in columns) + " | predictions |",
        "|---" * (len(columns) + 2) + "|",
    ]
    for domain, found in scores.items():
        numbers = found.record()
        cells = [f"{numbers[name]:.3f}" if name in numbers else "" for name in columns]
        lines.append(f"| {domain} | " + " | ".join(cells) + f" | {found.predictions:,} |")
    return "\n".join(lines)


def draw_curves(history: History, path: Path) -> None:
    """Training loss and evaluation losses over the steps."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    # of several objectives the one that is evaluated
    logged = [(entry["step"], entry.get("mlm_part", entry["loss"])) for entry in history if "loss" in entry]
    if logged:
        axes.plot(*zip(*logged, strict=True), color="0.7", linewidth=1, label="training batch")
    names = dict.fromkeys(
        name for entry in history for name in entry if name.startswith("eval_") and name.endswith("_loss")
    )
    for name in names:
        points = [(entry["step"], entry[name]) for entry in history if name in entry]
        axes.plot(*zip(*points, strict=True), marker=".", label=f"evaluation: {name[5:-5]}")
    axes.set(xlabel="step", ylabel="loss (nats per predicted token)")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)
