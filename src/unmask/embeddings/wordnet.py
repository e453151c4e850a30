"""WordNet's first sense of a lemma, read from WordNet's own database files (`wndb(5WN)`).

`index.noun` and its like list a lemma's synsets, the most frequent sense first; `data.noun` has at each
synset's offset the words and numbers of which a sense key is made: lemma%type:file:id:head:headid
(`senseidx(5WN)`). The files are those of Princeton's distribution, of Debian's package wordnet-base and of
NLTK's `wordnet` corpus.
"""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path

from unmask.errors import UsageError

FILES = {"NOUN": "noun", "VERB": "verb", "ADJ": "adj", "ADV": "adv"}
TYPES = {"n": 1, "v": 2, "a": 3, "r": 4, "s": 5}


def usual_places() -> list[Path]:
    """Return where a WordNet is looked for."""
    places = [Path(os.environ[name]) for name in ("WNSEARCHDIR",) if name in os.environ]
    if "WNHOME" in os.environ:
        places.append(Path(os.environ["WNHOME"]) / "dict")
    places += [Path("/usr/share/wordnet"), *sorted(Path("/usr/local").glob("WordNet-*/dict"))]
    data = [Path(p) for p in os.environ.get("NLTK_DATA", "").split(os.pathsep) if p]
    data += [Path.home() / "nltk_data", Path("/usr/share/nltk_data"), Path("/usr/local/share/nltk_data")]
    return places + [place / "corpora" / "wordnet" for place in data]


def find_wordnet(given: str) -> WordNet | None:
    """Return the WordNet of a directory, of the first usual place (`auto`), or none (`none`)."""
    if given == "none":
        return None
    if given != "auto":
        return WordNet(Path(given))
    for place in usual_places():
        if (place / "index.noun").is_file():
            return WordNet(place)
    return None


class WordNet:
    """The first senses of a directory of WordNet's database files."""

    def __init__(self, directory: Path) -> None:
        absent = [
            name
            for kind in FILES.values()
            for name in (f"index.{kind}", f"data.{kind}")
            if not (directory / name).is_file()
        ]
        if absent:
            raise UsageError(
                f"'{directory}' holds no {absent[0]}: give the directory of WordNet's database files, "
                f"'auto' or 'none'"
            )
        self.directory = directory

    @cached_property
    def _first(self) -> dict[tuple[str, str], int]:
        """The offset of the first synset by lemma and part of speech."""
        found = {}
        for pos, kind in FILES.items():
            for line in (self.directory / f"index.{kind}").read_text(encoding="latin-1").splitlines():
                if not line.startswith(" "):
                    fields = line.split()
                    senses = int(fields[2])
                    found[fields[0], pos] = int(fields[len(fields) - senses])
        return found

    def first_sense(self, lemma: str, pos: str) -> str | None:
        """Return the key of the first sense of a lemma (spaces as _), or None if it has none."""
        lemma = lemma.lower().replace(" ", "_")
        offset = self._first.get((lemma, pos))
        return None if offset is None else self._key(lemma, pos, offset)

    def _key(self, lemma: str, pos: str, offset: int) -> str:
        fields = self._synset(pos, offset)
        number, kind, words = fields[1], fields[2], _words(fields)
        head = ":"
        if kind == "s":  # a satellite of another adjective, which is its first "similar to"
            pointers = fields[4 + 2 * len(words) :]
            at = pointers.index("&")
            first, its_id = _words(self._synset(pos, int(pointers[at + 1])))[0]
            head = f"{first}:{int(its_id, 16):02}"
        its_id = dict(words)[lemma]
        return f"{lemma}%{TYPES[kind]}:{number}:{int(its_id, 16):02}:{head}"

    def _synset(self, pos: str, offset: int) -> list[str]:
        with (self.directory / f"data.{FILES[pos]}").open("rb") as stream:
            stream.seek(offset)
            return stream.readline().decode("latin-1").split()


def _words(fields: list[str]) -> list[tuple[str, str]]:
    """The words of a synset with their ids; an adjective may carry a marker such as (p)."""
    count = int(fields[3], 16)
    pairs = zip(fields[4 : 4 + 2 * count : 2], fields[5 : 5 + 2 * count : 2], strict=True)
    return [(word.lower().split("(")[0], its_id) for word, its_id in pairs]
