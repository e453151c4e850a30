"""The results of docs/beyond-pairs.md: `unmask benchmark blimp` and `blanks` with the embedded model.

    python recipes/beyond.py --data ../shared/data --work RUNS [--only blimp blanks many]

Runs are resumable: a killed recipe goes on where it was. Numbers go to docs/figures/beyond.json as they come;
the tables of the page are rewritten from there (between `% beyond: NAME` and `% end`), which is all that
--tables does. `python docs/figures/beyond.py` draws the figures.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from pages import markdown, renew

from unmask.cli.terminal import Ticker
from unmask.sequence.benchmarks.intervals import Estimate, shown

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "figures" / "beyond.json"
MANY = {2: 11_000, 3: 3000}
"""Sentences by the number of blanks, so that the intervals of recall@1 part."""
PASSES = 128
"""Of a grid in `blanks`: 64 candidates for two blanks, 6 for three, 3 for four."""


def blimp(options: argparse.Namespace) -> dict[str, Any]:
    """Accuracy on minimal pairs for every score."""
    from unmask.sequence.benchmarks.blimp import run_blimp
    from unmask.sequence.files import ScoreSettings

    return run_blimp(
        options.data / "blimp",
        ScoreSettings(),
        examples=options.examples,
        out=options.work / "blimp.jsonl",
        ray=options.ray,
        progress=Ticker("pairs"),
    )


def blanks(options: argparse.Namespace) -> dict[str, Any]:
    """Two, three and four neighbouring blanks of SNLI and XSum."""
    import unmask
    from unmask.sequence.benchmarks.blanks import BlanksSettings, run_blanks

    snli, xsum = options.data / "snli" / "dev.tsv", options.data / "xsum" / "summaries.txt"
    return run_blanks(
        unmask.load(),
        [f"snli={snli}", f"xsum={xsum}"],
        BlanksSettings(sentences=options.sentences, passes=PASSES),
        out=options.work / "blanks.jsonl",
        ray=options.ray,
        progress=Ticker("answers"),
    )


def many(options: argparse.Namespace) -> dict[str, Any]:
    """Ask about so many SNLI sentences that the intervals of joint and independent answers part."""
    import unmask
    from unmask.sequence.benchmarks.blanks import BlanksSettings, run_blanks

    parts = [
        run_blanks(
            unmask.load(),
            [f"snli={options.data / 'snli' / 'dev.tsv'}"],
            BlanksSettings(blanks=(blanks,), sentences=sentences, methods=("independent", "chain-ag")),
            out=options.work / f"many-{blanks}.jsonl",
            ray=options.ray,
            progress=Ticker("answers"),
        )
        for blanks, sentences in MANY.items()
    ]
    return parts[0] | {"rows": [row for part in parts for row in part["rows"]]}


def blimp_table(found: dict[str, Any]) -> str:
    """A row a phenomenon, a column a score."""
    names = [name for name in found["accuracy"]["all"] if name != "pairs"]
    rows = [
        [
            f"**{term}**" if term == "all" else term.replace("_", " "),
            f"{row['pairs']:,}",
            *(shown(Estimate(**row[n]), 100) for n in names),
        ]
        for term, row in found["accuracy"].items()
    ]
    return markdown(["phenomenon", "pairs", *names], rows)


def blanks_table(found: dict[str, Any]) -> str:
    """A row for each data set, number of blanks and method."""
    heads = [
        "data",
        "blanks",
        "method",
        "texts",
        "recall@1, %",
        "@5",
        "@10",
        "log-prob.",
        "gain in recall@1, %",
    ]
    rows = []
    for row in found["rows"]:
        cells = [shown(Estimate(**row[f"recall@{k}"]), 100) for k in (1, 5, 10)]
        cells.append("" if row["log_prob"] is None else shown(Estimate(**row["log_prob"]), 1, 2))
        for name, scale, digits in (("recall_gain", 100, 1), ("gain", 1, 2)):
            told = row[name] is not None and row["method"] != "independent"
            cells.append(shown(Estimate(**row[name]), scale, digits) if told else "")
        rows.append([row["data"], str(row["blanks"]), row["method"], str(row["sentences"]), *cells])
    return markdown([*heads, "in log-prob."], rows, left=3)


RUNS = {"blimp": blimp, "blanks": blanks, "many": many}
TABLES = {"blimp": blimp_table, "blanks": blanks_table, "many": blanks_table}


def main() -> None:
    """Do the runs that are asked for, and rewrite the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "beyond", help="where the records go")
    parser.add_argument("--only", nargs="+", choices=list(RUNS), default=list(RUNS))
    parser.add_argument("--examples", type=int, default=100, help="pairs of each file of BLiMP")
    parser.add_argument("--sentences", type=int, default=300, help="of a row of `blanks`")
    parser.add_argument("--ray", help="address of a Ray cluster, or local: one worker a core, of one thread")
    parser.add_argument("--tables", action="store_true", help="rewrite the page only")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    for name in () if options.tables else options.only:
        found = RUNS[name](options)
        kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
        RESULTS.write_text(json.dumps(kept | {name: found}, indent=1) + "\n", encoding="utf-8")
    kept = json.loads(RESULTS.read_text(encoding="utf-8"))
    tables = {name: TABLES[name](found) for name, found in kept.items()}
    renew(ROOT / "docs" / "beyond-pairs.md", "beyond", tables)


if __name__ == "__main__":
    main()
