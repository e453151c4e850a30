"""The compatibility study: the same warm start and budget, with the penalty at several weights.

For each weight a model is trained by `english.toml` (fewer steps), and measured on pairs of words of SNLI's
development sentences: held-out MLM loss, incompatibility of the conditionals, U-PPL and P-PPL of `product`,
`ag` and `l2r`. A weight that is done is not done again: the study can be stopped and started at will.

    python recipes/compatibility.py --data ../shared/data --work STUDY [--steps 400] [--pairs 200]
"""

from __future__ import annotations

import argparse
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
from english import encoder, write_sentences

import unmask
from unmask.api import conditionals
from unmask.cloze import Cloze, parse_braces
from unmask.constructions import construct
from unmask.errors import UnmaskError
from unmask.evaluation.metrics import incompatibility
from unmask.training import read_settings, train

HERE = Path(__file__).parent
WEIGHTS = (0.0, 0.01, 0.03, 0.1, 0.3)
METHODS = ("product", "ag", "l2r")


def pairs(mlm: Any, text: Path, count: int, seed: int = 0) -> list[Cloze]:
    """Sentences with two words, each one token, drawn as blanks."""
    generator = np.random.default_rng(seed)
    sentences = [line for line in text.read_text(encoding="utf-8").splitlines() if line]
    found: list[Cloze] = []
    for index in generator.permutation(len(sentences)):
        words = list(re.finditer(r"[A-Za-z]+", sentences[index]))
        if len(words) < 4:
            continue
        first, second = sorted(generator.choice(len(words), 2, replace=False))
        marked = sentences[index]
        for word in (words[second], words[first]):
            marked = f"{marked[: word.start()]}{{{word.group()}}}{marked[word.end() :]}"
        try:
            cloze = parse_braces(marked, mlm.vocabulary, mlm.window)
        except UnmaskError:
            continue  # a brace in the sentence itself
        if len(cloze.blanks) == 2:
            found.append(cloze)
        if len(found) == count:
            break
    return found


def measure(directory: Path, text: Path, count: int, candidates: int) -> dict[str, float]:
    """Incompatibility, and the unary and pairwise perplexities of each construction."""
    mlm = unmask.load(directory)
    sums = dict.fromkeys(
        ["incompatibility", *(f"{method} {kind}" for method in METHODS for kind in "UP")], 0.0
    )
    chosen = pairs(mlm, text, count)
    for cloze in chosen:
        table = conditionals(mlm, cloze, candidates=candidates)
        sums["incompatibility"] += incompatibility(table)
        a, b = cloze.truth
        row, column = table.a_support.index(a), table.b_support.index(b)
        unary = float(table.a_table[row, column]), float(table.b_table[row, column])
        for method in METHODS:
            joint = construct(method, table)
            sums[f"{method} P"] -= float(joint.log_prob(a, b)) / 2
            if method != "product":  # whose unary perplexity is the model's own
                unary_q = (
                    float(joint.conditional(0, {1: b}).log_prob(a)),
                    float(joint.conditional(1, {0: a}).log_prob(b)),
                )
            else:
                unary_q = unary
            sums[f"{method} U"] -= sum(unary_q) / 2
    means = {name: value / len(chosen) for name, value in sums.items()}
    return {name: mean if name == "incompatibility" else math.exp(mean) for name, mean in means.items()}


def main() -> None:
    """Run what is not done yet, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--candidates", type=int, default=128)
    options = parser.parse_args()
    text = options.work / "text"
    text.mkdir(parents=True, exist_ok=True)
    held = write_sentences(options.data / "snli" / "dev.tsv", text / "snli-dev.txt", set())
    write_sentences(options.data / "snli" / "train-20k.tsv.gz", text / "snli.txt", held)
    rows = []
    for weight in WEIGHTS:
        home = options.work / f"weight-{weight:g}"
        done = home / "study.json"
        if not done.exists():
            settings = read_settings(
                HERE / "english.toml",
                start=str(encoder()),
                corpora=(
                    f"wikipedia={options.data / 'corpus' / 'wikipedia.txt.gz'}",
                    f"novels={options.data / 'corpus' / 'novels.txt.gz'}",
                    f"snli={text / 'snli.txt'}",
                ),
                held_out_corpora=(f"snli-dev={text / 'snli-dev.txt'}",),
                steps=options.steps,
                decay=3 * options.steps // 4,
                compatibility=weight,
            )
            scores = train(settings, home).scores
            numbers = {f"loss {name}": score.loss for name, score in scores.items()}
            numbers |= measure(home / "model", text / "snli-dev.txt", options.pairs, options.candidates)
            done.write_text(json.dumps({"weight": weight, **numbers}, indent=1))
        rows.append(json.loads(done.read_text()))
        print("| " + " | ".join(f"{value:.3f}" for value in rows[-1].values()) + " |", flush=True)
    print("| " + " | ".join(rows[0]) + " |")


if __name__ == "__main__":
    main()
