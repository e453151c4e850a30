"""Which settings pay off on two cores? Short runs from the encoder, each with one setting changed.

The settings are those of `english.toml`. Every trial reads the same number of tokens, on a schedule of its
own that ends at a rate of zero unless that is what is changed, and is scored on the same held-out text. A
trial that is done is not done again: the search can be stopped and started at will.

    python recipes/search.py --data ../shared/data --work SEARCH [--tokens 300000] [--only base ...]

It ends by writing the table of docs/background/training-study.md. What is compared is the start of a
training: what leads after 300,000 tokens need not lead after fifty times as many. Each trial also tells how
the mean of its last checkpoints does, and how well sentiment can be read off its vectors (`probe.py`). Times
are by the clock, so that all trials should run beside the same other work, or none.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from compatibility import beginnings
from english import HERE, encoder, write_texts
from pages import markdown, renew
from probe import probe

from unmask.runs.step_lines import spent
from unmask.training import read_settings, train

PAGE = HERE.parent / "docs" / "background" / "training-study.md"
LENGTH = 128
"""Tokens of a row, as in english.toml."""
ROWS = 480
"""Held-out rows of a domain: the standard error of a difference is about 0.02 nats."""
PROBED = 4
"""The layer whose vectors are probed for what the encoder knew; see probe.py."""
CHECKPOINTS = 15
"""Of a trial."""
AVERAGED = 6
"""The last so many, from its last third, are averaged."""
TRIALS: dict[str, dict[str, Any]] = {
    "base": {},
    "8 rows per step": {"batch_size": 8},
    "32 rows per step": {"batch_size": 32},
    "encoder's rate 1e-4": {"encoder_lr": 1e-4},
    "encoder's rate 1e-3": {"encoder_lr": 1e-3},
    "15% predicted": {"mlm_probability": 0.15},
    "45% predicted": {"mlm_probability": 0.45},
    "masks only": {"mask_replace_prob": 1.0, "random_replace_prob": 0.0},
    "4 of 6 layers": {"layers": (0, 1, 3, 5)},
    "rate stays": {"decay_steps": 0},
}


def record_of(name: str, options: argparse.Namespace) -> Path:
    """The file of a trial's numbers; its run lies beside it."""
    plain = re.sub(r"\W+", "-", name)
    record: Path = options.work / f"{options.tokens}-{plain}.json"
    return record


def trial(name: str, changes: dict[str, Any], options: argparse.Namespace, text: Path) -> None:
    """Do one run, unless it is done."""
    done = record_of(name, options)
    home = done.with_suffix("")
    if done.exists():
        return
    batch = changes.get("batch_size", 16)
    steps = options.tokens // (batch * LENGTH)
    settings = read_settings(
        HERE / "english.toml",
        init_from=str(encoder()),
        corpora=beginnings(options.data, text),
        eval_corpora=(f"snli-dev={text / 'snli-dev.txt'}",),
        **{
            "batch_size": batch,
            "max_steps": steps,
            "warmup_steps": steps // 10,
            "decay_steps": steps - steps // 10,
            "save_steps": max(1, steps // CHECKPOINTS),
            "average_checkpoints": AVERAGED,
            "eval_steps": steps,
            "eval_rows": ROWS,
            **changes,
        },
    )
    result = train(settings, home)
    averaged = {domain: score.loss for domain, score in result.scores.items()}
    last = next(entry for entry in reversed(result.history) if f"eval_{next(iter(averaged))}_loss" in entry)
    losses = {domain: last[f"eval_{domain}_loss"] for domain in averaged}
    kept = probe(str(home / "model"), options.data, (PROBED,))[PROBED]
    found = {
        "trial": name,
        "loss": losses,
        "averaged": averaged,
        "probe": kept,
        "seconds": spent(result.history),
    }
    done.write_text(json.dumps(found, indent=1))


def table(rows: list[dict[str, Any]]) -> str:
    """One line a trial."""
    domains = [domain for domain in rows[0]["loss"] if domain != "snli"]
    heads = [
        "changed",
        *domains,
        *(f"{domain}, mean of {AVERAGED}" for domain in domains),
        "probe",
        "minutes",
    ]
    lines = []
    for row in rows:
        losses = [f"{row[kind][domain]:.3f}" for kind in ("loss", "averaged") for domain in domains]
        lines.append([row["trial"], *losses, f"{row['probe']:.3f}", f"{row['seconds'] / 60:.1f}"])
    return markdown(heads, lines)


def main() -> None:
    """Do the trials that are asked for, and write the table of all that are done."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="directory with corpus/ and snli/")
    parser.add_argument("--work", type=Path, required=True, help="directory of the runs")
    parser.add_argument("--tokens", type=int, default=300_000, help="that a trial reads")
    parser.add_argument("--only", nargs="*", choices=list(TRIALS), help="the trials to do [default: all]")
    options = parser.parse_args()
    text = write_texts(options.data, options.work)
    for name in options.only or TRIALS:
        trial(name, TRIALS[name], options, text)
    done = [record_of(name, options) for name in TRIALS]
    rows = [json.loads(path.read_text()) for path in done if path.exists()]
    print(table(rows))
    renew(PAGE, "search", {"trials": table(rows)})


if __name__ == "__main__":
    main()
