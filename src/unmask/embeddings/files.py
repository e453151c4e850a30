"""Embedding a whole file: streamed in chunks, resumable, over a Ray cluster if asked.

Each chunk of texts is written into `OUT.partial/` as soon as it is done, under its number, so a killed run
has lost at most one; the same command goes on with the rest. When all are there they are joined, in order,
into OUT. Chunks depend on the input alone, not on who computes them, so any mixture of sittings and machines
gives one result.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unmask.embeddings.encoder import Encoder
from unmask.embeddings.formats import Chunk, check_format, units_file, write
from unmask.embeddings.reading import LongTexts, Pooling, Splitting, UnitKind
from unmask.embeddings.standardise import Standardiser
from unmask.embeddings.texts import Text, chunks_of, read_texts
from unmask.errors import Misuse
from unmask.progress import Progress, silent
from unmask.training.directory import claim, disk_failure

TEXTS_A_CHUNK = 256


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
    size: int | None = None  # of the texts' file, so that another file under its name is noticed

    def record(self) -> dict[str, Any]:
        """The settings as JSON knows them."""
        return asdict(self)


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
    """A chunk that is done: vectors, units and what happened to its texts."""

    vectors: np.ndarray[Any, Any]
    units: list[dict[str, Any]]
    texts: int
    vanished: int
    overlong: int


def embed_file(wanted: Wanted, out: Path, *, ray: str | None = None, progress: Progress = silent) -> Written:
    """Write the vectors of a file's texts; a run that was killed goes on where it was."""
    check_format(out)
    if out.exists():
        raise Misuse(f"'{out}' exists: give another name, or remove it first")
    try:
        return _embed_file(wanted, out, ray, progress)
    except OSError as error:
        raise disk_failure(error, out) from error


def _embed_file(wanted: Wanted, out: Path, ray: str | None, progress: Progress) -> Written:
    partial = out.with_name(out.name + ".partial")
    claim(partial, wanted, "a run of 'unmask embed'")
    done = {int(path.stem) for path in partial.glob("*.npz")}
    chunks = enumerate(chunks_of(read_texts(wanted.texts), TEXTS_A_CHUNK))
    todo = ((number, texts) for number, texts in chunks if number not in done)
    encode = chunk_encoder(wanted)
    progress.started("texts", 0 if wanted.texts == "-" else _count(wanted.texts))
    try:
        progress.advanced(TEXTS_A_CHUNK * len(done))
        for number, found in _spread(todo, encode, ray):
            _keep(partial / f"{number:08}.npz", found)
            progress.advanced(found.texts)
    finally:
        progress.finished()
    return _join(wanted, partial, out)


def chunk_encoder(wanted: Wanted) -> Callable[[], Callable[[tuple[int, list[Text]]], Embedded]]:
    """Return a maker of the function that embeds one chunk; the model is opened where it is called."""

    # a worker on a cluster has another working directory
    model = str(Path(wanted.model).resolve()) if Path(wanted.model).is_dir() else wanted.model
    statistics = Path(wanted.standardiser).resolve() if wanted.standardiser else None

    def make() -> Callable[[tuple[int, list[Text]]], Embedded]:
        encoder = Encoder.load(model, device=wanted.device, allow_pickle=wanted.allow_pickle)
        choice = encoder.layers(wanted.layers)
        reader = encoder.reader(
            unit=wanted.unit, pooling=wanted.pooling, split=wanted.split, long=wanted.long
        )
        even = Standardiser.load(statistics, choice.name) if statistics else None

        def embed(task: tuple[int, list[Text]]) -> Embedded:
            number, texts = task
            readings = list(reader.read_all(texts))
            (vectors,) = encoder.embed(readings, reader, [choice])
            vectors = even.apply(vectors) if even is not None else vectors
            units = [
                {"text": number * TEXTS_A_CHUNK + i, "unit": unit.name, "start": unit.start, "end": unit.end}
                for i, reading in enumerate(readings)
                for unit in reading.units
            ]
            return Embedded(
                vectors,
                units,
                len(texts),
                sum(reading.vanished for reading in readings),
                sum(reading.overlong for reading in readings),
            )

        return embed

    return make


def _spread(todo: Iterator[Any], make: Any, ray: str | None) -> Iterator[tuple[int, Embedded]]:
    if ray is None:
        embed = make()
        for task in todo:
            yield task[0], embed(task)
        return
    from unmask.cluster import spread

    numbers: list[int] = []

    def tasks() -> Iterator[Any]:
        for task in todo:
            numbers.append(task[0])
            yield task

    for index, found in spread(tasks(), make, address=ray):
        yield numbers[index], found


def _keep(path: Path, found: Embedded) -> None:
    """Write a chunk beside its place and move it there: a file under its name is whole."""
    about = {"units": found.units, "texts": found.texts, "vanished": found.vanished}
    about["overlong"] = found.overlong
    beside = path.with_suffix(".writing")
    with beside.open("wb") as stream:
        np.savez(stream, vectors=found.vectors, about=np.frombuffer(json.dumps(about).encode(), np.uint8))
    beside.replace(path)


def _kept(path: Path) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
    with np.load(path, allow_pickle=False) as held:
        return held["vectors"], json.loads(held["about"].tobytes())


def _join(wanted: Wanted, partial: Path, out: Path) -> Written:
    paths = sorted(partial.glob("*.npz"))
    if not paths:
        shutil.rmtree(partial)
        raise Misuse(f"{wanted.texts}: expected at least one text, a line each, got none")
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
