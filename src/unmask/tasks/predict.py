"""A fine-tuned model at work: what it says of new texts, and how well it does on a labelled file.

A directory that `unmask finetune` wrote is an ordinary Hugging Face checkpoint with a `task.json` beside it,
which says what the task was and how texts were read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from unmask.errors import UsageError
from unmask.linear_layers import for_inference
from unmask.models.device import choose_device
from unmask.models.light import open_light_tuned
from unmask.models.light.tokenizer import LightTokenizer
from unmask.models.window import window_of
from unmask.progress import Progress, silent
from unmask.tasks import examples as files
from unmask.tasks import schemes
from unmask.tasks.encoding import Encoded, Encoder
from unmask.tasks.record import TaskRecord
from unmask.tasks.scores import Scores, class_scores, entity_scores, token_scores
from unmask.tasks.settings import Task
from unmask.values import plural

TOKENS_PER_PASS = 4096


class TunedModel:
    """A fine-tuned model with its tokenizer and the record of its task."""

    def __init__(self, model: Any, tokenizer: Any, record: TaskRecord, *, device: str = "auto") -> None:
        self.device = choose_device(device)
        self.model = model.to(self.device)
        self.tokenizer, self.record = tokenizer, record
        self.labels = [model.config.id2label[i] for i in range(model.config.num_labels)]
        window = min(record.max_length, window_of(model, tokenizer))
        self.encoder = Encoder(record.task, tokenizer, window, labels=self.labels, long=record.long)

    @classmethod
    def load(cls, directory: Path, *, device: str = "auto", **changes: Any) -> TunedModel:
        """Open what `unmask finetune` wrote (the directory `model` of its run).

        `changes` are fields of its record for files that are to be read otherwise: `text`, `second`, `label`
        or `long`; None changes nothing.
        """
        record = TaskRecord.read(directory).changed(**changes)
        light = None if record.task == "pairs" else open_light_tuned(directory, of_texts=record.task != "tag")
        if light is not None:
            model, tokenizer = light
            return cls(model, tokenizer, record, device=device)
        from unmask.models.checkpoint import open_with_head

        model, tokenizer, _ = open_with_head(directory, kind_of(record.task), {})
        return cls(for_inference(model), tokenizer, record, device=device)

    def predict_file(
        self, path: Path, progress: Progress = silent
    ) -> tuple[Iterator[dict[str, Any]], list[str]]:
        """Return an answer for each example of a file, and what the user should know.

        Labels, if the file has any, are not looked at.
        """
        found = files.read(self.record, self.record.task, path, [], labelled=False)
        if not found:
            raise UsageError(f"{path}: expected examples to predict, got none: the file is empty")
        bare = [_unlabelled(example) for example in found]
        encoded = self.encoder.encode(bare, str(path))
        return self._answers(bare, encoded, progress), encoding_notes(encoded, self.record.long)

    def answers(self, examples: Sequence[Any], progress: Progress = silent) -> Iterator[dict[str, Any]]:
        """Return an answer for each example: its label and the probabilities, or its tags and entities."""
        bare = [_unlabelled(example) for example in examples]
        return self._answers(bare, self.encoder.encode(bare), progress)

    def _answers(self, bare: Sequence[Any], encoded: Encoded, progress: Progress) -> Iterator[dict[str, Any]]:
        if self.record.task == "tag":
            for sentence, tags in zip(bare, self._tags(bare, encoded, progress), strict=True):
                answer: dict[str, Any] = {"words": sentence.words, "tags": tags}
                if self.record.scheme is not None:
                    answer["entities"] = [
                        {
                            "start": e.start,
                            "end": e.end,
                            "type": e.type,
                            "words": sentence.words[e.start : e.end],
                        }
                        for e in schemes.entities(tags)
                    ]
                yield answer
            return
        for example, log_probs in zip(bare, self._log_probs(len(bare), encoded, progress), strict=True):
            probabilities = log_probs.softmax(-1).tolist()
            best = max(range(len(self.labels)), key=probabilities.__getitem__)
            yield {
                "texts": list(example.texts),
                "label": self.labels[best],
                "probabilities": dict(zip(self.labels, probabilities, strict=True)),
            }

    def evaluate_file(
        self, path: Path, *, repair: bool = False, progress: Progress = silent
    ) -> tuple[Scores, list[str]]:
        """Score a labelled file; returns the scores and what the user should know."""
        notes: list[str] = []
        found = files.read(self.record, self.record.task, path, notes)
        if not found:
            raise UsageError(f"{path}: expected examples to evaluate on, got none: the file is empty")
        if self.record.scheme is not None:
            scheme = files.scheme_of(found, str(path))
            found = files.check_tags(found, scheme, str(path), repair, notes)
            found = files.in_scheme(found, self.record.scheme)
        files.refuse_unknown(found, self.labels, str(path))
        encoded = self.encoder.encode(found, str(path))
        notes += encoding_notes(encoded, self.record.long)
        return self.score(found, encoded, progress), notes

    def score(
        self, found: Sequence[Any], encoded: Encoded | None = None, progress: Progress = silent
    ) -> Scores:
        """Score labelled examples, which may have been encoded before."""
        encoded = encoded or self.encoder.encode(found)
        if self.record.task == "tag":
            tags = self._tags(found, encoded, progress)
            true = [sentence.tags for sentence in found]
            if self.record.scheme is None:
                return token_scores(true, tags)
            if self.record.scheme == "io":  # which merges neighbours of one type: the file's own tags decide
                true = [sentence.given or sentence.tags for sentence in found]
                scheme = schemes.detect(true)
                tags = [schemes.convert(one, scheme) for one in tags]
            return entity_scores(true, tags)
        rows = self._log_probs(len(found), encoded, progress)
        return class_scores(
            [example.label for example in found], [self.labels[int(row.argmax())] for row in rows]
        )

    def _log_probs(self, examples: int, encoded: Encoded, progress: Progress) -> torch.Tensor:
        """Return the mean log-probabilities of each example's pieces, [examples, labels]."""
        total = torch.zeros(examples, len(self.labels))
        pieces = torch.zeros(examples, 1)
        for number, logits in self._logits(encoded, progress):
            total[encoded.homes[number]] += logits.log_softmax(-1)
            pieces[encoded.homes[number]] += 1
        return total / pieces

    def _tags(self, found: Sequence[Any], encoded: Encoded, progress: Progress) -> list[list[str]]:
        """Return a tag for each word; a word that the tokenizer leaves nothing of gets O."""
        nothing = schemes.OUTSIDE if schemes.OUTSIDE in self.labels else self.labels[0]
        tags = [[nothing] * len(sentence.words) for sentence in found]
        for number, logits in self._logits(encoded, progress):
            best = logits.argmax(-1).tolist()
            for token, word in encoded.places[number]:
                tags[encoded.homes[number]][word] = self.labels[best[token]]
        if self.record.scheme is not None:  # what was learned may still break its scheme
            scheme: Any = self.record.scheme
            return [schemes.convert(one, scheme) for one in tags]
        return tags

    @torch.inference_mode()
    def _logits(self, encoded: Encoded, progress: Progress) -> Iterator[tuple[int, torch.Tensor]]:
        """Return (number of the feature, its logits), features of like length together."""
        sizes = [len(feature["input_ids"]) for feature in encoded.features]
        order = sorted(range(len(sizes)), key=sizes.__getitem__)
        batches, at = [], 0
        padded = not isinstance(self.tokenizer, LightTokenizer)
        while at < len(order):
            room = max(1, TOKENS_PER_PASS // max(sizes[order[min(at + 127, len(order) - 1)]], 1))
            batch = order[at : at + min(room, 128)]
            batches.append(batch if padded else [i for i in batch if sizes[i] == sizes[batch[0]]])
            at += len(batches[-1])
        for batch in progress.over(batches, total=len(order), size=len, stage="examples"):
            features = [
                {name: value for name, value in encoded.features[i].items() if name != "labels"}
                for i in batch
            ]
            if padded:
                inputs = self.tokenizer.pad(features, return_tensors="pt").to(self.device)
            else:
                ids = [feature["input_ids"] for feature in features]
                inputs = {"input_ids": torch.tensor(ids, device=self.device)}
            logits = self.model(**inputs).logits.cpu()
            yield from zip(batch, logits, strict=True)


def kind_of(task: Task) -> Any:
    """Return the class of models with the head that a task needs."""
    from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification

    return AutoModelForTokenClassification if task == "tag" else AutoModelForSequenceClassification


def encoding_notes(encoded: Encoded, long: str, examples: str = "texts") -> list[str]:
    """Say how many texts were longer than the window and what became of them, and which words vanished."""
    notes = []
    if encoded.overlong:
        how = "split into pieces" if long == "split" else "cut at the end"
        notes.append(f"{encoded.overlong:,} {examples} are longer than max_length and were {how}")
    if encoded.vanished:
        notes.append(
            f"of {plural(encoded.vanished, 'word')} in {examples} the tokenizer leaves nothing to tag"
        )
    return notes


def _unlabelled(example: Any) -> Any:
    return replace(example, tags=None) if hasattr(example, "tags") else replace(example, label=None)
