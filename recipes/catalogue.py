"""The catalogue of results: one entry each. `recipes/results.py` makes them and holds the pages to them.

A new result is one entry. Its recipe writes the JSON by `provenance.write`, and has `tables(found)`, which
returns Markdown by the name of its place on the pages (`% MARK: NAME`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BACKGROUND = "docs/background"
DATA = ("--data", "{data}")


@dataclass(frozen=True, eq=False)
class Result:
    """One file of results.

    Attributes:
        name: what --only calls it.
        json: the file in docs/figures.
        command: what makes it, after `python`, from the root; {data}, {work} and {parts} are filled in.
        tables: the file with `tables(found)`; with `document(found)`, too, if there is a document.
        mark: the first word of its marks on the pages; None if it has a figure only.
        pages: those that show its tables.
        figures: scripts that draw it.
        document: a file that is made of it as a whole.
        minutes: its parts, and about how long each takes on two idle cores.
        pair_head: whether a new pair head makes it stale.
        weights: whether new weights make it stale; a study of training or of reliability stands as it is.
        all_shown: whether every table has to be on a page.
    """

    name: str
    json: str
    command: tuple[str, ...]
    tables: str = ""
    mark: str | None = None
    pages: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()
    document: str | None = None
    minutes: Mapping[str, float] = field(default_factory=lambda: {"all": 10.0})
    pair_head: bool = False
    weights: bool = True
    all_shown: bool = True


def _recipe(name: str, *arguments: str) -> tuple[str, ...]:
    return (f"recipes/{name}.py", *arguments, *DATA, "--work", f"{{work}}/{name}")


def _pages(*names: str) -> tuple[str, ...]:
    return tuple(f"{BACKGROUND}/{name}.md" for name in names)


BLANKS_AND_BLIMP: dict[str, Any] = {
    "json": "blanks_and_blimp.json",
    "tables": "recipes/blanks_and_blimp.py",
    "mark": "blanks_and_blimp",
    "pages": _pages("results-benchmarks"),
    "figures": ("docs/figures/blanks_and_blimp.py",),
}
ENCODERS: dict[str, Any] = {
    "json": "encoders.json",
    # the names of its runs tell weights apart, and the runs of the twin outlive new ones
    "command": ("recipes/encoders.py", "--only", "{parts}", *DATA),
    "tables": "recipes/encoders.py",
    "mark": "encoders",
    "pages": _pages("results-encoders"),
}
BENCHMARKS: dict[str, Any] = {
    "json": "benchmarks.json",
    "command": ("benchmarks/run.py", "--only", "{parts}", *DATA),
    "tables": "benchmarks/run.py",
    "mark": "benchmarks",
    "pages": (
        *_pages("speed", "forward-passes", "pair-head", "several-blanks", "training-study"),
        *("docs/how-to/many-texts.md", "docs/how-to/serve.md"),
    ),
    "document": "benchmarks/RESULTS.md",
    "pair_head": True,
    "all_shown": False,
}

RESULTS: tuple[Result, ...] = (
    # in the order in which they are made: the cheap and important first
    Result(
        "perplexity",
        "bits_per_byte.json",
        _recipe("bits_per_byte", "--ray", "local", "--only", "{parts}"),
        tables="recipes/bits_per_byte.py",
        mark="bits_per_byte",
        pages=(*_pages("results-perplexity"), "docs/how-to/compare-with-causal-models.md"),
        figures=("docs/figures/bits_per_byte.py",),
        minutes={"snli": 3, "xsum": 13, "wikipedia": 13},
    ),
    Result(
        "dependence",
        "dependence.json",
        _recipe("dependence", "--ray", "local"),
        tables="recipes/dependence.py",
        mark="dependence",
        pages=_pages("results-dependence"),
        figures=("docs/figures/dependence.py",),
        minutes={"all": 20},
        pair_head=True,
    ),
    Result(
        "decoding",
        "decoding.json",
        _recipe("decoding", "--ray", "local"),
        tables="recipes/decoding.py",
        mark="decoding",
        pages=_pages("results-decoding"),
        figures=("docs/figures/decoding.py",),
        minutes={"all": 33},
        pair_head=True,
    ),
    Result("load", minutes={"load": 3}, **BENCHMARKS),
    Result(
        "speed",
        minutes={
            **{"startup": 2, "fill": 1, "forward": 3, "solver": 3, "exact-pair": 4, "memory": 4},
            **{"scoring": 2, "training": 5},
        },
        **BENCHMARKS,
    ),
    Result("growth", minutes={"growth": 6}, **BENCHMARKS | {"figures": ("docs/figures/growth.py",)}),
    Result(
        "table",
        "table.json",
        _recipe("table", "--ray", "local"),
        tables="recipes/table.py",
        mark="table",
        pages=(*_pages("results-constructions", "results-full-tables"), "README.md"),
        figures=("docs/figures/table.py",),
        minutes={"runs": 45},
        pair_head=True,
    ),
    Result(
        "tasks",
        "tasks_study.json",
        _recipe("tasks_study", "--ray", "local", "--only", "{parts}"),
        tables="recipes/tasks_study.py",
        mark="tasks_study",
        pages=_pages("results-tasks"),
        figures=("docs/figures/tasks_study.py",),
        minutes={"entities": 17, "sentiment": 10, "rte": 5},
        pair_head=True,
    ),
    Result("isotropy", minutes={"isotropy": 2}, **ENCODERS),
    Result("wsd", minutes={"wsd": 3}, **ENCODERS),
    Result(
        "cross-error",
        "cross_error.json",
        ("docs/figures/cross_error.py",),
        tables="docs/figures/cross_error.py",
        mark="cross_error",
        pages=_pages("cross-conditionals"),
        minutes={"all": 2},
        pair_head=True,
    ),
    Result(
        "blanks",
        command=_recipe("blanks_and_blimp", "--ray", "local", "--only", "{parts}"),
        minutes={"many-3": 6, "blanks-snli": 11, "many-2": 13, "blanks-xsum": 22},
        **BLANKS_AND_BLIMP,
    ),
    Result(
        "fine-tuning",
        minutes={"sentiment": 5, "rte": 4, "wnut17": 3, "wikigold": 4, "snli": 6},
        **ENCODERS,
    ),
    Result(
        "blimp",
        command=_recipe("blanks_and_blimp", "--ray", "local", "--only", "{parts}"),
        minutes={"blimp": 45},
        **BLANKS_AND_BLIMP,
    ),
    Result(
        "table-exact",
        "table_exact.json",
        _recipe("table_exact", "--ray", "local", "--only", "{parts}"),
        tables="recipes/table_exact.py",
        mark="table_exact",
        pages=_pages("results-constructions", "results-full-tables"),
        minutes={"xsum-contiguous": 105, "snli-random": 9, "snli-contiguous": 9, "xsum-random": 8},
        pair_head=True,
    ),
    Result(
        "long-benchmarks",
        minutes={"wide-exact": 5, "blocks": 10, "cross-wide": 10, "pair-head": 25, "cross": 30},
        **BENCHMARKS,
    ),
    Result(
        "compatibility",
        "compatibility.json",
        _recipe("compatibility"),
        tables="recipes/compatibility.py",
        mark="compatibility",
        pages=_pages("compatibility-study"),
        weights=False,
    ),
    Result(
        "reliability",
        "reliability.json",
        ("tests/fuzz/campaign.py",),
        tables="recipes/reliability.py",
        mark="reliability",
        pages=_pages("reliability"),
        weights=False,
    ),
)
