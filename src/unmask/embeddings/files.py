"""Embedding a whole file: streamed in chunks, resumable, over a Ray cluster if asked.

The run's directory is `OUT.partial/`. The vectors of each chunk of texts go into a file of their own, and
then its record is made, under its number and a digest of its texts: a killed run has lost at most one chunk,
and chunks whose texts have changed meanwhile are done anew. In the end they are joined, in order, into OUT.
Chunks depend on the input alone, so any mixture of attempts and machines gives one result.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from unmask.embeddings.encoder import Encoder
from unmask.embeddings.formats import Rows, check_format, units_file, write
from unmask.embeddings.standardise import Standardiser
from unmask.errors import RunError, UsageError
from unmask.models.digests import weights_digest
from unmask.models.embedded import absolute
from unmask.progress import Progress, silent
from unmask.runs.claim import remove
from unmask.runs.run import Run, in_batches
from unmask.runs.settings_record import NAME, RunKind
from unmask.text.lines import read_lines, read_objects
from unmask.text.reading import LongTexts, Pooling, Splitting, UnitKind

CHUNKS = "chunks"
VECTORS = RunKind(
    "run of 'unmask embed'",
    records="records.jsonl",
    may_change=frozenset({"allow_pickle"}),
    prepared=(CHUNKS,),
    earlier=(NAME, frozenset({"texts", "unit", "weights"})),
)
TEXTS_A_CHUNK = 256
Text = str | Sequence[str]
Numbered = tuple[int, Text]  # a text and the number of its line, from 0
Chunk = tuple[str, list[Numbered]]  # its key and its texts


@dataclass(frozen=True)
class Settings:
    """What is to be embedded, and how."""

    texts: str
    model: str = "english"
    layers: str = "last"
    unit: UnitKind = "word"
    pooling: Pooling = "mean"
    split: Splitting = "words"
    long: LongTexts = "split"
    standardiser: str | None = None
    device: str = "auto"
    allow_pickle: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain data; weights and statistics count by what they hold."""
        statistics = None
        if self.standardiser is not None and Path(self.standardiser).is_file():
            statistics = hashlib.sha256(Path(self.standardiser).read_bytes()).hexdigest()[:24]
        return asdict(self) | {"weights": weights_digest(self.model), "statistics": statistics}


@dataclass(frozen=True)
class Result:
    """What a run left behind."""

    out: Path
    rows: int
    width: int
    texts: int
    vanished: int
    overlong: int
    layers: str

    def record(self) -> dict[str, Any]:
        """The answer as JSON knows it."""
        return asdict(self) | {"out": str(self.out)}


@dataclass(frozen=True)
class EmbeddedChunk:
    """A chunk that is done: its vectors and units, and how many there are of what."""

    key: str
    vectors: np.ndarray[Any, Any]
    units: list[dict[str, Any]]
    about: dict[str, int]


def embed_file(
    settings: Settings, out: Path, *, ray: str | None = None, progress: Progress = silent
) -> Result:
    """Write the vectors of a file's texts; a killed run is resumed."""
    check_format(out)
    if out.exists():
        raise UsageError(f"'{out}' exists: give another name, or remove it first")
    partial = out.with_name(out.name + ".partial")
    with Run.in_directory(VECTORS, partial, settings.to_dict()) as run:
        (partial / CHUNKS).mkdir(exist_ok=True)
        records = {record["key"]: record for record in run}
        keys: list[str] = []

        def tasks() -> Iterator[Chunk]:
            """Read the chunks, and note the order of those that there are now."""
            for number, texts in enumerate(in_batches(numbered_texts(settings.texts), TEXTS_A_CHUNK)):
                keys.append(key_of(number, texts))
                yield keys[-1], texts

        for record in run.work(
            tasks(),
            chunk_encoder(settings),
            key=itemgetter(0),
            keep=lambda found: _keep(partial, found),
            ray=ray,
            total=0 if settings.texts == "-" else sum(1 for _ in read_texts(settings.texts)),
            done=sum(record["texts"] for record in records.values()),
            units=lambda batch: sum(found.about["texts"] for found in batch),
            stage="texts",
            progress=progress,
        ):
            records[record["key"]] = record
        if not keys:
            remove(partial)
            raise UsageError(f"{settings.texts}: expected at least one text, one per line, got none")
        result = _join(settings, partial, out, [records[key] for key in keys])
        remove(partial)
    return result


def key_of(number: int, texts: list[Numbered]) -> str:
    """Return what tells a chunk of texts from any other."""
    digest = hashlib.sha256(json.dumps(texts).encode()).hexdigest()
    return f"{number:08}-{digest[:24]}"


def chunk_encoder(settings: Settings) -> Callable[[], Callable[[list[Chunk]], list[EmbeddedChunk]]]:
    """Return a maker of the function that embeds chunks; the model is opened where it is called."""

    # a worker on a cluster has another working directory
    model = absolute(settings.model)
    statistics = Path(settings.standardiser).resolve() if settings.standardiser else None

    def make() -> Callable[[list[Chunk]], list[EmbeddedChunk]]:
        encoder = Encoder.load(model, device=settings.device, allow_pickle=settings.allow_pickle)
        choice = encoder.layers(settings.layers)
        reader = encoder.reader(
            **{name: getattr(settings, name) for name in ("unit", "pooling", "split", "long")}
        )
        even = Standardiser.load(statistics, choice.name, encoder.weights) if statistics else None

        def embed(key: str, texts: list[Numbered]) -> EmbeddedChunk:
            readings = list(reader.read_all(text for _, text in texts))
            (vectors,) = encoder.embed(readings, reader, [choice])
            vectors = even.apply(vectors) if even is not None else vectors
            units = [
                {"text": line, "unit": unit.name, "start": unit.start, "end": unit.end}
                for (line, _), reading in zip(texts, readings, strict=True)
                for unit in reading.units
            ]
            about = {
                "rows": len(vectors),
                "width": vectors.shape[1],
                "texts": len(texts),
                "vanished": sum(reading.vanished for reading in readings),
                "overlong": sum(reading.overlong for reading in readings),
            }
            return EmbeddedChunk(key, vectors, units, about)

        return lambda chunks: [embed(*chunk) for chunk in chunks]

    return make


def _keep(partial: Path, found: EmbeddedChunk) -> dict[str, Any]:
    """Write the vectors and units of a chunk, and return its record, which says that they are whole."""
    with _chunk_file(partial, found.key).open("wb") as stream:
        units = np.frombuffer(json.dumps(found.units).encode(), np.uint8)
        np.savez(stream, vectors=found.vectors, units=units)
        stream.flush()
        os.fsync(stream.fileno())
    return {"key": found.key, **found.about}


def _kept(partial: Path, key: str) -> Rows:
    path = _chunk_file(partial, key)
    try:
        with np.load(path, allow_pickle=False) as held:
            return held["vectors"], json.loads(held["units"].tobytes())
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        raise RunError(f"{path} is damaged: remove {partial} and start the same command again") from None


def _chunk_file(partial: Path, key: str) -> Path:
    return partial / CHUNKS / f"{key}.npz"


def _join(settings: Settings, partial: Path, out: Path, records: list[dict[str, Any]]) -> Result:
    """Write the chunks of the present texts, in their order, into one file."""
    counted = ("rows", "texts", "vanished", "overlong")
    counts = {name: sum(record[name] for record in records) for name in counted}
    width = records[-1]["width"]
    chunks: Iterable[Rows] = (_kept(partial, record["key"]) for record in records)
    if settings.unit == "type":
        merged = average_types(chunks, width)
        counts["rows"] = len(merged[0])
        chunks = [merged]
    beside = out.with_name(f".{out.stem}.writing{out.suffix}")
    about = {name: getattr(settings, name) for name in ("model", "layers", "unit", "pooling")}
    write(beside, chunks, counts["rows"], width, about)
    if units_file(beside).exists():
        units_file(beside).replace(units_file(out))
    beside.replace(out)
    return Result(out, width=width, layers=settings.layers, **counts)


def average_types(chunks: Iterable[Rows], width: int) -> Rows:
    """Return one static vector a distinct word: the mean of its contextual ones, the commonest first."""
    sums: dict[str, np.ndarray[Any, Any]] = {}
    counts: Counter[str] = Counter()
    for vectors, units in chunks:
        for vector, unit in zip(vectors, units, strict=True):
            name = unit["unit"]
            counts[name] += 1
            sums[name] = sums.get(name, 0.0) + vector.astype(np.float64)
    order = sorted(counts, key=lambda name: (-counts[name], name))
    matrix = np.stack([sums[name] / counts[name] for name in order]) if order else np.zeros((0, width))
    return matrix.astype(np.float32), [{"unit": name, "count": counts[name]} for name in order]


def read_texts(path: str | Path) -> Iterator[Text]:
    """Return the texts of a file, one per line: plain, or JSON lines with a `text` or the `words` of each.

    `.gz` files are unpacked, `-` is standard input. Empty lines are skipped. A file need not fit in memory.
    """
    return (text for _, text in numbered_texts(path))


def numbered_texts(path: str | Path) -> Iterator[tuple[int, Text]]:
    """Return the same, each with the number of its line from 0."""
    if not str(path).removesuffix(".gz").endswith((".jsonl", ".ndjson")):
        yield from ((number - 1, line) for number, line in read_lines(path) if line.strip())
        return
    for number, record in read_objects(path):
        found: Any = record.get("text", record.get("words"))
        words = isinstance(found, list) and found
        if not (isinstance(found, str) or (words and all(isinstance(w, str) and w.strip() for w in words))):
            raise UsageError(
                f'{path}, line {number}: expected {{"text": "..."}} or {{"words": ["...", ...]}}'
            )
        yield number - 1, found
