"""The report of a run, for people: `report.md` in plain text, `report.html` with figures, in one file.

Both say the same. The page holds its figures and its style, and needs no network. Several runs (other data,
pairs, candidates, another model) stand side by side: a metric is a table, a method a row, a run a column.
"""

from __future__ import annotations

import html
import math
from pathlib import Path
from typing import Any

from unmask.evaluation import figures
from unmask.evaluation.summary import PERPLEXITIES
from unmask.runs.disk import write_whole

HEADS = {
    "p_ppl": "P-PPL",
    "u_ppl": "U-PPL",
    "a_kl": "A-KL",
    "g_kl": "G-KL",
    "reverse_kl": "reverse KL",
    "jsd": "JSD",
    "recall@1": "recall@1",
    "recall@5": "@5",
    "recall@10": "@10",
}
COMPARED = ("p_ppl", "u_ppl", "a_kl", "g_kl")
"""The metrics whose paired differences the report shows; the summary has those of all."""
SIDE_BY_SIDE = ("p_ppl", "u_ppl", "a_kl", "g_kl", "recall@1")
"""The metrics of several runs that stand beside each other."""
SMALL = 0.001
"""Numbers below this are written with a power of ten."""
EXTREMES = 3
"""How many of the most and of the least improved examples are shown."""
CSS = """body{font:15px/1.5 system-ui,sans-serif;color:#202124;max-width:68rem;margin:2rem auto}
body{padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2.2rem}
table{border-collapse:collapse;font-size:.82rem;margin:.6rem 0;display:block;overflow-x:auto}
th,td{padding:.22rem .55rem;vertical-align:top;line-height:1.25}
th,td{text-align:right;border-bottom:1px solid #e8eaed;white-space:nowrap}
th:first-child,td:first-child{text-align:left}
small,.note{color:#5f6368}svg{max-width:100%;height:auto}.example{margin:1.4rem 0}
.joints{display:flex;flex-wrap:wrap;gap:1.6rem}.joint{display:table;margin:0}
.joint td,.joint th{padding:.3rem .5rem}
.joint td{text-align:center;border:0}.joint .true{outline:2px solid #d93025;outline-offset:-2px}
.joint th{text-align:center;border:0}.joint caption{caption-side:bottom;color:#5f6368;padding-top:.2rem}
mark{background:#fce8e6;padding:0 .15em}"""

Table = tuple[list[str], list[list[str]]]
Summaries = dict[str, dict[str, Any]]


def write_report(directory: Path, summary: dict[str, Any], records: list[dict[str, Any]]) -> None:
    """Write `report.md` and `report.html` into the directory of a run."""
    write_whole(directory / "report.md", markdown(summary))
    write_whole(directory / "report.html", page(summary, records))


def method_table(summary: dict[str, Any]) -> Table:
    """Return every method's metrics with their intervals, the best P-PPL first."""
    rows = []
    for method, found in _ordered(summary):
        cells = [with_interval(found[name]) for name in HEADS]
        rows.append([method, *cells, f"{found['median_rank']:,.0f}"])
    return ["method", *HEADS.values(), "median rank"], rows


def comparison_table(summary: dict[str, Any], metric: str) -> Table:
    """Return the paired differences between methods: row less column, in nats (a token, of perplexities)."""
    order = [method for method, _ in _ordered(summary)]
    known = {}
    for entry in summary["comparisons"]:
        if entry["metric"] == metric:
            known[entry["first"], entry["second"]] = (entry["value"], entry["low"], entry["high"])
            known[entry["second"], entry["first"]] = (-entry["value"], -entry["high"], -entry["low"])
    rows = []
    for method in order:
        cells = []
        for other in order:
            if method == other:
                cells.append("")
                continue
            value, low, high = known[method, other]
            clear = "*" if low > 0 or high < 0 else ""
            cells.append(f"{_signed(value)}{clear} [{_signed(low)}, {_signed(high)}]")
        rows.append([method, *cells])
    return ["less", *order], rows


def breakdown_table(summary: dict[str, Any], name: str, metric: str) -> Table:
    """Return one metric by the groups of a breakdown."""
    groups = summary["breakdowns"][name]
    heads = [f"{g['group']} (n={g['examples']})" for g in groups]
    rows = [
        [method, *(with_interval(g["methods"][method][metric]) for g in groups)]
        for method, _ in _ordered(summary)
    ]
    return [name, *heads], rows


def facts(summary: dict[str, Any]) -> list[str]:
    """Return in a few lines what was measured, and what to know of it."""
    skipped = ", ".join(f"{n} {reason}" for reason, n in summary["skipped"].items() if n)
    passes = f"{summary['passes']:,.0f} forward passes per example"
    lines = [
        f"model {summary['model']}, data {summary['data']}, {summary['pairs']} pairs, "
        f"{examples_told(summary)}" + (f" (passed over: {skipped})" if skipped else ""),
        f"candidates {summary['candidates']}: {passes}"
        + (
            f", left-out error of the completion {summary['completion_error']:.3f} nats"
            if summary["completion_error"] is not None
            else ""
        ),
        f"incompatibility of the model's conditionals {with_interval(summary['incompatibility'])} "
        f"(0 if they came from one joint, larger is worse; support {summary['support']})",
        f"intervals: {100 * summary['intervals']['level']:.0f}%, percentile bootstrap over examples, "
        f"{summary['intervals']['resamples']} resamples",
    ]
    stuck = {m: f["not_converged"] for m, f in summary["methods"].items() if f["not_converged"]}
    if stuck:
        told = ", ".join(f"{m} on {n}" for m, n in stuck.items())
        lines.append(f"solvers that had not converged: {told} examples")
    return lines


def examples_told(summary: dict[str, Any]) -> str:
    """Say how many examples there are, and whether there should be more."""
    done, drawn, asked_for = (summary[name] for name in ("examples", "drawn", "asked_for"))
    if done < drawn:
        return f"{done} of {drawn} examples: not finished"
    fewer = asked_for is not None and drawn < asked_for
    told = "1 example" if done == 1 else f"{done} examples"
    return told + (f", all that could be drawn of {asked_for} asked for" if fewer else "")


def markdown(summary: dict[str, Any]) -> str:
    """Return the report as plain text."""
    parts = ["# Evaluation", "", *(f"- {line}" for line in facts(summary)), ""]
    for title, table in _sections(summary):
        parts += [f"## {title}", "", _markdown_table(table), ""]
    return "\n".join(parts)


def page(summary: dict[str, Any], records: list[dict[str, Any]]) -> str:
    """Return the report as a page with figures."""
    parts = [
        "<h1>Evaluation</h1><ul>",
        *(f"<li>{html.escape(line)}</li>" for line in facts(summary)),
        "</ul>",
    ]
    sections = _sections(summary)
    parts += ["<h2>Perplexity</h2>", figures.bars(summary), section(*sections[0])]
    distance = figures.by_distance(summary)
    if distance:
        parts += ["<h2>By the distance of the blanks</h2>", distance]
    parts += _examples(summary, records)
    parts += [section(*part) for part in sections[1:]]
    return document(f"Evaluation: {summary['model']} on {summary['data']}", parts)


def document(title: str, parts: list[str]) -> str:
    """Return a whole page of HTML, style included."""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{CSS}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def _sections(summary: dict[str, Any]) -> list[tuple[str, Table]]:
    found = [("All metrics", method_table(summary))]
    if summary["comparisons"]:
        for metric in COMPARED:
            of = f"log {HEADS[metric]}" if metric in PERPLEXITIES else HEADS[metric]
            title = f"Paired differences of {of} (row less column, nats; * clear of zero)"
            found.append((title, comparison_table(summary, metric)))
    for name in summary["breakdowns"]:
        for metric in PERPLEXITIES:
            found.append((f"{HEADS[metric]} by {name}", breakdown_table(summary, name, metric)))
    return found


def _examples(summary: dict[str, Any], records: list[dict[str, Any]]) -> list[str]:
    """Show the examples whose pair gains most and least from the best method, against the first one."""
    base = "product" if "product" in summary["methods"] else next(iter(summary["methods"]))
    best = next((m for m, _ in _ordered(summary) if m != base), base)
    if best == base:
        return []

    def gain(record: dict[str, Any]) -> float:
        return float(record["metrics"][best]["log_prob"] - record["metrics"][base]["log_prob"])

    ranked = sorted(records, key=lambda r: (-gain(r), r["number"]))
    shown = min(EXTREMES, len(ranked) // 2)
    parts = []
    for title, some in (("most", ranked[:shown]), ("least", ranked[::-1][:shown])):
        if some:
            parts.append(
                f"<h2>Where {html.escape(best)} gains {title} over {html.escape(base)}</h2>"
                f'<p class="note">Probability of the likely fillings; the true pair is framed.</p>'
            )
        for record in some:
            pair = " ".join(record["tokens"])
            parts.append(
                f'<div class="example"><p>{html.escape(record["text"])}<br><small>true pair '
                f"<mark>{html.escape(pair)}</mark>, {record['distance']} apart, log q gains "
                f"{gain(record):+.2f} nats (a factor of {math.exp(min(50.0, gain(record))):.3g})</small></p>"
                f"{figures.joint_tables(record, (base, best))}</div>"
            )
    return parts


def side_by_side(summaries: Summaries) -> dict[str, Table]:
    """Return a table for each metric; a method that a run has not measured has an empty cell."""
    methods = list(dict.fromkeys(m for s in summaries.values() for m in s["methods"]))
    tables: dict[str, Table] = {}
    for name in SIDE_BY_SIDE:
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


def _ordered(summary: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return sorted(summary["methods"].items(), key=lambda item: float(item[1]["p_ppl"]["value"]))


def with_interval(entry: dict[str, float]) -> str:
    """Write a number with its interval, if there is one: a single example has none."""
    if entry["low"] == entry["high"]:
        return _short(entry["value"])
    return f"{_short(entry['value'])} [{_short(entry['low'])}, {_short(entry['high'])}]"


def _short(value: float) -> str:
    if value == 0:
        return "0"
    if abs(value) < SMALL:
        return _power(f"{value:.1e}")
    return f"{value:,.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def _signed(value: float) -> str:
    return _power(f"{value:+.0e}") if 0 < abs(value) < SMALL else f"{value:+.3f}"


def _power(text: str) -> str:
    """Write 1.8e-05 as 1.8e-5."""
    return text.replace("e-0", "e-")


def section(title: str, table: Table) -> str:
    """Return a heading and a table as HTML."""
    heads, rows = table
    cells = "".join(f"<th>{html.escape(head)}</th>" for head in heads)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(text)}</td>' for text in row)}</tr>" for row in rows)
    return f"<h2>{html.escape(title)}</h2><table><tr>{cells}</tr>{body}</table>"


def _cell(text: str) -> str:
    """Set the interval below its number: tables of many columns fit the page then."""
    value, bracket, interval = html.escape(text).partition(" [")
    return f"{value}<br><small>[{interval}</small>" if bracket else value


def _markdown_table(table: Table) -> str:
    heads, rows = table
    lines = [heads, ["---", *(["---:"] * (len(heads) - 1))], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
