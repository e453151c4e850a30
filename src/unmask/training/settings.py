"""All that a training run depends on, in one frozen record: one line a setting, each with its reason.

The record is written into the output directory; a directory whose record differs belongs to another run and
is refused. It can be read from a TOML file, whose keys are the names below.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from unmask.errors import UsageError
from unmask.training.compatibility import Compatibility
from unmask.training.masking import Masking
from unmask.training.packing import LEAST
from unmask.training.schedule import Schedule


@dataclass(frozen=True)
class Settings:
    """One training run."""

    corpora: tuple[str, ...] = ()  # NAME=FILE each: one paragraph a line, a blank line between documents
    held_out_corpora: tuple[str, ...] = ()  # NAME=FILE each: evaluated, never trained on
    hold_out: int = 100  # one document in so many is never trained on; 0 holds none out
    alpha: float = 1.0  # share of a corpus ∝ size^alpha
    shares: Mapping[str, float] = field(default_factory=dict)  # stated shares instead of alpha

    start: str = "bert-tiny"  # a preset, a config file, or a checkpoint directory
    tokenizer: str = ""  # a tokenizer's directory; empty: the checkpoint's own, or a trained one
    vocabulary: int = 0  # tokens to train, or to cut a checkpoint's vocabulary to; 0 leaves it
    vocabulary_kind: str = ""  # wordpiece or unigram, for a trained one; empty: as the start has it
    lowercase: bool = True  # for a trained vocabulary
    layers: tuple[int, ...] = ()  # layers of the checkpoint to keep; empty keeps all
    dropout: float = 0.0  # short runs see no text twice and need none

    max_length: int = 128  # tokens in a row, special ones included
    packing: bool = True  # several short documents in a row, attention kept apart
    next_sentence: bool = False  # BERT's second objective
    rate: float = 0.15  # share of the tokens that are predicted
    masked: float = 0.8  # of these, how many become the mask token
    randomised: float = 0.1  # and how many a random token; the rest stay
    whole_words: bool = False  # choose words instead of tokens
    compatibility: float = 0.0  # weight of the compatibility penalty
    compatibility_texts: int = 4  # texts of a batch (of each process's part) that it looks at
    compatibility_nearest: int = 1  # least distance of its two positions
    compatibility_farthest: int = 8  # largest distance
    compatibility_huber: float = 1.0  # where its square turns into a line
    compatibility_fillings: str = "true"  # true: a true token against a drawn one; drawn: two drawn ones

    steps: int = 1000  # optimiser steps
    warmup: int | None = None  # steps of rising rate; None: a twentieth of them
    decay: int | None = None  # steps of falling rate, at the end; None: half of them
    batch: int = 16  # rows of a step, over all processes
    accumulate: int = 1  # parts in which a process works its rows off, to save memory
    optimizer: str = "adamw"  # adamw, or muon for the encoder's matrices
    body_rate: float = 5e-4  # peak learning rate of the encoder
    head_rate: float = 1e-3  # peak learning rate of embeddings and head
    weight_decay: float = 0.01  # on matrices only
    clip: float = 1.0  # largest norm of the gradient; 0 never clips
    seed: int = 0  # of the order, the masks and the fresh weights

    evaluate_every: int = 200  # steps
    evaluate_rows: int = 200  # rows of each held-out domain
    save_every: int = 200  # steps
    average: int = 1  # the result is the mean of so many checkpoints, the last ones
    log_every: int = 10  # steps
    licence: str = "other"  # of the result, for the model card
    data_licences: Mapping[str, str] = field(default_factory=dict)  # by corpus, for the model card

    def __post_init__(self) -> None:
        _ = self.masking, self.penalty, self.schedule
        if self.batch < 1 or self.accumulate < 1:
            raise UsageError(
                f"expected a batch and accumulate of at least 1, got {self.batch} and {self.accumulate}"
            )
        for name in ("body_rate", "head_rate"):
            if not 0 < getattr(self, name) < math.inf:
                raise UsageError(f"expected a {name} above 0, got {getattr(self, name)}")
        for name in ("weight_decay", "clip", "seed", "vocabulary", "hold_out"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UsageError(f"expected a {name} of at least 0, got {getattr(self, name)}")
        if self.hold_out == 1:
            raise UsageError(
                "expected a hold_out of 0, or 2 and more: one document in 1 leaves none to train on"
            )
        if self.max_length < LEAST:
            raise UsageError(f"expected a max_length of at least {LEAST} tokens, got {self.max_length}")
        if not 0 <= self.dropout < 1:
            raise UsageError(f"expected a dropout from 0 to below 1, got {self.dropout}")
        if any(isinstance(layer, bool) or not isinstance(layer, int) for layer in self.layers):
            raise UsageError(f"expected the numbers of layers to keep, from 0 on, got {list(self.layers)}")
        if not all(isinstance(share, int | float) for share in self.shares.values()):
            raise UsageError(f"expected a number as each corpus's share, got {dict(self.shares)}")
        if self.vocabulary_kind not in ("", "wordpiece", "unigram"):
            raise UsageError(
                f"expected a vocabulary_kind of wordpiece or unigram, got {self.vocabulary_kind!r}"
            )
        if not all(isinstance(name, str) for name in (*self.corpora, *self.held_out_corpora)):
            raise UsageError("expected corpora as texts of the form NAME=FILE")
        if self.seed >= 2**32:
            raise UsageError(f"expected a seed below 2^32, got {self.seed}")
        if self.optimizer not in ("adamw", "muon"):
            raise UsageError(f"expected optimizer adamw or muon, got {self.optimizer!r}")
        if min(self.evaluate_every, self.evaluate_rows, self.save_every, self.log_every) < 1:
            raise UsageError("expected evaluate_every, evaluate_rows, save_every and log_every of at least 1")
        if not 1 <= self.average <= math.ceil(self.steps / self.save_every):
            raise UsageError(
                f"expected average from 1 to the {math.ceil(self.steps / self.save_every)} checkpoints of "
                f"{self.steps} steps with save_every {self.save_every}, got {self.average}: save more often"
            )

    @property
    def trained_kind(self) -> str:
        """The kind of a trained vocabulary: unless stated, Unigram for XLM-R and WordPiece for others."""
        return self.vocabulary_kind or ("unigram" if self.start.startswith("xlm-r") else "wordpiece")

    @property
    def checkpoints(self) -> int:
        """How many checkpoints are kept: those to average, and always one to fall back on."""
        return max(2, self.average)

    @property
    def masking(self) -> Masking:
        """The masking rule."""
        return Masking(self.rate, self.masked, self.randomised, self.whole_words)

    @property
    def penalty(self) -> Compatibility:
        """The compatibility penalty."""
        return Compatibility(
            self.compatibility,
            self.compatibility_texts,
            self.compatibility_nearest,
            self.compatibility_farthest,
            self.compatibility_huber,
            self.compatibility_fillings,
        )

    @property
    def schedule(self) -> Schedule:
        """The learning-rate schedule."""
        warmup = self.steps // 20 if self.warmup is None else self.warmup
        decay = self.steps // 2 if self.decay is None else self.decay
        return Schedule(self.steps, warmup, decay)

    def to_dict(self) -> dict[str, Any]:
        """The settings as JSON knows them."""
        return dict(json.loads(json.dumps(asdict(self))))


def read_settings(path: Path | None, **overrides: Any) -> Settings:
    """Settings from a TOML file, overridden by what is not None."""
    values: dict[str, Any] = {}
    if path is not None:
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise UsageError(
                f"{path}: the settings could not be read ({error.strerror}): check the path"
            ) from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{path}: expected TOML, got a syntax error ({error})") from None
    values.update({name: value for name, value in overrides.items() if value is not None})
    return Settings(**{name: _checked(name, value) for name, value in values.items()})


_DEFAULTS = {entry.name: entry for entry in fields(Settings)}


def _checked(name: str, value: Any) -> Any:
    if name not in _DEFAULTS:
        close = ", ".join(sorted(_DEFAULTS))
        raise UsageError(f"unknown setting {name!r}: expected one of {close}")
    wanted = str(_DEFAULTS[name].type).removesuffix(" | None")
    if wanted.startswith("tuple") and isinstance(value, list | tuple):
        return tuple(value)
    kinds: dict[str, tuple[type, ...]] = {
        "int": (int,),
        "float": (int, float),
        "str": (str,),
        "bool": (bool,),
    }
    allowed = kinds.get(wanted, (dict, Mapping, tuple))
    if not isinstance(value, allowed) or (isinstance(value, bool) and wanted != "bool"):
        raise UsageError(f"setting {name}: expected {wanted}, got {value!r}")
    return float(value) if wanted == "float" else value  # type: ignore[arg-type]
