"""Several runs side by side: the same methods on other data, other pairs, another model, other candidates.

A metric is a table, a method a row, a run a column. Where two runs drew the same examples (the same texts and
blanks), methods can be compared across them example by example; here they are set beside each other with
their intervals.
"""

from __future__ import annotations

from typing import Any

from unmask.evaluation.report import HEADS, Table, document, examples_told, section, with_interval

SHOWN = ("p_ppl", "u_ppl", "a_kl", "g_kl", "recall@1")
Summaries = dict[str, dict[str, Any]]


def side_by_side(summaries: Summaries) -> dict[str, Table]:
    """Return a table for each metric; a method that a run has not measured has an empty cell."""
    methods = list(dict.fromkeys(m for s in summaries.values() for m in s["methods"]))
    tables: dict[str, Table] = {}
    for name in SHOWN:
        rows = []
        for method in methods:
            cells = [
                with_interval(s["methods"][method][name]) if method in s["methods"] else ""
                for s in summaries.values()
            ]
            rows.append([method, *cells])
        tables[HEADS[name]] = (["method", *summaries], rows)
    return tables


def runs_table(summaries: Summaries) -> Table:
    """Return what each run measured."""
    heads = ["run", "model", "data", "pairs", "candidates", "examples", "incompatibility"]
    rows = [
        [
            run,
            s["model"],
            s["data"],
            s["pairs"],
            str(s["candidates"]),
            examples_told(s).removesuffix(" examples"),
            with_interval(s["incompatibility"]),
        ]
        for run, s in summaries.items()
    ]
    return heads, rows


def compare_runs(summaries: Summaries) -> dict[str, Any]:
    """Return the comparison as plain data."""
    kept = ("model", "data", "pairs", "candidates", "examples", "drawn", "incompatibility", "methods")
    return {"runs": [{"run": run} | {name: s[name] for name in kept} for run, s in summaries.items()]}


def comparison_page(summaries: Summaries) -> str:
    """Return the comparison as a page that needs no network."""
    parts = ["<h1>Evaluations side by side</h1>", section("Runs", runs_table(summaries))]
    parts += [section(metric, table) for metric, table in side_by_side(summaries).items()]
    return document(", ".join(summaries), parts)
