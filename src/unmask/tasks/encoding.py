"""Examples in id space: the features that the model is shown, and where their labels go.

Of a tagged word only the first sub-token is labelled; the others are ignored by the loss and unread when
predicting. A text longer than `max_length` is cut, split into pieces (each with the text's label; when
predicting, the pieces' log-probabilities are averaged), or refused; a long sentence with tags that is split
keeps every tag. What was cut or split is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from unmask.errors import UsageError
from unmask.tasks.files import Example, Tagged
from unmask.tasks.settings import LongTexts, Task
from unmask.text.reading import Reader, join_words

IGNORED = -100
"""The label of a token that has none, as torch's cross-entropy knows it."""

Feature = dict[str, Any]


@dataclass
class Encoded:
    """Features, the example that each belongs to, and for tags (token, word) of each labelled token."""

    features: list[Feature] = field(default_factory=list)
    homes: list[int] = field(default_factory=list)
    places: list[list[tuple[int, int]]] = field(default_factory=list)
    overlong: int = 0
    vanished: int = 0

    def add(self, feature: Feature, home: int, places: list[tuple[int, int]]) -> None:
        """Take in one feature."""
        feature["attention_mask"] = [1] * len(feature["input_ids"])
        self.features.append(feature)
        self.homes.append(home)
        self.places.append(places)


class Encoder:
    """Turns the examples of a task into features."""

    def __init__(
        self, task: Task, tokenizer: Any, window: int, *, labels: Sequence[str], long: LongTexts
    ) -> None:
        self.task, self.tokenizer, self.window, self.long = task, tokenizer, window, long
        self.numbers = {label: number for number, label in enumerate(labels)}
        unit: Any = "word" if task == "tag" else "sentence"
        pieces: Any = "truncate" if long == "truncate" else "split"
        self.reader = Reader(tokenizer, window, unit=unit, split="spaces", long=pieces)

    def encode(self, examples: Sequence[Any], path: str = "the examples") -> Encoded:
        """Return the features of a file's examples, with labels where the examples have them."""
        encoded = Encoded()
        add: Any = {"classify": self._text, "pairs": self._pair, "tag": self._words}[self.task]
        for home, example in enumerate(examples):
            before = encoded.overlong
            add(encoded, home, example)
            if self.long == "refuse" and encoded.overlong > before:
                mends = "truncate" if self.task == "pairs" else "split or truncate"
                raise UsageError(
                    f"{path}, line {example.line}: longer than max_length, which is {self.window} tokens: "
                    f"--long {mends} mends that"
                )
        return encoded

    def _label(self, example: Example) -> Feature:
        return {} if example.label is None else {"labels": self.numbers[example.label]}

    def _text(self, encoded: Encoded, home: int, example: Example) -> None:
        reading = self.reader.read(example.texts[0])
        encoded.overlong += reading.overlong
        for start, end in reading.pieces:
            ids = self.reader.with_special_tokens(reading.ids[start:end])
            encoded.add({"input_ids": ids} | self._label(example), home, [])

    def _pair(self, encoded: Encoded, home: int, example: Example) -> None:
        first, second = example.texts
        whole = self.tokenizer(first, second, verbose=False)
        if len(whole["input_ids"]) > self.window:
            encoded.overlong += 1
            whole = self.tokenizer(first, second, truncation="longest_first", max_length=self.window)
        feature = {name: list(whole[name]) for name in ("input_ids", "token_type_ids") if name in whole}
        encoded.add(feature | self._label(example), home, [])

    def _words(self, encoded: Encoded, home: int, sentence: Tagged) -> None:
        reading = self.reader.read_words(sentence.words)
        encoded.overlong += reading.overlong
        encoded.vanished += reading.vanished
        word_at = {start: number for number, (start, _) in enumerate(join_words(sentence.words)[1])}
        firsts = {unit.tokens[0]: word_at[unit.start] for unit in reversed(reading.units)}
        for start, end in reading.pieces:
            ids = self.reader.with_special_tokens(reading.ids[start:end])
            front = len(self.reader.prefix)
            places = [(token - start + front, word) for token, word in firsts.items() if start <= token < end]
            if not places:
                continue  # the rest of a word longer than the window: nothing is learned or told here
            feature: Feature = {"input_ids": ids}
            if sentence.tags is not None:
                labels = [IGNORED] * len(ids)
                for token, word in places:
                    labels[token] = self.numbers[sentence.tags[word]]
                feature["labels"] = labels
            encoded.add(feature, home, sorted(places))


def collator(task: Task, tokenizer: Any) -> Any:
    """Return what makes a padded batch of features."""
    from transformers import DataCollatorForTokenClassification, DataCollatorWithPadding

    if task == "tag":
        return DataCollatorForTokenClassification(tokenizer, label_pad_token_id=IGNORED)
    return DataCollatorWithPadding(tokenizer)
