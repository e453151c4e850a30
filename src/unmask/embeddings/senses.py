"""Word senses by nearest neighbour: which sense's mean vector is nearest to the word in its context.

A sense's vector is the mean of the contextual vectors of its instances in a sense-tagged corpus; a new
instance gets the sense of its lemma and part of speech whose vector has the largest cosine with its own
(Peters et al. 2018; Loureiro & Jorge 2019). Senses differ in frequency a hundredfold, and the mean of one
instance is mostly chance; so beside the plain rule, cos(v, s), stands one that also heeds how common the
sense is, cos(v, s) + w · log(n of the sense / n of the lemma). The weight w = 0.05 was chosen on
SemEval-2007, by custom the development set of this framework.

A lemma that the corpus has not shown gets WordNet's first sense, where a WordNet is installed, and otherwise
no answer. The baseline is the most frequent sense of the corpus, with the same back-off.

Standardisation is linear, so the mean of standardised vectors is the standardised mean: one file serves both.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unmask.embeddings.encoder import Encoder
from unmask.embeddings.sense_corpus import Gold, Instance, Sentence
from unmask.embeddings.standardise import Array, Moments, Standardiser
from unmask.errors import RunError, UsageError
from unmask.progress import Progress, silent
from unmask.runs.run import in_batches
from unmask.text.reading import join_words

SENTENCES_A_CHUNK = 512
Entry = tuple[str, str]  # lemma and part of speech
BackOff = Callable[[str, str], str | None]


@dataclass(frozen=True)
class Senses:
    """The senses of a corpus: a mean vector and a count each, listed by lemma and part of speech."""

    model: str
    layers: str
    entries: dict[Entry, list[int]]  # rows of `keys`, the most frequent first
    keys: list[str]
    counts: list[int]
    vectors: Array
    standardiser: Standardiser
    instances: int = 0  # that they were learned from; one with two keys counts for two senses
    weights: str | None = None  # a digest of the model's, if it is known

    def save(self, path: Path) -> None:
        """Write one safetensors file."""
        from safetensors.numpy import save_file

        listed = [[lemma, pos, rows] for (lemma, pos), rows in self.entries.items()]
        about = {
            "model": self.model,
            "weights": self.weights,
            "layers": self.layers,
            "instances": self.instances,
            "keys": self.keys,
            "entries": listed,
        }
        tensors = {
            "vectors": self.vectors,
            "counts": np.asarray(self.counts),
            "mean": self.standardiser.mean,
            "deviation": self.standardiser.deviation,
        }
        save_file(tensors, path, metadata={"senses": json.dumps(about, ensure_ascii=False)})

    @classmethod
    def load(cls, path: Path) -> Senses:
        """Read what `save` wrote."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="np") as held:
                about = json.loads(held.metadata()["senses"])
                t = {name: held.get_tensor(name) for name in ("vectors", "counts", "mean", "deviation")}
        except FileNotFoundError:
            raise UsageError(f"no senses at '{path}': 'unmask wsd fit' makes them") from None
        except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
            raise RunError(f"'{path}' holds no senses that can be read ({error}): fit them anew") from None
        entries = {(lemma, pos): rows for lemma, pos, rows in about["entries"]}
        return cls(
            about["model"],
            about["layers"],
            entries,
            about["keys"],
            [int(count) for count in t["counts"]],
            t["vectors"],
            Standardiser(t["mean"], t["deviation"]),
            about.get("instances", 0),
            about.get("weights"),
        )

    def most_frequent(self, instance: Instance) -> str | None:
        """Return the most frequent sense of an instance's lemma, or None if the corpus has none."""
        rows = self.entries.get(instance.entry)
        return self.keys[rows[0]] if rows else None

    def nearest(self, instance: Instance, vector: Array, space: Array, prior: float = 0.0) -> str | None:
        """Return the sense whose row of `space` is nearest, or None for an unseen lemma."""
        rows = self.entries.get(instance.entry)
        if not rows:
            return None
        own = space[rows]
        lengths = np.linalg.norm(own, axis=1) * np.linalg.norm(vector)
        counts = np.array([self.counts[row] for row in rows], dtype=float)
        closeness = own @ vector / np.maximum(lengths, 1e-12) + prior * np.log(counts / counts.sum())
        return self.keys[rows[int(closeness.argmax())]]


def instance_vectors(
    encoder: Encoder, sentences: Iterable[Sentence], layers: str, progress: Progress = silent, total: int = 0
) -> Iterator[tuple[Instance, Array]]:
    """Return the vector of every instance that the tokenizer leaves something of, [features]."""
    reader = encoder.reader()
    choice = encoder.layers(layers)
    chunks = in_batches(sentences, SENTENCES_A_CHUNK)
    for chunk in progress.over(chunks, total=total, size=len, stage="sentences"):
        readings, homes = [], []
        for sentence in chunk:
            reading = reader.read_words(sentence.words)
            starts = [start for start, _ in join_words(sentence.words)[1]]
            by_start = {unit.start: unit for unit in reading.units}
            mine = [i for i in sentence.instances if starts[i.word] in by_start]
            reading.units[:] = [by_start[starts[i.word]] for i in mine]
            readings.append(reading)
            homes += mine
        (vectors,) = encoder.embed(readings, reader, [choice])
        yield from zip(homes, vectors, strict=True)


def fit(
    encoder: Encoder,
    sentences: Iterable[Sentence],
    gold: Gold,
    *,
    layers: str = "last4",
    progress: Progress = silent,
    total: int = 0,
) -> Senses:
    """Learn the senses of a corpus; instances without a gold key are passed over."""
    sums: dict[tuple[Entry, str], Array] = {}
    counts: dict[tuple[Entry, str], int] = defaultdict(int)
    moments: Moments | None = None
    instances = 0
    for instance, vector in instance_vectors(encoder, sentences, layers, progress, total):
        if moments is None:
            moments = Moments(len(vector))
        moments.add(vector[None])
        instances += instance.id in gold
        for key in gold.get(instance.id, ()):
            place = (instance.entry, key)
            counts[place] += 1
            sums[place] = sums[place] + vector if place in sums else vector.astype(np.float64)
    if moments is None or not sums:
        raise UsageError("the corpus has no instance with a gold key: do the ids of both files agree?")
    order = sorted(counts, key=lambda place: (place[0], -counts[place], place[1]))
    entries: dict[Entry, list[int]] = defaultdict(list)
    for row, (entry, _) in enumerate(order):
        entries[entry].append(row)
    vectors = np.stack([sums[place] / counts[place] for place in order]).astype(np.float32)
    return Senses(
        encoder.name,
        layers,
        dict(entries),
        [key for _, key in order],
        [counts[place] for place in order],
        vectors,
        moments.standardiser(),
        instances,
        encoder.weights,
    )


@dataclass(frozen=True)
class Answers:
    """The sense given to each instance by each method; None where there is no answer."""

    instances: list[Instance]
    by_method: dict[str, list[str | None]]


PRIOR = 0.05
"""The default weight of a sense's frequency."""
BASELINE = "most frequent"


def method_name(*, standardised: bool, prior: bool) -> str:
    """Return under which name the answers of a method stand."""
    return ("standardised" if standardised else "raw") + (" + prior" if prior else "")


def predict(
    senses: Senses,
    encoder: Encoder,
    sentences: Iterable[Sentence],
    *,
    prior: float = PRIOR,
    back_off: BackOff = lambda _lemma, _pos: None,
    progress: Progress = silent,
    total: int = 0,
) -> Answers:
    """Disambiguate every instance by each method.

    They are the nearest sense of raw and of standardised vectors, each without and with the prior, and the
    most frequent sense.
    """
    sentences = list(sentences)
    vectors = {
        instance.id: vector
        for instance, vector in instance_vectors(encoder, sentences, senses.layers, progress, total)
    }
    even = senses.standardiser.apply(senses.vectors)
    instances = [instance for sentence in sentences for instance in sentence.instances]
    names = [method_name(standardised=s, prior=p) for p in (False, True) for s in (False, True)]
    found: dict[str, list[str | None]] = {name: [] for name in [*names, BASELINE]}
    for instance in instances:
        vector = vectors.get(instance.id)
        frequent = senses.most_frequent(instance) or back_off(instance.lemma, instance.pos)
        found[BASELINE].append(frequent)
        for standardised in (False, True):
            for weight in dict.fromkeys((0.0, prior)):
                answer = None
                if vector is not None:
                    shown = senses.standardiser.apply(vector[None])[0] if standardised else vector
                    space = even if standardised else senses.vectors
                    answer = senses.nearest(instance, shown, space, weight)
                name = method_name(standardised=standardised, prior=weight != 0.0)
                found[name].append(answer or frequent)
    return Answers(instances, {name: given for name, given in found.items() if given})


@dataclass(frozen=True)
class WsdScore:
    """Precision over the answered, recall over all, and F1 of both."""

    instances: int
    answered: int
    correct: int

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return 2 * self.correct / max(self.instances + self.answered, 1)

    def record(self) -> dict[str, Any]:
        """The numbers by name."""
        return {
            "instances": self.instances,
            "answered": self.answered,
            "precision": self.correct / max(self.answered, 1),
            "recall": self.correct / max(self.instances, 1),
            "f1": self.f1,
        }


def score(answers: Answers, gold: Gold) -> dict[str, dict[str, WsdScore]]:
    """Return the score of each method in all and by part of speech; any of several gold keys is right."""
    unknown = [instance.id for instance in answers.instances if instance.id not in gold]
    if unknown:
        raise UsageError(f"instance {unknown[0]} has no gold key: do the ids of both files agree?")
    scores: dict[str, dict[str, WsdScore]] = {}
    for method, given in answers.by_method.items():
        by_pos: Mapping[str, list[int]] = defaultdict(lambda: [0, 0, 0])
        for instance, key in zip(answers.instances, given, strict=True):
            for place in ("all", instance.pos):
                by_pos[place][0] += 1
                by_pos[place][1] += key is not None
                by_pos[place][2] += key in gold[instance.id]
        scores[method] = {pos: WsdScore(*numbers) for pos, numbers in sorted(by_pos.items())}
    return scores
