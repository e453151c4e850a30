"""Whom to cite: every method has its sources, and every source that the code names has its entry."""

import re
from pathlib import Path

import unmask
from unmask.citations import USES, citations, references
from unmask.inference.sentence_scores import SCORES

SOURCE = Path(unmask.__file__).parent
NAMED = re.compile(
    r"([A-Z][\w-]+)(?:,?\s+(?:[A-Z]\w+,?\s+)?(?:&|and)\s+(?:van )?[A-Z]\w+|\s+et\s+al\.)"
    r",?\s+\(?((?:19|20)\d\d)\b"
)
"""Two authors or more and a year, as in Kauf & Ivanova (2023) or Devlin et al. 2019."""


def authors_and_year(entry: str) -> tuple[str, str]:
    author, year = (re.search(rf"{field}\s*= {{(.*?)}},?\n", entry, re.S) for field in ("author", "year"))
    assert author, entry
    assert year, entry
    return author[1], year[1]


def test_every_entry_has_its_own_key_a_title_authors_and_a_year() -> None:
    text = (SOURCE / "references.bib").read_text(encoding="utf-8")
    assert text.count("@") == len(references())
    for key, entry in references().items():
        assert re.match(rf"@\w+{{{key},\n  title ", entry)
        authors_and_year(entry)
        assert entry.count("{") == entry.count("}")


def test_every_use_has_entries_and_every_entry_a_use() -> None:
    assert {key for keys in USES.values() for key in keys} == set(references())


def test_constructions_and_scores_are_all_there() -> None:
    assert {*unmask.CONSTRUCTIONS, *SCORES} <= set(USES)


def test_whoever_the_code_names_can_be_cited() -> None:
    known = [authors_and_year(entry) for entry in references().values()]
    named = {found for path in SOURCE.rglob("*.py") for found in NAMED.findall(path.read_text("utf-8"))}
    assert len(named) > 20
    unknown = {(name, year) for name, year in named if not any(name in a and year == y for a, y in known)}
    assert not unknown


def test_the_entries_of_a_method_are_printed_in_order() -> None:
    keys = re.findall(r"@\w+{(\w+),", citations("hcb"))
    assert keys == ["besag1974", "torroba2023"]
