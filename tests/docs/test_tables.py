"""The tables of the results pages are those that the recipes write from the committed numbers."""

import importlib
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIGURES = ROOT / "docs" / "figures"
BACKGROUND = ROOT / "docs" / "background"
sys.path.append(str(ROOT / "recipes"))


def _tables(recipe: str) -> dict[str, str]:
    module = importlib.import_module(recipe)
    found = json.loads((FIGURES / f"{recipe}.json").read_text(encoding="utf-8"))
    if recipe == "encoders":
        return {part: module.TABLES[part](numbers) for part, numbers in found.items()}
    return module.tables(found)


@pytest.mark.parametrize(
    ("recipe", "pages"),
    [
        ("table", ["results-constructions.md", "results-full-tables.md"]),
        ("beyond", ["results-benchmarks.md"]),
        ("encoders", ["results-encoders.md"]),
        ("compatibility", ["compatibility-study.md"]),
        ("reliability", ["reliability.md"]),
    ],
)
def test_the_pages_show_every_table_of_a_recipe_as_it_writes_it(recipe, pages, tmp_path):
    tables = _tables(recipe)
    renew = importlib.import_module("pages").renew
    shown = ""
    for page in pages:
        text = (BACKGROUND / page).read_text(encoding="utf-8")
        copy = tmp_path / page
        copy.write_text(text, encoding="utf-8")
        renew(copy, recipe, tables)
        assert copy.read_text(encoding="utf-8") == text
        shown += text
    for name in tables:
        assert f"% {recipe}: {name}\n" in shown
