"""The compatibility study: the same warm start and budget, with the penalty at several weights.

Each arm starts from the embedded model and trains for the same steps on the same rows; what comes out is
measured on pairs of tokens of SNLI's development sentences, by `unmask evaluate`: held-out loss by domain,
incompatibility of the conditionals, U-PPL and P-PPL of `product`, `ag` and `l2r`. The pairs are the same for
all, so that differences from the arm without a penalty are paired. Beside the weights, an arm changes what
the penalty looks at. An arm that is done is not done again: the study can be stopped and started at will.

    python recipes/compatibility.py --data ../shared/data --work STUDY [--steps 200] [--examples 200]
    python recipes/compatibility.py --work STUDY --tables                  rewrite the page only

The numbers go to docs/figures/compatibility.json, from which the tables of
docs/background/compatibility-study.md are written and `python docs/figures/compatibility.py` draws its
figure.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
from english import HERE, PACKAGE, write_texts
from pages import markdown, renew

from unmask.evaluation.intervals import intervals
from unmask.evaluation.run import evaluate
from unmask.evaluation.settings import Settings
from unmask.evaluation.summary import COLUMNS
from unmask.runs.step_lines import spent
from unmask.training import read_settings, train

pair_loss, token_loss = COLUMNS["p_ppl"], COLUMNS["u_ppl"]

PAGE = HERE.parent / "docs" / "background" / "compatibility-study.md"
RESULTS = HERE.parent / "docs" / "figures" / "compatibility.json"
WEIGHTS = {f"{weight:g}": {"compatibility": weight} for weight in (0.0, 0.1, 0.3, 1.0)}
VARIANTS: dict[str, dict[str, Any]] = {
    "0.3, neighbours only": {"compatibility": 0.3, "compatibility_farthest": 1},
    "0.3, drawn fillings only": {"compatibility": 0.3, "compatibility_fillings": "drawn"},
}
ARMS = {**WEIGHTS, **VARIANTS}
METHODS = ("product", "ag", "l2r")
METRICS = {"p_ppl": ("P-PPL", pair_loss), "u_ppl": ("U-PPL", token_loss)}
PAIRS = "distance=1..8"
"""As far apart as the pairs that the penalty looks at."""
CANDIDATES = 128
"""The same for every arm, as `auto` would not be."""
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


def home_of(arm: str, work: Path) -> Path:
    """The directory of an arm."""
    return work / f"weight-{arm.replace(', ', '-').replace(' ', '-')}"


def study(arm: str, options: argparse.Namespace, text: Path) -> None:
    """Train one arm and evaluate it, unless that is done."""
    home = home_of(arm, options.work)
    done = home / "study.json"
    if done.exists():
        return
    settings = read_settings(
        HERE / "compatibility.toml",
        init_from=str(PACKAGE),
        corpora=beginnings(options.data, text),
        eval_corpora=(f"snli-dev={text / 'snli-dev.txt'}",),
        max_steps=options.steps,
        **ARMS[arm],
    )
    result = train(settings, home / "run")
    measured = evaluate(
        Settings(
            data=f"snli={options.data / 'snli'}",
            model=str(home / "run" / "model"),
            pairs=PAIRS,
            examples=options.examples,
            methods=METHODS,
            candidates=CANDIDATES,
        ),
        home / "evaluation",
    )
    record = {
        "steps": options.steps,
        "seconds": spent(result.history),
        "loss": {name: score.loss for name, score in result.scores.items()},
        "examples": measured["examples"],
        "incompatibility": measured["incompatibility"],
        "methods": {m: {metric: measured["methods"][m][metric] for metric in METRICS} for m in METHODS},
    }
    done.write_text(json.dumps(record, indent=1))


def collect(work: Path) -> dict[str, Any]:
    """Return the numbers of all arms that are done, with paired differences from no penalty."""
    found = {}
    base = _losses(work, "0")
    for arm in ARMS:
        done = home_of(arm, work) / "study.json"
        if done.exists():
            found[arm] = json.loads(done.read_text())
            mine = _losses(work, arm)
            mean, low, high = intervals(np.array([np.subtract(mine[key], base[key]) for key in base]))
            told = [found[arm]["methods"][m][metric] for m in METHODS for metric in METRICS]
            for i, number in enumerate([*told, found[arm]["incompatibility"]]):
                number["difference"] = {
                    "value": float(mean[i]),
                    "low": float(low[i]),
                    "high": float(high[i]),
                }
    return found


def _losses(work: Path, arm: str) -> dict[str, list[float]]:
    lines = (home_of(arm, work) / "evaluation" / "examples.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    return {
        r["key"]: [
            *(loss(r["metrics"][m]) for m in METHODS for _, loss in METRICS.values()),
            r["incompatibility"],
        ]
        for r in records
    }


def tables(found: dict[str, Any]) -> dict[str, str]:
    """Return the tables of the page."""
    domains = list(found["0"]["loss"])
    kept = [
        [
            arm,
            *(f"{line['loss'][name]:.3f}" for name in domains),
            _number(line["incompatibility"]),
            "" if arm == "0" else _signed(line["incompatibility"]["difference"], 4),
            f"{line['seconds'] / 60:.1f}",
        ]
        for arm, line in found.items()
    ]
    heads = [f"{name}, {label}" for name in METHODS for label, _ in METRICS.values()]
    values, differences = [], []
    for arm, line in found.items():
        numbers = [line["methods"][m][metric] for m in METHODS for metric in METRICS]
        values.append([arm, *(_number(number) for number in numbers)])
        if arm != "0":
            differences.append([arm, *(_signed(number["difference"]) for number in numbers)])
    return {
        "loss": markdown(["weight", *domains, "incompatibility", "its difference", "minutes"], kept),
        "values": markdown(["weight", *heads], values),
        "differences": markdown(["weight", *heads], differences),
    }


def _number(number: dict[str, float]) -> str:
    return f"{number['value']:.3g} [{number['low']:.3g}, {number['high']:.3g}]"


def _signed(number: dict[str, float], digits: int = 3) -> str:
    star = "" if number["low"] <= 0 <= number["high"] else "*"
    value, low, high = (f"{number[name]:+.{digits}f}" for name in ("value", "low", "high"))
    return f"{value}{star} [{low}, {high}]"


def main() -> None:
    """Run what is not done yet, and write numbers and tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="directory with corpus/ and snli/")
    parser.add_argument("--work", type=Path, required=True, help="directory of the runs")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("--only", nargs="*", choices=list(ARMS), help="the arms to do [default: all]")
    parser.add_argument("--tables", action="store_true", help="rewrite the page only")
    options = parser.parse_args()
    if not options.tables:
        text = write_texts(options.data, options.work)
        for arm in options.only or ARMS:
            print(arm, flush=True)
            study(arm, options, text)
    if not (home_of("0", options.work) / "study.json").exists():
        return
    found = collect(options.work)
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    renew(PAGE, "compatibility", tables(found))


if __name__ == "__main__":
    main()
