"""What a run learns from: examples that have been checked, their labels, and what the user should know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from unmask.errors import UsageError
from unmask.tasks import schemes
from unmask.tasks.files import Columns, Example, Tagged, read_examples, read_tagged, resolve
from unmask.tasks.settings import Settings, Task
from unmask.values import plural

HELD_OUT = 10
"""One training example in so many is kept for evaluation where no file is given for it."""
ALMOST_NONE = 5
"""Examples below which a label is named in a note."""
MOST_NAMED = 5
"""Labels that a note names."""


@dataclass(frozen=True)
class Examples:
    """The examples of a run, and the labels that it learns."""

    train: Sequence[Any]
    dev: Sequence[Any]
    labels: list[str]
    scheme: str | None  # of the tags; None where they have none
    columns: Columns  # of the texts, as the training file names them
    notes: list[str] = field(default_factory=list)


def gather(settings: Settings) -> Examples:
    """Read and check the files of a run."""
    notes: list[str] = []
    settings = with_columns(settings)
    train = read(settings, settings.task, Path(settings.train), notes)
    if not train:
        raise UsageError(f"{settings.train}: expected training examples, got none: the file is empty")
    scheme = None
    if settings.task == "tag" and settings.scheme != "none":
        scheme = scheme_of(train, settings.train) if settings.scheme == "auto" else settings.scheme
        train = check_tags(train, scheme, settings.train, settings.repair, notes)
    dev = read(settings, settings.task, Path(settings.dev), notes) if settings.dev else []
    if settings.dev and not dev:
        raise UsageError(f"{settings.dev}: expected examples to evaluate on, got none: the file is empty")
    if scheme is not None:
        dev = check_tags(dev, scheme, settings.dev or settings.train, settings.repair, notes)
        if settings.to_scheme is not None:
            train, dev = (in_scheme(some, settings.to_scheme) for some in (train, dev))
            scheme = settings.to_scheme
    labels = _labels(train, scheme)
    if len(labels) < 2:
        raise UsageError(
            f"{settings.train}: every word has the tag '{labels[0]}': there is nothing to learn; "
            "give a file with other tags too, or check --tag-column"
            if settings.task == "tag"
            else f"{settings.train}: every example has the label '{labels[0]}': expected at least two; "
            "give examples of another, or check --label"
        )
    if not settings.dev:
        train, dev = _hold_out(train, settings)
        notes.append(f"no --dev file: {len(dev):,} of the training examples are held out for evaluation")
    else:
        refuse_unknown(dev, labels, settings.dev)
        learned = {_text_of(example) for example in train}
        shared = sum(_text_of(example) in learned for example in dev)
        if shared:
            notes.append(
                f"{settings.dev}: {plural(shared, 'example')} of {len(dev):,} stand in the training file, "
                f"too: the scores flatter the model"
            )
    notes += _scarce(train, dev)
    return Examples(train, dev, labels, scheme, settings.columns, notes)


def with_columns(settings: Settings) -> Settings:
    """Return the settings with the columns that the training file's own names decide.

    Other files are read by them too: the texts of a pair must not change places with the order of columns.
    """
    if settings.task == "tag":
        return settings
    found = resolve(Path(settings.train), pairs=settings.task == "pairs", columns=settings.columns)
    return replace(settings, text=found.first, second=found.second)


def read(columns_of: Any, task: Task, path: Path, notes: list[str], *, labelled: bool = True) -> list[Any]:
    """Return the examples of a file; `columns_of` has the columns (a `Settings`, say)."""
    if task == "tag":
        return read_tagged(
            path,
            labelled=labelled,
            word_column=columns_of.word_column,
            tag_column=columns_of.tag_column,
        )
    columns: Columns = columns_of.columns
    examples: list[Any] = read_examples(path, pairs=task == "pairs", columns=columns, labelled=labelled)
    twice = len(examples) - len({example.texts for example in examples})
    if labelled and twice:
        notes.append(f"{path}: {twice:,} examples have the text of another one")
    return examples


def scheme_of(sentences: Sequence[Tagged], path: str) -> schemes.Scheme:
    """Return the scheme of a file's tags; what is no tag is named with its line."""
    for sentence in sentences:
        for place, tag in enumerate(sentence.tags or []):
            try:
                schemes.parse(tag)
            except UsageError as error:
                raise UsageError(
                    f"{path}, line {sentence.line_of(place)}: {error} ('{sentence.words[place]}'); "
                    "--scheme none takes tags as they are"
                ) from None
    return schemes.detect(one.tags or [] for one in sentences)


def check_tags(
    sentences: Sequence[Tagged], scheme: Any, path: str, repair: bool, notes: list[str]
) -> list[Tagged]:
    """Refuse sequences that break their scheme, naming the line, or mend them if that is asked for."""
    scheme_of(sentences, path)
    mended, repaired = [], 0
    for sentence in sentences:
        assert sentence.tags is not None
        broken = schemes.fault(sentence.tags, scheme)
        if broken is not None:
            if not repair:
                raise UsageError(
                    f"{path}, line {sentence.line_of(broken.place)}: '{broken.found}' ('"
                    f"{sentence.words[broken.place]}') breaks the scheme {scheme}, which has "
                    f"'{broken.expected}' there: mend the file, or have it mended with --repair"
                )
            repaired += 1
            sentence = replace(sentence, tags=schemes.convert(sentence.tags, scheme))
        mended.append(sentence)
    if repaired:
        notes.append(f"{path}: repaired {plural(repaired, 'sentence')} that broke the scheme {scheme}")
    return mended


def in_scheme(sentences: Sequence[Tagged], scheme: Any) -> list[Tagged]:
    """Return the sentences with their tags in another scheme, and beside them those that were given."""
    return [replace(one, tags=schemes.convert(one.tags or [], scheme), given=one.tags) for one in sentences]


def refuse_unknown(examples: Sequence[Any], labels: Sequence[str], path: str) -> None:
    """Refuse a label that was not learned, naming its line."""
    known = set(labels)
    for example in examples:
        found = (
            [(example.line, example.label, "")]
            if isinstance(example, Example)
            else [
                (example.line_of(place), tag, f" ('{example.words[place]}')")
                for place, tag in enumerate(example.tags or [])
            ]
        )
        for line, label, word in found:
            if label is not None and label not in known:
                raise UsageError(
                    f"{path}, line {line}: the label '{label}'{word} was not in the training data, which has "
                    f"{', '.join(sorted(known))}"
                )


def _labels(train: Sequence[Any], scheme: Any) -> list[str]:
    """Return all labels in a fixed order; of a scheme, all tags of the types that occur."""
    if not isinstance(train[0], Tagged):
        return sorted({example.label for example in train})
    tags = {tag for sentence in train for tag in sentence.tags}
    if scheme is None:
        return sorted(tags)
    return schemes.labels((schemes.parse(tag)[1] for tag in tags if tag != schemes.OUTSIDE), scheme)


def _hold_out(train: Sequence[Any], settings: Settings) -> tuple[list[Any], list[Any]]:
    if len(train) < 2:
        raise UsageError(
            f"{settings.train}: one example can't be both learned and held out: give more, or --dev"
        )
    texts = list(dict.fromkeys(map(_text_of, train)))  # a text is learned or held out, never both
    if len(texts) < 2:
        raise UsageError(
            f"{settings.train}: all examples have one text, which can't be both learned and held out: give "
            f"others, or --dev"
        )
    copies = Counter(map(_text_of, train))
    room = max(1, len(train) // HELD_OUT)
    held: set[tuple[str, ...]] = set()
    for place in np.random.default_rng(settings.seed).permutation(len(texts)):
        if copies[texts[place]] <= room:
            held.add(texts[place])
            room -= copies[texts[place]]
    held = held or {min(texts, key=copies.__getitem__)}
    return (
        [example for example in train if _text_of(example) not in held],
        [example for example in train if _text_of(example) in held],
    )


def _text_of(example: Any) -> tuple[str, ...]:
    return tuple(example.words) if isinstance(example, Tagged) else example.texts


def _scarce(train: Sequence[Any], dev: Sequence[Any]) -> list[str]:
    """Say which labels have almost no examples to learn from, or to be evaluated on."""
    learned, held = label_counts(train), label_counts(dev)
    notes = []
    for what, counts, why in (
        ("learn from", learned, "it will hardly be predicted"),
        ("evaluate on", held, "its scores say little"),
    ):
        few = [label for label in sorted(learned | held) if counts[label] < ALMOST_NONE]
        if few:
            listed = ", ".join(f"'{label}' ({counts[label]})" for label in few[:MOST_NAMED])
            more = f" and {len(few) - MOST_NAMED} more" if len(few) > MOST_NAMED else ""
            notes.append(
                f"fewer than {ALMOST_NONE} examples to {what} of {listed}{more}: {why}, give more examples"
                + ("" if what == "learn from" else ", or a larger --dev file")
            )
    return notes


def label_counts(examples: Sequence[Any]) -> Counter[str]:
    """Return how often each label occurs."""
    if examples and isinstance(examples[0], Tagged):
        return Counter(tag for sentence in examples for tag in sentence.tags)
    return Counter(example.label for example in examples)
