"""All that a training run depends on, in one frozen record.

The record is written into the output directory; a directory whose record differs belongs to another run and
is refused. It can be read from a TOML file, whose keys are the names below; the options of `unmask train`
are derived from the fields. Nothing heavy is imported here before a record is made.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.errors import UsageError
from unmask.values import Either, Interval, Real, Several, Text, Whole, Word, check_settings, setting

if TYPE_CHECKING:
    from unmask.training.compatibility_rule import Compatibility
    from unmask.training.masking import Masking


LEAST_LENGTH = 8
"""Tokens of the shortest row; a gap that is shorter at a row's end is padded, not filled."""
CORPORA = Several(Text(), "texts of the form NAME=FILE")
POSITIVE, NOT_NEGATIVE = Real(above=0), Real(0)


@dataclass(frozen=True)
class Settings:
    """One training run."""

    corpora: tuple[str, ...] = setting(
        (),
        "NAME=FILE of text (.gz too): one paragraph per line, blank lines between documents. Repeatable.",
        kind=CORPORA,
    )
    eval_corpora: tuple[str, ...] = setting(
        (), "NAME=FILE of text to evaluate on, never trained on. Repeatable.", kind=CORPORA
    )
    eval_one_in: int = setting(
        100, "Keep one document in so many of each corpus for evaluation; 0 keeps none."
    )
    alpha: float = setting(1.0, "Share of a corpus in proportion to its size to this power.")
    shares: Mapping[str, float] = setting(dict, "NAME=SHARE of a corpus, instead of --alpha. Repeatable.")

    init_from: str = setting(
        "bert-tiny",
        "The first weights: bert-tiny, bert-mini, bert-base, xlm-r-base, a config file, a checkpoint or "
        "english.",
    )
    tokenizer: str = setting(
        "", "A tokenizer's directory; by default the checkpoint's, or one trained on the corpora."
    )
    vocab_size: int = setting(0, "Tokens to train, or to cut a checkpoint's vocabulary to; 0 leaves it.")
    tokenizer_type: str = setting(
        "",
        "Of a trained tokenizer: wordpiece or unigram; by default unigram for xlm-r.",
        kind=Word(("", "wordpiece", "unigram")),
    )
    lowercase: bool = setting(True, "Of a trained tokenizer.", "--lowercase/--cased")
    layers: tuple[int, ...] = setting(
        (),
        "Layers of the checkpoint to keep, as 0,1,3,5; by default all.",
        kind=Several(Whole(), "numbers of layers to keep, from 0 on"),
    )
    dropout: float = setting(
        0.0, "Dropout while training: short runs see no text twice and need none.", kind=Real(0, below=1)
    )

    max_length: int = setting(128, "Tokens per row, special ones included.", kind=Whole(LEAST_LENGTH))
    sentence_shares: Mapping[str, float] = setting(
        dict, "NAME=SHARE of a corpus's rows that are made of single sentences. Repeatable."
    )
    packing: bool = setting(
        True, "Several short documents per row, attention kept apart, or each alone.", "--packing/--alone"
    )
    next_sentence: bool = setting(False, "Learn next-sentence prediction too.")
    mlm_probability: float | tuple[float, float] = setting(
        0.15,
        "Share of the tokens that are predicted; LOW,HIGH draws it anew for every row.",
        kind=Either(Real(), Interval()),
    )
    mask_replace_prob: float = setting(0.8, "Of these, how many become the mask token; mask-only: 1.")
    random_replace_prob: float = setting(0.1, "And how many a random token; the rest stay; mask-only: 0.")
    whole_word_mask: bool = setting(False, "Choose words instead of tokens.")
    compatibility: float = setting(0.0, "Weight of the compatibility penalty.")
    compatibility_texts: int = setting(4, "Texts per batch (of each process) that the penalty looks at.")
    compatibility_nearest: int = setting(1, "Least distance of the penalty's two positions.")
    compatibility_farthest: int = setting(8, "Largest distance of the penalty's two positions.")
    compatibility_huber: float = setting(1.0, "Where the penalty's square turns into a line.")
    compatibility_fillings: str = setting(
        "true", "true: a true token against a drawn one; drawn: two drawn ones."
    )

    max_steps: int = setting(1000, "Optimiser steps.")
    warmup_steps: int | None = setting(None, "Steps of rising learning rate; by default a twentieth.")
    decay_steps: int | None = setting(None, "Steps of falling learning rate at the end; by default half.")
    batch_size: int = setting(16, "Rows per step, over all processes.", kind=Whole(1))
    gradient_accumulation_steps: int = setting(
        1, "Parts in which a process works off the rows of a step, to save memory.", kind=Whole(1)
    )
    encoder_lr: float = setting(5e-4, "Peak learning rate of the encoder.", kind=POSITIVE)
    head_lr: float = setting(1e-3, "Peak learning rate of embeddings and head.", kind=POSITIVE)
    weight_decay: float = setting(0.01, "Weight decay, on matrices only.", kind=NOT_NEGATIVE)
    max_grad_norm: float = setting(1.0, "Largest norm of the gradient; 0 never clips.", kind=NOT_NEGATIVE)
    bf16: bool = setting(
        False, "Multiply in bfloat16, keep weights in single precision: faster where the processor can."
    )
    seed: int = setting(0, "Seed of the order, the masks and the fresh weights.", kind=Whole(0, 2**32 - 1))

    eval_steps: int = setting(200, "Steps between evaluations.", kind=Whole(1))
    eval_rows: int = setting(200, "Rows of each evaluation domain.", kind=Whole(1))
    save_steps: int = setting(200, "Steps between checkpoints.", kind=Whole(1))
    average_checkpoints: int = setting(1, "The result is the mean of so many checkpoints, the last ones.")
    logging_steps: int = setting(10, "Steps between log lines.", kind=Whole(1))
    licence: str = setting("other", "Licence of the result, for the model card.")
    data_licences: Mapping[str, str] = setting(
        dict, "NAME=LICENCE of a corpus, for the model card. Repeatable."
    )

    def __post_init__(self) -> None:
        check_settings(self)
        _ = self.masking, self.penalty, self.schedule
        if self.eval_one_in == 1:
            raise UsageError(
                "expected an eval_one_in of 0, or 2 and more: one document in 1 leaves none to train on"
            )
        for name in ("shares", "sentence_shares", "data_licences"):
            if not isinstance(getattr(self, name), Mapping):
                raise UsageError(f"{name}: expected a value by corpus, got {getattr(self, name)!r}")
        if not all(isinstance(share, int | float) for share in self.shares.values()):
            raise UsageError(f"expected a number as each corpus's share, got {dict(self.shares)}")
        for name, share in self.sentence_shares.items():
            Real(0, 1).check(f"sentence_shares of {name}", share)
        if self.sentence_shares and self.next_sentence:
            raise UsageError(
                "next-sentence prediction makes rows of two texts, got sentence_shares too: leave one of "
                "them out"
            )
        saved = math.ceil(self.max_steps / self.save_steps)
        if not 1 <= self.average_checkpoints <= saved:
            raise UsageError(
                f"expected average_checkpoints from 1 to the {saved} checkpoints of {self.max_steps} steps "
                f"with save_steps {self.save_steps}, got {self.average_checkpoints}: save more often"
            )

    @property
    def trained_tokenizer_type(self) -> str:
        """The type of a trained tokenizer: unless stated, Unigram for XLM-R and WordPiece for others."""
        return self.tokenizer_type or ("unigram" if self.init_from.startswith("xlm-r") else "wordpiece")

    @property
    def checkpoints(self) -> int:
        """How many checkpoints are kept: those to average, and always one to fall back on."""
        return max(2, self.average_checkpoints)

    @property
    def masking(self) -> Masking:
        """The masking rule."""
        from unmask.training.masking import Masking

        return Masking(
            self.mlm_probability, self.mask_replace_prob, self.random_replace_prob, self.whole_word_mask
        )

    @property
    def penalty(self) -> Compatibility:
        """The compatibility penalty."""
        from unmask.training.compatibility_rule import Compatibility

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
        warmup_steps = self.max_steps // 20 if self.warmup_steps is None else self.warmup_steps
        decay_steps = self.max_steps // 2 if self.decay_steps is None else self.decay_steps
        return Schedule(self.max_steps, warmup_steps, decay_steps)

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
    known = [entry.name for entry in fields(Settings)]
    for name in values:
        if name not in known:
            raise UsageError(f"unknown setting {name!r}: expected one of {', '.join(sorted(known))}")
    return Settings(**values)


@dataclass(frozen=True)
class Schedule:
    """The learning rate over a run, lengths in optimiser steps: warm up, stay, decay.

    The rate rises linearly, stays, and falls linearly to zero. While it stays, the run does not know how long
    it will be: it can be resumed for another attempt with more steps, and a decay can be branched off any
    checkpoint of the stable part. With decay equal to steps − warmup this is the usual linear schedule.
    """

    max_steps: int
    warmup_steps: int
    decay_steps: int

    def __post_init__(self) -> None:
        least = min(self.warmup_steps, self.decay_steps)
        if self.max_steps < 1 or least < 0 or self.warmup_steps + self.decay_steps > self.max_steps:
            raise UsageError(
                "expected at least one step, and warmup_steps and decay_steps that fit in, got "
                f"max_steps={self.max_steps}, warmup_steps={self.warmup_steps} and "
                f"decay_steps={self.decay_steps}"
            )

    def factor(self, step: int) -> float:
        """The share of the peak rate at `step`, counted from 0."""
        rising = (step + 1) / (self.warmup_steps + 1)
        falling = (self.max_steps - step) / (self.decay_steps + 1)
        return max(0.0, min(1.0, rising, falling))
