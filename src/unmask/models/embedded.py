"""The models that come with the package, each a directory here with its card."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
WEIGHTS = (".safetensors", ".bin")
READ_WITH_THEM = frozenset(
    {
        *("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"),
        *("added_tokens.json", "vocab.json", "vocab.txt", "merges.txt"),
        *("spiece.model", "sentencepiece.bpe.model"),
    }
)
"""The config and the tokenizer: what a checkpoint's answers depend on beside its weights."""


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


def weights_digest(source: str) -> str | None:
    """Return a digest of a checkpoint, which tells runs of one name apart; None for one on the hub.

    It covers the files that its answers depend on: the weights, the pair head, the config and
    the tokenizer.
    """
    files = [f for f in Path(locate(source)).glob("*") if f.suffix in WEIGHTS or f.name in READ_WITH_THEM]
    if not any(f.suffix in WEIGHTS for f in files):
        return None
    digest = hashlib.sha256()
    for path in sorted(files):
        with path.open("rb") as stream:
            digest.update(f"{path.name} ".encode() + hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()[:24]


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
