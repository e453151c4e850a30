"""The architecture page names every module of the package, and no module that is gone."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "unmask"
PAGE = (ROOT / "docs" / "background" / "architecture.md").read_text(encoding="utf-8")
MODULES = sorted(p for p in PACKAGE.rglob("*.py") if p.stem != "__init__" and "cli" not in p.parts)


def _named() -> set[str]:
    """Return what the page sets in code, each with the last part of a dotted name."""
    words = re.findall(r"`([a-z_.]+?)(?:\.py)?`", PAGE)
    return {word.rpartition(".")[2] for word in words} | set(words)


@pytest.mark.parametrize("module", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_every_module_is_on_the_map(module):
    assert module.stem in _named(), f"the architecture page has no line for {module.name}"


def test_the_map_lists_no_module_that_is_gone():
    tables = [line for line in PAGE.splitlines() if line.startswith("| `")]
    first_cells = " ".join(line.split("|")[1] for line in tables)
    there = {p.stem for p in PACKAGE.rglob("*.py")} | {p.name for p in PACKAGE.rglob("*") if p.is_dir()}
    gone = {n.rpartition(".")[2] for n in re.findall(r"`([a-z_.]+)`", first_cells)} - there
    assert not gone
