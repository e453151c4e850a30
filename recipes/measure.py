"""One command for the table that the embedded model is judged by, for as many models as are named.

    python recipes/measure.py --data DATA [--rows 1000] [--pairs 50] [--out FILE.json] MODEL...

A model is `english` or a checkpoint directory with its tokenizer. The table has, for each of them, the
evaluation losses of `measure_losses.py` with 15 % and with 40 % of the tokens masked, BLiMP by
pseudo-log-likelihood, the first answers to the card's twenty sentences, and what the model costs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from english_card import first_answers
from english_sentences import SENTENCES, is_sensible
from measure_losses import Domains, eval_documents, losses_by_token, losses_by_word
from transformers import AutoModelForMaskedLM, AutoTokenizer

from unmask.evaluation.benchmarks.blimp import run_blimp
from unmask.evaluation.score_file import ScoreSettings
from unmask.models.embedded import locate
from unmask.training.forward import Gathering

REFUSED = "not sensible"
"""The key of the sentences without a sensible first answer."""


def measure(name: str, data: Path, domains: Domains, rows: int, pairs: int) -> dict[str, Any]:
    """All numbers of one model by name, and the sentences that it answered badly."""
    path = locate(name)
    model = AutoModelForMaskedLM.from_pretrained(path, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(path)
    gathering = Gathering(model)
    found: dict[str, Any] = {
        **losses_by_token(model, gathering, tokenizer, domains, rows),
        **losses_by_word(model, gathering, tokenizer, domains, rows),
        **answers(model, tokenizer),
        **cost(path),
    }
    if pairs:
        found["BLiMP pll %"] = blimp(name, data, pairs)
    return found


def answers(model: Any, tokenizer: Any) -> dict[str, Any]:
    """How many of the twenty sentences get a sensible answer first, and which do not."""
    given = {sentence: first_answers(model, tokenizer, sentence, 5) for sentence in SENTENCES}
    bad = [f"{sentence} {best}" for sentence, best in given.items() if not is_sensible(sentence, best)]
    (capital,) = given["The capital of France is [MASK]."]
    return {
        "twenty sentences: sensible first": len(given) - len(bad),
        "Paris is answer number": capital.index("paris") + 1 if "paris" in capital else "none of 5",
        REFUSED: bad,
    }


def blimp(name: str, data: Path, pairs: int) -> float:
    """Accuracy in % of the pseudo-log-likelihood over all pairs."""
    settings = ScoreSettings(model=name, scores=("pll",))
    found = run_blimp(data / "blimp", settings, examples=pairs)
    return 100 * float(found["accuracy"]["all"]["pll"]["value"])


def cost(path: str) -> dict[str, float]:
    """Megabytes in half precision, seconds to load, milliseconds of a pass over ten tokens."""
    begun = time.process_time()
    model = AutoModelForMaskedLM.from_pretrained(path, dtype=torch.float32).eval()
    loaded = time.process_time() - begun
    ids = torch.randint(1000, 5000, (1, 10))
    times = []
    with torch.no_grad():
        for _ in range(60):
            begun = time.process_time()
            model(input_ids=ids)
            times.append(time.process_time() - begun)
    megabytes = sum(weight.numel() for weight in model.parameters()) * 2 / 1e6
    return {"MB": megabytes, "load s": loaded, "ten tokens ms": 1000 * float(np.median(times))}


def table(results: dict[str, dict[str, Any]]) -> str:
    """A line for each number, a column for each model, and below what was answered badly."""
    lines = ["| what | " + " | ".join(results) + " |", "|---" + "|---:" * len(results) + "|"]
    for what in next(iter(results.values())):
        if what != REFUSED:
            values = [found[what] for found in results.values()]
            cells = [f"{value:.3f}" if isinstance(value, float) else str(value) for value in values]
            lines.append(f"| {what} | " + " | ".join(cells) + " |")
    for name, found in results.items():
        lines += ["", f"{name}, {REFUSED}:", *(f"- {answer}" for answer in found[REFUSED])]
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=1000, help="of each domain")
    parser.add_argument("--pairs", type=int, default=50, help="of each BLiMP file; 0 leaves BLiMP out")
    parser.add_argument("--out", type=Path, help="all numbers as JSON")
    options = parser.parse_args()
    domains = eval_documents(options.data)
    results = {}
    for name in options.models:
        results[name] = measure(name, options.data, domains, options.rows, options.pairs)
        print(f"{name} is measured", file=sys.stderr)
        if options.out:
            options.out.write_text(json.dumps(results, indent=1))
    print(table(results))


if __name__ == "__main__":
    main()
