"""The results of docs/background/results-benchmarks.md: `unmask benchmark blimp` and `blanks`.

    python recipes/blanks_and_blimp.py --data ../shared/data --work RUNS [--only blimp many-2 ...]

Runs are resumable: a killed recipe goes on where it was. Numbers go to docs/figures/blanks_and_blimp.json as
they come; the tables of the page are rewritten from there, which is all that --tables does. `python
docs/figures/blanks_and_blimp.py` draws the figures.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

from command import ROOT, SENTENCES, parser_of, show
from pages import markdown
from provenance import MADE, read, shown, stamp, write

import unmask
from unmask.cli.terminal import Ticker
from unmask.evaluation.benchmarks.blanks import BlanksSettings, run_blanks
from unmask.evaluation.benchmarks.blimp import run_blimp
from unmask.evaluation.intervals import Estimate
from unmask.evaluation.intervals import shown as with_interval
from unmask.evaluation.score_file import ScoreSettings

RESULTS = ROOT / "docs" / "figures" / "blanks_and_blimp.json"
PAGE = ROOT / "docs" / "background" / "results-benchmarks.md"
TEXTS = 300
"""Of each row of `blanks`."""
MANY = {2: (4000, "grid-ag"), 3: (3000, "chain-ag")}
"""By the number of blanks, so many sentences that the intervals of recall@1 part, and the joint asked."""
PASSES = 128
"""Of a grid in `blanks`: 64 candidates for two blanks, 6 for three, 3 for four."""


def blimp(options: argparse.Namespace) -> dict[str, Any]:
    """Accuracy on minimal pairs for every score."""
    return run_blimp(
        options.data / "blimp",
        ScoreSettings(),
        examples=options.examples,
        out=options.work / "blimp.jsonl",
        ray=options.ray,
        progress=Ticker("pairs"),
    )


def blanks(data: str, options: argparse.Namespace) -> dict[str, Any]:
    """Two, three and four neighbouring blanks of one data set, for every method."""
    settings = BlanksSettings(sentences=options.sentences or TEXTS, passes=PASSES)
    return _asked(f"blanks-{data}", data, settings, options)


def many(count: int, options: argparse.Namespace) -> dict[str, Any]:
    """So many SNLI sentences that the intervals of joint and independent answers part."""
    sentences, joint = MANY[count]
    settings = BlanksSettings(
        blanks=(count,),
        sentences=options.sentences or sentences,
        methods=("independent", joint),
        passes=PASSES,
    )
    return _asked(f"many-{count}", "snli", settings, options)


def _asked(name: str, data: str, settings: BlanksSettings, options: argparse.Namespace) -> dict[str, Any]:
    return run_blanks(
        unmask.load(),
        [f"{data}={options.data / SENTENCES[data]}"],
        settings,
        out=options.work / f"{name}.jsonl",
        ray=options.ray,
        progress=Ticker("answers"),
    )


def blimp_table(found: dict[str, Any]) -> str:
    """A row a phenomenon, a column a score."""
    names = [name for name in found["accuracy"]["all"] if name != "pairs"]
    rows = [
        [
            f"**{term}**" if term == "all" else term.replace("_", " "),
            f"{row['pairs']:,}",
            *(with_interval(Estimate(**row[n]), 100) for n in names),
        ]
        for term, row in found["accuracy"].items()
    ]
    return markdown(["phenomenon", "pairs", *names], rows)


def blanks_table(asked: list[dict[str, Any]]) -> str:
    """A row for each data set, number of blanks and method; recalls at 5 and 10 without their intervals."""
    heads = ["data, blanks × texts", "method", "recall@1, %", "@5", "@10", "log-prob."]
    rows = []
    for row in asked:
        cells = [with_interval(Estimate(**row["recall@1"]), 100)]
        cells += [f"{100 * row[f'recall@{k}']['value']:.1f}" for k in (5, 10)]
        cells.append("" if row["log_prob"] is None else with_interval(Estimate(**row["log_prob"]), 1, 2))
        for name, scale, digits in (("recall_gain", 100, 1), ("gain", 1, 2)):
            told = row[name] is not None and row["method"] != "independent"
            cells.append(with_interval(Estimate(**row[name]), scale, digits) if told else "")
        rows.append([f"{row['data']}, {row['blanks']} × {row['sentences']:,}", row["method"], *cells])
    return markdown([*heads, "gain in recall@1", "in log-prob."], rows, left=2)


def answer(rows: list[dict[str, Any]]) -> str:
    """Say how often the first answer is right, and how much likelier the truth is, with the most texts."""
    lines = []
    for count in MANY:
        here = [row for row in rows if row["blanks"] == count and row["data"] == "snli"]
        most = max((row["sentences"] for row in here), default=0)
        alone, joint = (
            next((r for r in here if r["sentences"] == most and (r["method"] == "independent") == so), None)
            for so in (True, False)
        )
        if alone is not None and joint is not None:
            right = [100 * row["recall@1"]["value"] for row in (joint, alone)]
            lines.append(
                f"- **{count} words** are right at the first try in {right[0]:.1f} % of {most:,} texts by "
                f"{joint['method']}, in {right[1]:.1f} % by independent predictions; their log-probability "
                f"is {with_interval(Estimate(**joint['gain']), 1, 2)} nats higher."
            )
    gains = [row["gain"] for row in rows if row["method"] != "independent" and row["gain"] is not None]
    below = sum(gain["low"] <= 0 for gain in gains if gain["low"] is not None)
    lines.append(
        f"- The true filling is likelier than by independent predictions, clear of chance, in "
        f"{len(gains) - below} of {len(gains)} rows of the tables below."
    )
    return "\n".join(lines)


RUNS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "blimp": blimp,
    **{f"blanks-{data}": partial(blanks, data) for data in SENTENCES},
    **{f"many-{count}": partial(many, count) for count in MANY},
}


def tables(kept: dict[str, Any]) -> dict[str, str]:
    """Return the tables of the page, from the runs that there are."""
    made = {"blimp": blimp_table(kept["blimp"])} if "blimp" in kept else {}
    for table in ("blanks", "many"):
        rows = [row for name in RUNS if name.startswith(table) for row in kept.get(name, {}).get("rows", ())]
        if rows:
            made[table] = blanks_table(rows)
    if "many" in made:
        made["answer"] = answer([row for name in RUNS for row in kept.get(name, {}).get("rows", ())])
    parts = kept.get(MADE, {})
    for place, names in {
        "source-blimp": ["blimp"],
        "source-blanks": [n for n in RUNS if n != "blimp"],
    }.items():
        made_of: dict[str, list[str]] = {}
        for name in names:
            if name in kept:
                made_of.setdefault(shown(parts.get(name)), []).append(name)
        if made_of:
            told = [f"{', '.join(of)}: {when}" if len(made_of) > 1 else when for when, of in made_of.items()]
            made[place] = f"Made by `python recipes/blanks_and_blimp.py`: {'; '.join(told)}."
    return made


def main() -> None:
    """Do the runs that are asked for, and rewrite the page."""
    parser = parser_of(__doc__, "blanks_and_blimp", list(RUNS))
    parser.add_argument("--examples", type=int, default=200, help="pairs of each file of BLiMP")
    parser.add_argument("--sentences", type=int, help="of each row of blanks and many, for a try")
    options = parser.parse_args()
    out = options.out or RESULTS
    options.work.mkdir(parents=True, exist_ok=True)
    for name in () if options.tables else options.only:
        made = stamp(pair_head=False)  # no method of these takes the head's guesses
        found = RUNS[name](options)
        write(out, read(out) | {name: found}, {name: made})
    show(tables(read(out)), [PAGE], "blanks_and_blimp", options.out)


if __name__ == "__main__":
    main()
