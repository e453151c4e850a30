"""Tables of results in the pages of the docs, between `<!-- RECIPE: NAME -->` and `<!-- end -->`."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

END = "<!-- end -->"
WIDTH = 104
CODE = re.compile(r"`[^`]*`")
MARK = re.compile(r"<!-- (?P<recipe>[\w-]+): (?P<name>\S+) -->")


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """Return a table as Markdown; the first `left` columns hold words, the others numbers."""
    aligned = ["---"] * left + ["---:"] * (len(heads) - left)
    return "\n".join("| " + " | ".join(line) + " |" for line in [heads, aligned, *rows])


def renew(page: Path, recipe: str, tables: Mapping[str, str]) -> None:
    """Put the tables of a recipe between their marks; those of no mark are left out, an empty one clears."""
    text = renewed(page.read_text(encoding="utf-8"), recipe, tables)
    page.write_text(text, encoding="utf-8")


def renewed(text: str, recipe: str, tables: Mapping[str, str]) -> str:
    """Return the text of a page with the tables of a recipe between their marks."""
    kept: list[str] = []
    inside = False
    for line in text.splitlines():
        inside = inside and line != END
        if not inside:
            kept.append(line)
        name = marked(line, recipe)
        if name in tables:
            kept += ["", wrapped(tables[name]), ""] if tables[name] else []
            inside = True
    return "\n".join(kept) + "\n"


def wrapped(text: str) -> str:
    """Break long lines of prose; rows of tables, fenced blocks and code in backticks stay whole."""
    lines: list[str] = []
    fenced = False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        if fenced or len(line) <= WIDTH or line.startswith(("|", "```")):
            lines.append(line)
            continue
        whole = CODE.sub(lambda code: code[0].replace(" ", "\0"), line)
        indent = "  " if line.startswith("- ") else ""
        broken = textwrap.wrap(
            whole, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
        lines += [part.replace("\0", " ") for part in broken]
    return "\n".join(lines)


def shown(text: str, recipe: str) -> Iterator[tuple[str, str]]:
    """Go through the names of a page's marks for a recipe, each with what stands there."""
    name, inside = None, list[str]()
    for line in text.splitlines():
        if line == END and name is not None:
            yield name, "\n".join(inside).strip()
            name = None
        elif name is not None:
            inside.append(line)
        else:
            name, inside = marked(line, recipe), []


def marked(line: str, recipe: str) -> str | None:
    """Return the name of the table that a line marks the place of, None if it is no mark of the recipe."""
    found = MARK.fullmatch(line)
    return found["name"] if found and found["recipe"] == recipe else None
