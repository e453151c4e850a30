"""Everything that a fine-tuning run depends on. The same settings and the same files give the same model.

The options of `unmask finetune` are derived from the fields.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from unmask.errors import UsageError
from unmask.tasks.files import Columns
from unmask.values import Real, Whole, Word, check_settings, setting

Task = Literal["classify", "pairs", "tag"]
LongTexts = Literal["truncate", "split", "refuse"]
SCHEMES = ("auto", "none", "io", "bio", "bioes")


@dataclass(frozen=True)
class Settings:
    """One fine-tuning run."""

    task: Task = field(metadata={"kind": Word(get_args(Task))})
    train: str  # the file to learn from
    dev: str | None = None  # the file to choose the best epoch on; None: a tenth of the training file
    model: str = setting("english", "'english' (embedded), a directory, or a hub name.", "--model", "-m")
    pretrained: bool = setting(
        True, "With the model's weights, or its architecture alone.", "--pretrained/--fresh"
    )

    text: str | None = setting(None, "Column of the text [default: by its name].")
    second: str | None = setting(None, "Column of a pair's second text [default: by its name].")
    label: str = setting("label", "Column of the label.")
    word_column: int = setting(0, "Of CoNLL files, from 0.", kind=Whole(-(2**15)))
    tag_column: int = setting(-1, "Of CoNLL files; -1 is the last.", kind=Whole(-(2**15)))
    scheme: str = setting(
        "auto", "Of the tags: auto, io, bio, bioes, or none (parts of speech).", kind=Word(SCHEMES)
    )
    to_scheme: str | None = setting(
        None, "Convert the tags to io, bio or bioes first.", kind=Word(SCHEMES[2:])
    )
    repair: bool = setting(False, "Mend tags that break their scheme.", "--repair")

    max_length: int = setting(128, "Tokens per example, special ones included.", kind=Whole(8))
    long: LongTexts = setting("truncate", "Longer texts: truncate, split (not pairs) or refuse.")
    epochs: int = setting(4, "Times that every example is learned from.", kind=Whole(1))
    batch_size: int = setting(32, "Examples per step.", kind=Whole(1))
    lr: float = setting(
        3e-4, "Peak learning rate; for models of BERT's size 2e-5 to 5e-5.", kind=Real(above=0)
    )
    head_lr: float | None = setting(
        None, "Peak learning rate of the new head [default: --lr].", kind=Real(above=0)
    )
    warmup_ratio: float = setting(
        0.1, "Share of the steps with a rising learning rate; it falls linearly after.", kind=Real(0, 1)
    )
    weight_decay: float = setting(0.01, "Weight decay.")
    dropout: float = setting(0.1, "Share of the activations that are dropped.", kind=Real(0, below=1))
    class_weights: str = setting(
        "none", "none, or balanced: rare classes weigh more.", kind=Word(("none", "balanced"))
    )
    patience: int = setting(0, "Evaluations without a better score that end the run; 0: none do.")
    eval_steps: int = setting(0, "Steps between evaluations; 0: once per epoch.")
    seed: int = setting(0, "Seed of whatever is drawn at random.", kind=Whole(0, 2**32 - 1))
    licence: str = setting("other", "Licence of the result, for its card.")
    allow_pickle: bool = setting(False, "Read pickled weights, which can run code.", "--allow-pickle")

    def __post_init__(self) -> None:
        check_settings(self)
        if self.to_scheme is not None and (self.task != "tag" or self.scheme == "none"):
            raise UsageError(
                f"to_scheme {self.to_scheme} converts tags of a scheme, and these have none: leave it out"
            )
        check_long(self.task, self.long)

    @property
    def columns(self) -> Columns:
        """The columns of a table."""
        return Columns(self.text, self.second, self.label)

    @property
    def metric(self) -> str:
        """The score by which the best evaluation is chosen."""
        return "f1" if self.task == "tag" and self.scheme != "none" else "accuracy"

    def to_dict(self) -> dict[str, Any]:
        """The settings as JSON knows them; what the files hold is part of them."""
        contents = {
            f"{name}_digest": _digest(Path(path))
            for name, path in (("train", self.train), ("dev", self.dev))
            if path and Path(path).is_file()
        }
        return asdict(self) | contents


def check_long(task: Task, long: str) -> None:
    """Refuse an unknown way with long texts, or one that the task does not have."""
    if long not in get_args(LongTexts):
        raise UsageError(f"unknown long '{long}': expected {', '.join(get_args(LongTexts))}")
    if task == "pairs" and long == "split":
        raise UsageError("a pair can't be split: take --long truncate (the longer text loses its end)")


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:24]
