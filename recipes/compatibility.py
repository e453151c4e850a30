"""The compatibility study: the same warm start and budget, with the penalty at several weights.

Each weight starts from the embedded model and trains for the same steps on the same rows; what comes out is
measured on pairs of tokens of SNLI's development sentences, by `unmask evaluate`: held-out loss by domain,
incompatibility of the conditionals, U-PPL and P-PPL of `product`, `ag` and `l2r`. A weight that is done is
not done again: the study can be stopped and started at will.

    python recipes/compatibility.py --data ../shared/data --work STUDY [--steps 200] [--examples 200]

It ends by writing STUDY/table.md, from which docs/compatibility-study.md has its table.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
from pathlib import Path
from typing import Any

from english import HERE, PACKAGE, write_texts

from unmask.evaluation.run import evaluate
from unmask.evaluation.settings import Settings
from unmask.training import read_settings, train

WEIGHTS = (0.0, 0.01, 0.03, 0.1, 0.3)
METHODS = ("product", "ag", "l2r")
PAIRS = "distance=1..8"
"""As far apart as the pairs that the penalty looks at."""
LINES = 40_000
"""Of each corpus, from its start: ten times what the steps read. The held-out documents are those of the
embedded model's own training."""


def beginning(source: Path, target: Path) -> str:
    """Write the first lines of a corpus to a file; returns it as `NAME=FILE`."""
    if not target.exists():
        with gzip.open(source, "rt", encoding="utf-8") as lines:
            target.write_text("".join(itertools.islice(lines, LINES)), encoding="utf-8")
    return f"{target.stem}={target}"


def beginnings(data: Path, text: Path) -> tuple[str, ...]:
    """The corpora of short runs: the beginnings of the large ones, and SNLI."""
    large = (
        beginning(data / "corpus" / f"{name}.txt.gz", text / f"{name}.txt")
        for name in ("wikipedia", "novels")
    )
    return (*large, f"snli={text / 'snli.txt'}")


def study(weight: float, options: argparse.Namespace, text: Path) -> dict[str, Any]:
    """Train with one weight, evaluate, and return the numbers of its line."""
    home = options.work / f"weight-{weight:g}"
    done = home / "study.json"
    if not done.exists():
        settings = read_settings(
            HERE / "compatibility.toml",
            start=str(PACKAGE),
            corpora=beginnings(options.data, text),
            held_out_corpora=(f"snli-dev={text / 'snli-dev.txt'}",),
            steps=options.steps,
            compatibility=weight,
        )
        scores = train(settings, home / "run").scores
        measured = evaluate(
            Settings(
                data=f"snli={options.data / 'snli'}",
                model=str(home / "run" / "model"),
                pairs=PAIRS,
                examples=options.examples,
                methods=METHODS,
            ),
            home / "evaluation",
        )
        done.write_text(
            json.dumps(
                {
                    "weight": weight,
                    "loss": {name: score.loss for name, score in scores.items()},
                    "incompatibility": measured["incompatibility"],
                    "methods": measured["methods"],
                },
                indent=1,
            )
        )
    found: dict[str, Any] = json.loads(done.read_text())
    return found


def interval(number: dict[str, float]) -> str:
    """A number with its interval."""
    return f"{number['value']:.2f} ({number['low']:.2f} to {number['high']:.2f})"


def write_table(lines: list[dict[str, Any]], path: Path) -> None:
    """One line a weight, in Markdown."""
    heads = ["weight", *(f"loss, {name}" for name in lines[0]["loss"]), "incompatibility"]
    heads += [f"{kind}, {method}" for method in METHODS for kind in ("P-PPL", "U-PPL")]
    rows = [
        [
            f"{line['weight']:g}",
            *(f"{loss:.3f}" for loss in line["loss"].values()),
            interval(line["incompatibility"]),
            *(interval(line["methods"][m][kind]) for m in METHODS for kind in ("p_ppl", "u_ppl")),
        ]
        for line in lines
    ]
    table = [heads, ["---:"] * len(heads), *rows]
    path.write_text("".join(f"| {' | '.join(row)} |\n" for row in table), encoding="utf-8")


def main() -> None:
    """Run what is not done yet, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="directory with corpus/ and snli/")
    parser.add_argument("--work", type=Path, required=True, help="directory of the runs")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--examples", type=int, default=200)
    options = parser.parse_args()
    text = write_texts(options.data, options.work)
    lines = [study(weight, options, text) for weight in WEIGHTS]
    write_table(lines, options.work / "table.md")
    print(options.work / "table.md")


if __name__ == "__main__":
    main()
