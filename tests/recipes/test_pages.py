"""Numbers are put between the marks of a page, as text that can be read."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "recipes"))

from pages import WIDTH, renewed, shown, wrapped


def test_a_place_gets_its_numbers_and_other_places_stay():
    places = [f"<!-- {name} -->\nold\n<!-- end -->\n" for name in ("a: one", "a: two", "b: one")]
    page = "\n".join(["before\n", *places])
    now = renewed(page, "a", {"one": "new"})
    assert dict(shown(now, "a")) == {"one": "new", "two": "old"}
    assert dict(shown(now, "b")) == {"one": "old"}
    assert renewed(now, "a", {"one": "new"}) == now


def test_prose_is_wrapped_and_what_would_break_is_not():
    words, code = "word " * 50, "`" + "code " * 30 + "`"
    table, fence = "| " + "cell | " * 40, "```text\n" + "x " * 100 + "\n```"
    broken = wrapped(f"- {words}\n{words}{code} {words}\n{table}\n{fence}").splitlines()
    assert max(len(line) for line in broken if line.startswith(("- ", "  ", "word"))) <= WIDTH
    assert broken[1].startswith("  word")
    assert any(code in line for line in broken)
    assert table in broken
    assert "x " * 100 in broken
