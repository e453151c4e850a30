"""The models that come with the package, each a directory here with its card."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Embedded:
    """A checkpoint that is part of the package."""

    name: str
    directory: Path
    architecture: str
    vocabulary: int
    window: int
    bytes: int
    licence: str
    summary: str


def locate(source: str) -> str:
    """Return the directory of an embedded model of that name, or the source as it is."""
    known = {config.parent.name: config.parent for config in HERE.glob("*/config.json")}
    return str(known.get(source, source))


def absolute(source: str) -> str:
    """Name a model's directory so that a worker elsewhere on this machine finds it; others as they are."""
    directory = Path(source)
    return str(directory.resolve()) if locate(source) == source and directory.is_dir() else source


def embedded() -> list[Embedded]:
    """Return the models that come with the package."""
    return [_describe(card.parent) for card in sorted(HERE.glob("*/README.md"))]


def _describe(directory: Path) -> Embedded:
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    header = _front_matter((directory / "README.md").read_text(encoding="utf-8"))
    return Embedded(
        name=directory.name,
        directory=directory,
        architecture=config["model_type"],
        vocabulary=config["vocab_size"],
        window=config["max_position_embeddings"],
        bytes=sum(f.stat().st_size for f in directory.iterdir() if f.is_file()),
        licence=header.get("license", "see its card"),
        summary=header.get("summary", ""),
    )


def _front_matter(card: str) -> dict[str, str]:
    """Read the `key: value` lines between the two --- at the head of a model card."""
    if not card.startswith("---"):
        return {}
    lines = card.split("---", 2)[1].splitlines()
    pairs = (line.partition(":") for line in lines if ":" in line and not line.startswith((" ", "-")))
    return {key.strip(): value.strip().strip("\"'") for key, _, value in pairs}
