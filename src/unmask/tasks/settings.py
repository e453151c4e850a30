"""Everything that a fine-tuning run depends on. The same settings and the same files give the same model."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from unmask.errors import UsageError
from unmask.tasks.files import Columns

Task = Literal["classify", "pairs", "tag"]
LongTexts = Literal["truncate", "split", "refuse"]
SCHEMES = ("auto", "none", "io", "bio", "bioes")


@dataclass(frozen=True)
class Settings:
    """One fine-tuning run."""

    task: Task
    train: str  # the file to learn from
    dev: str | None = None  # the file to choose the best epoch on; None: a tenth of the training file
    model: str = "english"  # embedded, a directory or a hub name
    pretrained: bool = True  # False: the same architecture with fresh weights, to see what pretraining gives

    text: str | None = None  # column of the text; None: by its name
    second: str | None = None  # column of the second text of a pair
    label: str = "label"  # column of the label
    word_column: int = 0  # of CoNLL files
    tag_column: int = -1
    scheme: str = "auto"  # of the tags: auto, none (parts of speech), io, bio, bioes
    to_scheme: str | None = None  # the scheme to learn in; None: that of the file
    repair: bool = False  # mend tag sequences that break their scheme

    max_length: int = 128  # tokens, special ones included
    long: LongTexts = "truncate"  # what becomes of longer texts
    epochs: int = 4
    batch: int = 32
    rate: float = 3e-4  # peak learning rate: high, as suits a small model; 2e-5 to 5e-5 for BERT-base
    head_rate: float | None = None  # that of the new head, which has everything to learn; None: the same
    warmup: float = 0.1  # share of the steps with a rising rate; it falls linearly after
    weight_decay: float = 0.01
    dropout: float = 0.1
    class_weights: str = "none"  # none, or balanced: rare classes weigh more
    patience: int = 0  # evaluations without a better score before the run ends; 0: never early
    evaluate_every: int = 0  # steps; 0: once an epoch
    seed: int = 0
    licence: str = "other"  # for the card
    allow_pickle: bool = False  # open weights that are kept in pickle files, which can run code

    def __post_init__(self) -> None:
        for name, allowed in (
            ("task", get_args(Task)),
            ("scheme", SCHEMES),
            ("to_scheme", (None, *SCHEMES[2:])),
            ("class_weights", ("none", "balanced")),
        ):
            if getattr(self, name) not in allowed:
                expected = ", ".join(str(one) for one in allowed if one is not None)
                raise UsageError(f"unknown {name} '{getattr(self, name)}': expected {expected}")
        for name, least in (
            ("epochs", 1),
            ("batch", 1),
            ("max_length", 8),
            ("patience", 0),
            ("evaluate_every", 0),
            ("seed", 0),
        ):
            if getattr(self, name) < least:
                raise UsageError(f"expected {name} of at least {least}, got {getattr(self, name)}")
        if not (self.rate > 0 and 0 <= self.warmup <= 1 and 0 <= self.dropout < 1):
            raise UsageError(
                f"expected a rate above 0, a warmup in [0, 1] and a dropout in [0, 1), got {self.rate}, "
                f"{self.warmup} and {self.dropout}"
            )
        if self.head_rate is not None and not self.head_rate > 0:
            raise UsageError(f"expected a head rate above 0, got {self.head_rate}")
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
