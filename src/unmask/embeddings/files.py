"""Embedding a whole file: streamed in chunks, resumable, over a Ray cluster if asked.

Each chunk of texts is written into `OUT.partial/` as soon as it is done, under its number and with a digest
of its texts, so a killed run has lost at most one; the same command goes on with the rest, and does those
anew whose texts have changed meanwhile. When all are there they are joined, in order, into OUT. Chunks depend
on the input alone, not on who computes them, so any mixture of sittings and machines gives one result.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unmask.embeddings.encoder import Encoder
from unmask.embeddings.formats import Chunk, check_format, units_file, write
from unmask.embeddings.standardise import Standardiser
from unmask.embeddings.texts import Text, chunks_of, numbered_texts, read_texts
from unmask.errors import UsageError
from unmask.models.embedded import absolute, weights_digest
from unmask.progress import Progress, silent
from unmask.runs.directory import alone, claim, disk_failure
from unmask.text.reading import LongTexts, Pooling, Splitting, UnitKind

TEXTS_A_CHUNK = 256
Numbered = tuple[int, Text]  # a text and the number of its line, from 0


@dataclass(frozen=True)
class Wanted:
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

    def record(self) -> dict[str, Any]:
        """The settings as JSON knows them; weights and statistics count by what they hold."""
        statistics = None
        if self.standardiser is not None and Path(self.standardiser).is_file():
            statistics = hashlib.sha256(Path(self.standardiser).read_bytes()).hexdigest()[:24]
        return asdict(self) | {"weights": weights_digest(self.model), "statistics": statistics}


@dataclass(frozen=True)
class Written:
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
class Embedded:
    """A chunk that is done: vectors, units, and what its texts were and what happened to them."""

    vectors: np.ndarray[Any, Any]
    units: list[dict[str, Any]]
    texts: int
    vanished: int
    overlong: int
    digest: str  # of the texts


def embed_file(wanted: Wanted, out: Path, *, ray: str | None = None, progress: Progress = silent) -> Written:
    """Write the vectors of a file's texts; a run that was killed goes on where it was."""
    check_format(out)
    if out.exists():
        raise UsageError(f"'{out}' exists: give another name, or remove it first")
    partial = out.with_name(out.name + ".partial")
    try:
        with alone(partial):
            return _embed_file(wanted, out, partial, ray, progress)
    except OSError as error:
        raise disk_failure(error, out) from error


def _embed_file(wanted: Wanted, out: Path, partial: Path, ray: str | None, progress: Progress) -> Written:
    claim(
        partial,
        wanted,
        "a run of 'unmask embed'",
        f"it is in the way of '{out}'; remove it, or give another --out",
    )
    chunks = chunks_of(numbered_texts(wanted.texts), TEXTS_A_CHUNK)
    todo = _unfinished(chunks, partial, progress)
    encode = chunk_encoder(wanted)
    progress.started("texts", 0 if wanted.texts == "-" else _count(wanted.texts))
    try:
        for number, found in _spread(todo, encode, ray):
            _keep(partial / f"{number:08}.npz", found)
            progress.advanced(found.texts)
    finally:
        progress.finished()
    return _join(wanted, partial, out)


def _unfinished(
    chunks: Iterable[list[Numbered]], partial: Path, progress: Progress
) -> Iterator[tuple[int, list[Numbered]]]:
    """Return the chunks that are not done yet; what is left of a longer input is removed."""
    held = {int(path.stem): path for path in partial.glob("*.npz")}
    for number, texts in enumerate(chunks):
        path = held.pop(number, None)
        if path is not None and _about(path).get("digest") == digest_of(texts):
            progress.advanced(len(texts))
        else:
            yield number, texts
    for path in held.values():
        path.unlink()


def digest_of(texts: list[Numbered]) -> str:
    """Return what tells a chunk of texts from any other."""
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


def chunk_encoder(wanted: Wanted) -> Callable[[], Callable[[tuple[int, list[Numbered]]], Embedded]]:
    """Return a maker of the function that embeds one chunk; the model is opened where it is called."""

    # a worker on a cluster has another working directory
    model = absolute(wanted.model)
    statistics = Path(wanted.standardiser).resolve() if wanted.standardiser else None

    def make() -> Callable[[tuple[int, list[Numbered]]], Embedded]:
        encoder = Encoder.load(model, device=wanted.device, allow_pickle=wanted.allow_pickle)
        choice = encoder.layers(wanted.layers)
        reader = encoder.reader(
            unit=wanted.unit, pooling=wanted.pooling, split=wanted.split, long=wanted.long
        )
        even = Standardiser.load(statistics, choice.name, encoder.weights) if statistics else None

        def embed(task: tuple[int, list[Numbered]]) -> Embedded:
            _, texts = task
            readings = list(reader.read_all(text for _, text in texts))
            (vectors,) = encoder.embed(readings, reader, [choice])
            vectors = even.apply(vectors) if even is not None else vectors
            units = [
                {"text": line, "unit": unit.name, "start": unit.start, "end": unit.end}
                for (line, _), reading in zip(texts, readings, strict=True)
                for unit in reading.units
            ]
            return Embedded(
                vectors,
                units,
                len(texts),
                sum(reading.vanished for reading in readings),
                sum(reading.overlong for reading in readings),
                digest_of(texts),
            )

        return embed

    return make


def _spread(todo: Iterator[Any], make: Any, ray: str | None) -> Iterator[tuple[int, Embedded]]:
    if ray is None:
        embed = make()
        for task in todo:
            yield task[0], embed(task)
        return
    from unmask.runs.cluster import spread

    numbers: list[int] = []

    def tasks() -> Iterator[Any]:
        for task in todo:
            numbers.append(task[0])
            yield task

    for index, found in spread(tasks(), make, address=ray):
        yield numbers[index], found


def _keep(path: Path, found: Embedded) -> None:
    """Write a chunk beside its place and move it there: a file under its name is whole."""
    about = {name: value for name, value in vars(found).items() if name != "vectors"}
    beside = path.with_suffix(".writing")
    with beside.open("wb") as stream:
        np.savez(stream, vectors=found.vectors, about=np.frombuffer(json.dumps(about).encode(), np.uint8))
    beside.replace(path)


def _kept(path: Path) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
    with np.load(path, allow_pickle=False) as held:
        return held["vectors"], json.loads(held["about"].tobytes())


def _about(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as held:
        found: dict[str, Any] = json.loads(held["about"].tobytes())
        return found


def _join(wanted: Wanted, partial: Path, out: Path) -> Written:
    paths = sorted(partial.glob("*.npz"))
    if not paths:
        shutil.rmtree(partial)
        raise UsageError(f"{wanted.texts}: expected at least one text, a line each, got none")
    counts: Counter[str] = Counter()
    width = 0
    for path in paths:
        vectors, about = _kept(path)
        width = vectors.shape[1]
        counts.update(
            {name: about[name] for name in ("texts", "vanished", "overlong")} | {"rows": len(vectors)}
        )

    def chunks() -> Iterator[Chunk]:
        for path in paths:
            vectors, about = _kept(path)
            yield vectors, about["units"]

    source: Any = chunks()
    if wanted.unit == "type":
        merged = average_types(chunks(), width)
        counts["rows"] = len(merged[0])
        source = [merged]
    beside = out.with_name(f".{out.stem}.writing{out.suffix}")
    about = {"model": wanted.model, "layers": wanted.layers, "unit": wanted.unit, "pooling": wanted.pooling}
    write(beside, source, counts["rows"], width, about)
    if units_file(beside).exists():
        units_file(beside).replace(units_file(out))
    beside.replace(out)
    shutil.rmtree(partial)
    return Written(
        out, counts["rows"], width, counts["texts"], counts["vanished"], counts["overlong"], wanted.layers
    )


def average_types(chunks: Iterator[Chunk], width: int) -> Chunk:
    """Return one static vector a distinct word: the mean of its contextual ones, the commonest first."""
    sums: dict[str, np.ndarray[Any, Any]] = {}
    counts: Counter[str] = Counter()
    for vectors, units in chunks:
        for vector, unit in zip(vectors, units, strict=True):
            name = unit["unit"]
            counts[name] += 1
            if name in sums:
                sums[name] += vector
            else:
                sums[name] = vector.astype(np.float64)
    order = sorted(counts, key=lambda name: (-counts[name], name))
    matrix = np.stack([sums[name] / counts[name] for name in order]) if order else np.zeros((0, width))
    return matrix.astype(np.float32), [{"unit": name, "count": counts[name]} for name in order]


def _count(path: str) -> int:
    return sum(1 for _ in read_texts(path))
