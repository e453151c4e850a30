"""Tables of results in the pages of the docs, between `% RECIPE: NAME` and `% end`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """Return a table as Markdown; the first `left` columns hold words, the others numbers."""
    aligned = ["---"] * left + ["---:"] * (len(heads) - left)
    return "\n".join("| " + " | ".join(line) + " |" for line in [heads, aligned, *rows])


def renew(page: Path, recipe: str, tables: Mapping[str, str]) -> None:
    """Put the tables of a recipe between their marks; those of no mark are left out."""
    kept, inside = [], False
    for line in page.read_text(encoding="utf-8").splitlines():
        if line == "% end":
            inside = False
        if not inside:
            kept.append(line)
        name = line.removeprefix(f"% {recipe}: ")
        if name != line and name in tables:
            kept += ["", tables[name], ""]
            inside = True
    page.write_text("\n".join(kept) + "\n", encoding="utf-8")
