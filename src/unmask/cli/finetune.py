"""`unmask finetune`: classifiers of texts and pairs, taggers of words; and what they say of new text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmask.cli import options as o
from unmask.cli.settings_options import with_settings
from unmask.cli.terminal import Bar, print_json, print_table, say, speaks, tell
from unmask.lazy import require
from unmask.runs.kept_memory import keep_freed_memory
from unmask.tasks.settings import Settings
from unmask.text.lines import check_file

if TYPE_CHECKING:
    from unmask.tasks.predict import TunedModel
    from unmask.tasks.scores import Scores

app = typer.Typer(
    name="finetune",
    help="Fine-tune a model for a task, and put the result to work.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Train = Annotated[Path, typer.Option("--train", help="The file to learn from.")]
Dev = Annotated[
    Path | None, typer.Option("--dev", help="The file to evaluate on [default: a tenth of --train].")
]
Out = Annotated[
    Path, typer.Option("--out", "-o", help="Directory of the run; the same run in it is resumed.")
]
ModelDirectory = Annotated[Path, typer.Argument(help="The directory 'model' of a finished run.")]
OtherText = Annotated[
    str | None, typer.Option("--text", help="Column of the text [default: as in training].")
]
OtherSecond = Annotated[
    str | None, typer.Option("--second", help="Column of a pair's second text [default: as in training].")
]
OtherLong = Annotated[
    str | None,
    typer.Option("--long", help="Longer texts: truncate, split or refuse [default: as in training]."),
]


PAIRS = ("second",)
TAGS = ("word_column", "tag_column", "scheme", "to_scheme", "repair")
COLUMNS = ("text", "second", "label")
DECLARED = ("task", "train", "dev")


@app.command()
@with_settings(Settings, leave_out=(*DECLARED, *PAIRS, *TAGS))
def classify(train: Train, out: Out, dev: Dev = None, json: o.Json = False, **given: Any) -> None:
    """Learn to label texts: TSV, CSV or JSON lines with a text and a label."""
    run("classify", train, dev, out, json, given)


@app.command()
@with_settings(Settings, leave_out=(*DECLARED, *TAGS))
def pairs(train: Train, out: Out, dev: Dev = None, json: o.Json = False, **given: Any) -> None:
    """Learn to label pairs of texts: TSV, CSV or JSON lines with two texts and a label."""
    run("pairs", train, dev, out, json, given)


@app.command()
@with_settings(
    Settings,
    leave_out=(*DECLARED, *COLUMNS),
    defaults={"long": "split", "epochs": 8, "batch_size": 16},
)
def tag(train: Train, out: Out, dev: Dev = None, json: o.Json = False, **given: Any) -> None:
    """Learn to tag words: CoNLL columns or JSON lines with words and tags."""
    run("tag", train, dev, out, json, given)


def run(task: Any, train: Path, dev: Path | None, out: Path, json: bool, given: dict[str, Any]) -> None:
    """Fine-tune as a command's parameters say, and print the scores."""
    require("fine-tuning", "train", "accelerate", "matplotlib")
    from unmask.tasks.examples import gather

    settings = Settings(task=task, train=str(train), dev=str(dev) if dev else None, **given)
    examples = gather(settings)
    from unmask.tasks import finetune

    keep_freed_memory()
    result = finetune(settings, out, examples)
    if not speaks():
        return
    if json:
        print_json({"model": str(result.model), "notes": result.notes, "dev": result.scores.record()})
        return
    show(result.scores, "on the development examples")
    say(f"model: {result.model}")


@app.command()
def predict(
    model: ModelDirectory,
    texts: Annotated[Path, typer.Argument(help="A file as in training; labels are not needed.")],
    text: OtherText = None,
    second: OtherSecond = None,
    long: OtherLong = None,
    device: o.Device = "auto",
) -> None:
    """Print what a fine-tuned model says of new text, one JSON object per example."""
    tuned = open_tuned(model, texts, device=device, text=text, second=second, long=long)
    answers, notes = tuned.predict_file(texts, Bar())
    tell(notes)
    for answer in answers:
        print_json(answer)


@app.command()
def evaluate(
    model: ModelDirectory,
    examples: Annotated[Path, typer.Argument(help="A labelled file as in training.")],
    text: OtherText = None,
    second: OtherSecond = None,
    label: Annotated[
        str | None, typer.Option("--label", help="Column of the label [default: as in training].")
    ] = None,
    long: OtherLong = None,
    repair: Annotated[bool, typer.Option("--repair", help="Mend tags that break their scheme.")] = False,
    device: o.Device = "auto",
    json: o.Json = False,
) -> None:
    """Score a fine-tuned model on a labelled file."""
    tuned = open_tuned(model, examples, device=device, text=text, second=second, label=label, long=long)
    scores, notes = tuned.evaluate_file(examples, repair=repair, progress=Bar())
    if json:
        print_json({"model": str(model), "file": str(examples), "notes": notes} | scores.record())
        return
    tell(notes)
    show(scores, f"on {examples}")


def open_tuned(model: Path, file: Path, *, device: str, **changes: Any) -> TunedModel:
    """Open a fine-tuned model, after its record and the file that it is to read have been looked at."""
    from unmask.tasks.record import TaskRecord

    TaskRecord.read(model).changed(**changes)
    check_file(file)
    from unmask.tasks import TunedModel

    return TunedModel.load(model, device=device, **changes)


def show(scores: Scores, where: str) -> None:
    """Print the scores as a table."""
    rows = [
        [label, *(f"{row[name]:.3f}" for name in ("precision", "recall", "f1")), f"{row['support']:,}"]
        for label, row in scores.by_label.items()
    ]
    title = f"{scores.examples:,} examples {where}"
    print_table(title, ["", "precision", "recall", "F1", "support"], rows, numbers={1, 2, 3, 4})
    say("  ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in scores.overall.items()))
