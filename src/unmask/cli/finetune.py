"""`unmask finetune`: classifiers of texts and pairs, taggers of words; and what they say of new text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmask.cli import options as o
from unmask.cli.terminal import Bar, print_json, print_table, say, speaks, tell
from unmask.lazy import require

if TYPE_CHECKING:
    from unmask.tasks.scores import Scores

app = typer.Typer(
    name="finetune",
    help="Fine-tune a model for a task, and put the result to work.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Train = Annotated[Path, typer.Option("--train", help="The file to learn from.")]
Out = Annotated[
    Path, typer.Option("--out", "-o", help="Directory of the run; one that holds the same run is resumed.")
]
Dev = Annotated[
    Path | None, typer.Option("--dev", help="The file to evaluate on [default: a tenth of --train].")
]
Pretrained = Annotated[
    bool, typer.Option("--pretrained/--fresh", help="With the model's weights, or its architecture alone.")
]
TextColumn = Annotated[str | None, typer.Option("--text", help="Column of the text [default: by its name].")]
LabelColumn = Annotated[str, typer.Option("--label", help="Column of the label.")]
MaxLength = Annotated[int, typer.Option("--max-length", help="Tokens of an example, special ones included.")]
Long = Annotated[str, typer.Option("--long", help="Longer texts: truncate, split or refuse.")]
Epochs = Annotated[int, typer.Option("--epochs", help="Times that every example is learned from.")]
Batch = Annotated[int, typer.Option("--batch", help="Examples of a step.")]
Rate = Annotated[
    float, typer.Option("--rate", help="Peak learning rate; for models of BERT's size 2e-5 to 5e-5.")
]
HeadRate = Annotated[
    float | None, typer.Option("--head-rate", help="Peak learning rate of the new head [default: --rate].")
]
Dropout = Annotated[float, typer.Option("--dropout", help="Share of the activations that are dropped.")]
ClassWeights = Annotated[
    str, typer.Option("--class-weights", help="none, or balanced: rare classes weigh more.")
]
Patience = Annotated[
    int, typer.Option("--patience", help="Evaluations without a better score that end the run; 0: none do.")
]
EvaluateEvery = Annotated[
    int, typer.Option("--evaluate-every", help="Steps between evaluations; 0: once an epoch.")
]
Licence = Annotated[str, typer.Option("--licence", help="Of the result, for its card.")]
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


@app.command()
def classify(
    train: Train,
    out: Out,
    dev: Dev = None,
    model: o.Model = "english",
    pretrained: Pretrained = True,
    text: TextColumn = None,
    label: LabelColumn = "label",
    max_length: MaxLength = 128,
    long: Long = "truncate",
    epochs: Epochs = 4,
    batch: Batch = 32,
    rate: Rate = 3e-4,
    head_rate: HeadRate = None,
    dropout: Dropout = 0.1,
    class_weights: ClassWeights = "none",
    patience: Patience = 0,
    evaluate_every: EvaluateEvery = 0,
    seed: o.Seed = 0,
    licence: Licence = "other",
    allow_pickle: o.AllowPickle = False,
    json: o.Json = False,
) -> None:
    """Learn to label texts: TSV, CSV or JSON lines with a text and a label."""
    run("classify", **locals())


@app.command()
def pairs(
    train: Train,
    out: Out,
    dev: Dev = None,
    model: o.Model = "english",
    pretrained: Pretrained = True,
    text: TextColumn = None,
    second: Annotated[str | None, typer.Option("--second", help="Column of the second text.")] = None,
    label: LabelColumn = "label",
    max_length: MaxLength = 128,
    long: Annotated[str, typer.Option("--long", help="Longer pairs: truncate or refuse.")] = "truncate",
    epochs: Epochs = 4,
    batch: Batch = 32,
    rate: Rate = 3e-4,
    head_rate: HeadRate = None,
    dropout: Dropout = 0.1,
    class_weights: ClassWeights = "none",
    patience: Patience = 0,
    evaluate_every: EvaluateEvery = 0,
    seed: o.Seed = 0,
    licence: Licence = "other",
    allow_pickle: o.AllowPickle = False,
    json: o.Json = False,
) -> None:
    """Learn to label pairs of texts: TSV, CSV or JSON lines with two texts and a label."""
    run("pairs", **locals())


@app.command()
def tag(
    train: Train,
    out: Out,
    dev: Dev = None,
    model: o.Model = "english",
    pretrained: Pretrained = True,
    scheme: Annotated[
        str, typer.Option("--scheme", help="Of the tags: auto, io, bio, bioes, or none (parts of speech).")
    ] = "auto",
    to_scheme: Annotated[
        str | None, typer.Option("--to-scheme", help="Convert the tags to io, bio or bioes first.")
    ] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Mend tags that break their scheme.")] = False,
    word_column: Annotated[int, typer.Option("--word-column", help="Of CoNLL files, from 0.")] = 0,
    tag_column: Annotated[int, typer.Option("--tag-column", help="Of CoNLL files; -1 is the last.")] = -1,
    max_length: MaxLength = 128,
    long: Long = "split",
    epochs: Epochs = 8,
    batch: Batch = 16,
    rate: Rate = 3e-4,
    head_rate: HeadRate = None,
    dropout: Dropout = 0.1,
    class_weights: ClassWeights = "none",
    patience: Patience = 0,
    evaluate_every: EvaluateEvery = 0,
    seed: o.Seed = 0,
    licence: Licence = "other",
    allow_pickle: o.AllowPickle = False,
    json: o.Json = False,
) -> None:
    """Learn to tag words: CoNLL columns or JSON lines with words and tags."""
    run("tag", **locals())


def run(task: Any, *, out: Path, json: bool, train: Path, dev: Path | None, **settings: Any) -> None:
    """Fine-tune as a command's parameters say, and print the scores."""
    require("fine-tuning", "train", "accelerate", "matplotlib")
    from unmask.tasks import Settings, finetune

    files = {"train": str(train), "dev": str(dev) if dev else None}
    result = finetune(Settings(task=task, **files, **settings), out)  # type: ignore[arg-type]
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
    """Print what a fine-tuned model says of new text, one JSON object an example."""
    from unmask.tasks import TunedModel

    tuned = TunedModel.load(model, device=device, text=text, second=second, long=long)
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
    from unmask.tasks import TunedModel

    tuned = TunedModel.load(model, device=device, text=text, second=second, label=label, long=long)
    scores, notes = tuned.evaluate_file(examples, repair=repair, progress=Bar())
    if json:
        print_json({"model": str(model), "file": str(examples), "notes": notes} | scores.record())
        return
    tell(notes)
    show(scores, f"on {examples}")


def show(scores: Scores, where: str) -> None:
    """Print the scores as a table."""
    rows = [
        [label, *(f"{row[name]:.3f}" for name in ("precision", "recall", "f1")), f"{row['support']:,}"]
        for label, row in scores.by_label.items()
    ]
    title = f"{scores.examples:,} examples {where}"
    print_table(title, ["", "precision", "recall", "F1", "support"], rows, numbers={1, 2, 3, 4})
    say("  ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in scores.overall.items()))


def register(root: typer.Typer) -> None:
    """Add the commands to the application."""
    root.add_typer(app)
