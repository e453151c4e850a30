"""What the pair head is worth: joints from one forward pass, against the model's own passes.

- *gap*: the mean log-probability of n neighbouring true tokens by independent answers (one pass), by the head
  (one pass: each token given its neighbour to the left), and by the model's own chain from left to right (n
  passes); the share is how much of the gap between the first and the last one the head closes. Also that of
  the `tree`, which chooses its edges and gives a row of its own to the true tokens of parents.
- *completion*: KL of the model's conditionals from completed ones at K candidates, by the ridge regression
  alone and with the head as its start; over tokens drawn in proportion to the root of m.
- *auto*: passes per pair, and the error of log q of the true pair under `ag` against exact conditionals.

Neighbouring blanks of sentences from the files given: SNLI's dev.tsv and a file with a text per line.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import unmask
from machine import describe, parser, table
from unmask.inference.cross import cross_conditionals
from unmask.inference.exact import exact_conditionals
from unmask.inference.kernel_ridge import KernelRidge
from unmask.inference.pair_guess import PairGuess
from unmask.inference.sentences import Sentence, SentenceReader
from unmask.inference.tree import tree_joint
from unmask.joints.registry import construct
from unmask.text.cloze import Cloze
from unmask.text.support import Support

LONGEST = 60
REACH = 3
CANDIDATES = (8, 16, 32, 64, 128)
CONSTRUCTIONS = ("l2r", "r2l", "mixture", "gibbs", "ag", "ag-weighted")
DRAWN = 256
SEED = 3


def texts_of(path: Path) -> list[str]:
    """Read SNLI's sentences from a .tsv file, or a text per line."""
    if path.suffix != ".tsv":
        return path.read_text(encoding="utf-8").splitlines()
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return sorted({row[name] for row in rows for name in ("premise", "hypothesis")})


def neighbours(
    mlm: unmask.MaskedLM, texts: list[str], blanks: int, count: int, seed: int, longest: int = LONGEST
) -> list[Cloze]:
    """Draw sentences with so many neighbouring tokens masked."""
    rng, reader, found = random.Random(seed), SentenceReader(mlm), []
    for text in rng.sample(texts, len(texts)):
        tokens = reader(text).tokens[: longest - 2]
        if len(tokens) < blanks + 2:
            continue
        sentence = reader.of_ids(tokens)
        first = rng.randrange(len(sentence) - blanks + 1)
        found.append(_masked(mlm, sentence, sentence.positions[first : first + blanks]))
        if len(found) == count:
            break
    return found


def across(mlm: unmask.MaskedLM, texts: list[str], token: str, count: int, seed: int) -> list[Cloze]:
    """Draw texts with two blanks that hold the same token among the same neighbours, around a token.

    The neighbours are `REACH` tokens on either side, and occur once before the token and once behind it.
    """
    rng, reader, found = random.Random(seed), SentenceReader(mlm), []
    between = mlm.tokenizer.convert_tokens_to_ids(token)
    for text in rng.sample(texts, len(texts)):
        sentence = reader(text)
        tokens = sentence.tokens
        if tokens.count(between) != 1:
            continue
        middle = tokens.index(between)
        places: dict[tuple[int, ...], list[int]] = {}
        for n in range(REACH, len(tokens) - REACH):
            if abs(n - middle) > REACH:
                places.setdefault(tokens[n - REACH : n + REACH + 1], []).append(n)
        pairs = [p for p in places.values() if len(p) == 2 and p[0] < middle < p[1]]
        if pairs:
            a, b = rng.choice(pairs)
            found.append(_masked(mlm, sentence, (sentence.positions[a], sentence.positions[b])))
        if len(found) == count:
            break
    return found


def _masked(mlm: unmask.MaskedLM, sentence: Sentence, places: tuple[int, ...]) -> Cloze:
    """Return the sentence with these positions masked, and what stood there."""
    ids = [mlm.vocabulary.mask_id if i in places else t for i, t in enumerate(sentence.ids)]
    truth = tuple(sentence.ids[p] for p in places)
    return Cloze(tuple(ids), places, ("",) * (len(places) + 1), mlm.vocabulary, truth)


@torch.inference_mode()
def gap(mlm: unmask.MaskedLM, clozes: list[Cloze]) -> dict[str, float]:
    """Return mean log-probabilities of the truth: `independent`, `head`, `tree` and `chain`."""
    every = torch.arange(mlm.vocabulary.size)
    decode = mlm.decoder(every)
    words = Support.everything(mlm.vocabulary)
    sums = dict.fromkeys(("independent", "head", "tree", "chain"), 0.0)
    for cloze in clozes:
        blanks, truth = cloze.blanks, cloze.truth or ()
        rows = [torch.tensor(cloze.ids)]
        for place, token in zip(blanks[:-1], truth[:-1], strict=True):
            rows.append(rows[-1].clone())
            rows[-1][place] = token
        states = mlm.states_at(torch.stack(rows), blanks)

        def log_p(state: Tensor, token: int) -> float:
            return float(decode(state).log_softmax(-1)[token])

        first = log_p(states[0, 0], truth[0])
        sums["independent"] += sum(log_p(states[0, n], t) for n, t in enumerate(truth))
        sums["chain"] += sum(log_p(states[n, n], t) for n, t in enumerate(truth))
        sums["head"] += first
        for n in range(1, len(blanks)):
            guess = PairGuess(mlm, cloze, states[0], n - 1, n)
            sums["head"] += log_p(guess(torch.tensor([truth[n - 1]]))[0], truth[n])
        tree = tree_joint(mlm, cloze, (words,) * len(blanks), 0, include=[[t] for t in truth])
        sums["tree"] += float(tree.log_prob(torch.tensor(truth)))
    return {name: total / len(clozes) for name, total in sums.items()}


def by_construction(mlm: unmask.MaskedLM, clozes: list[Cloze]) -> dict[str, float]:
    """Return mean log-probabilities of the true pairs by constructions of the tables of one pass."""
    words = Support.everything(mlm.vocabulary)
    sums = dict.fromkeys(CONSTRUCTIONS, 0.0)
    for cloze in clozes:
        predicted = cross_conditionals(mlm, cloze, (words, words), 0, include=_truth(cloze))
        for name in CONSTRUCTIONS:
            sums[name] += float(construct(name, predicted).log_prob(torch.tensor(cloze.truth)))
    return {name: total / len(clozes) for name, total in sums.items()}


@torch.inference_mode()
def completion(mlm: unmask.MaskedLM, clozes: list[Cloze]) -> dict[str, dict[int, float]]:
    """Return the KL of completed conditionals by K: `ridge`, `head`; K = 0 is no completion and the guess."""
    found: dict[str, dict[int, list[float]]] = {"ridge": {}, "head": {}}
    decode = mlm.decoder(torch.arange(mlm.vocabulary.size))
    generator = torch.Generator().manual_seed(0)

    def kl(said: Tensor, truth: Tensor) -> float:
        p, q = decode(truth).log_softmax(-1), decode(said.float()).log_softmax(-1)
        return float((p.exp() * (p - q)).sum(-1).mean())

    for cloze in clozes:
        states = mlm.states_at(torch.tensor([cloze.ids]), cloze.blanks)[0]
        weights = (0.5 * decode(states[0]).log_softmax(-1)).exp()
        tokens = torch.multinomial(weights, DRAWN, generator=generator)
        truth = mlm.filled_states(cloze, 0, tokens, cloze.blanks[1])
        embeddings = mlm.input_embeddings[tokens]
        guess = PairGuess(mlm, cloze, states, 0, 1)
        guessed = guess(tokens)
        spread = float((guessed - guessed.mean(0)).std())
        points = guess.points(embeddings, guessed, spread)
        rest = slice(max(CANDIDATES), None)
        found["ridge"].setdefault(0, []).append(kl(states[1].expand_as(truth[rest]), truth[rest]))
        found["head"].setdefault(0, []).append(kl(guessed[rest], truth[rest]))
        for k in CANDIDATES:
            alone = KernelRidge(embeddings[:k], truth[:k])(embeddings[rest])
            found["ridge"].setdefault(k, []).append(kl(alone, truth[rest]))
            both = KernelRidge(points[:k], (truth - guessed)[:k])(points[rest]) + guessed[rest]
            found["head"].setdefault(k, []).append(kl(both, truth[rest]))
    return {name: {k: sum(v) / len(v) for k, v in by.items()} for name, by in found.items()}


def passes(mlm: unmask.MaskedLM, clozes: list[Cloze]) -> list[int]:
    """Return the passes of each pair at `auto`."""
    words = Support.words(mlm.vocabulary)
    return [
        cross_conditionals(mlm, cloze, (words, words), include=_truth(cloze)).diagnostics.passes
        for cloze in clozes
        if all(token in set(words.ids.tolist()) for token in cloze.truth or ())
    ]


def exact_errors(
    models: dict[str, unmask.MaskedLM], clozes: list[Cloze], count: int
) -> dict[str, list[float]]:
    """Return the error of log q of true pairs under `ag` at `auto`, by model, against exact conditionals."""
    mlm = next(iter(models.values()))
    words = Support.words(mlm.vocabulary)
    kept = set(words.ids.tolist())
    errors: dict[str, list[float]] = {name: [] for name in models}
    for cloze in [c for c in clozes if kept.issuperset(c.truth or ())][:count]:
        true = torch.tensor(cloze.truth)
        exact = construct("ag", exact_conditionals(mlm, cloze, (words, words))).log_prob(true)
        for name, model in models.items():
            near = cross_conditionals(model, cloze, (words, words), include=_truth(cloze))
            errors[name].append(abs(float(construct("ag", near).log_prob(true) - exact)))
    return errors


def _truth(cloze: Cloze) -> tuple[list[int], list[int]]:
    a, b = cloze.truth or (0, 0)
    return [a], [b]


def measure_gap(mlm: unmask.MaskedLM, texts: list[str], given: argparse.Namespace) -> dict[str, Any]:
    """Measure the gap by the number of neighbouring blanks, and around a token if one is given."""
    found: dict[str, Any] = {
        str(n): gap(mlm, neighbours(mlm, texts, n, given.count, SEED, given.longest)) for n in (2, 3, 4)
    }
    if given.across is not None:
        pairs = across(mlm, texts, given.across, given.count, SEED)
        if not pairs:
            raise SystemExit(f"no text has the same {2 * REACH + 1} tokens on both sides of {given.across!r}")
        found[f"2, across {given.across} ({len(pairs)} texts)"] = gap(mlm, pairs)
    return found


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Measure on each file: the gap and, unless only that is wanted, all the rest."""
    mlm = unmask.load(given.model, device="cpu", pair_head=given.pair_head)
    plain = unmask.load(given.model, device="cpu", pair_head=None)
    found: dict[str, Any] = {"count": given.count}
    for name, path in (file.split("=", 1) for file in given.data):
        texts = texts_of(Path(path))
        drawn = neighbours(mlm, texts, 2, given.count, SEED, given.longest)
        found[name] = {
            "gap": measure_gap(mlm, texts, given),
            "constructions": by_construction(mlm, drawn),
        }
        if not given.gap_only:
            pairs = neighbours(mlm, texts, 2, given.count, SEED + 1, given.longest)
            found[name] |= {
                "completion": completion(mlm, pairs[:24]),
                "passes": {"head": passes(mlm, pairs[:60]), "without": passes(plain, pairs[:20])},
                "exact": exact_errors({"head": mlm, "without": plain}, pairs, given.exact),
            }
        print(json.dumps({name: found[name]}), file=sys.stderr, flush=True)
    return found


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data", action="append", required=True, metavar="NAME=FILE")
    options.add_argument("--model", default="english")
    options.add_argument("--pair-head", default="auto")
    options.add_argument("--count", type=int, default=400)
    options.add_argument("--exact", type=int, default=25, help="Pairs per file with exact conditionals.")
    options.add_argument("--longest", type=int, default=LONGEST, help="Tokens of a text, with special ones.")
    options.add_argument("--across", metavar="TOKEN", help="Also two blanks that belong together around it.")
    options.add_argument("--gap-only", action="store_true", help="Measure the gap and nothing else.")
    given = options.parse_args()
    print(f"## The pair head\n\n{describe()}\n")
    found = measure(given)
    names = [file.split("=", 1)[0] for file in given.data]
    rows = []
    for name in names:
        for blanks, said in found[name]["gap"].items():
            whole = said["chain"] - said["independent"]
            shares = [f"{(said[how] - said['independent']) / whole:.2f}" for how in ("head", "tree")]
            numbers = [f"{said[how]:.2f}" for how in ("independent", "head", "tree", "chain")]
            rows.append((name, blanks, *numbers, *shares))
    head = ("text", "blanks", "independent", "head", "tree", "chain", "share, head", "share, tree")
    print(table(head, rows))
    rows = []
    for name in names:
        pairs = found[name]["gap"]["2"]
        whole = pairs["chain"] - pairs["independent"]
        shares = [(said - pairs["independent"]) / whole for said in found[name]["constructions"].values()]
        rows.append((name, *(f"{share:.2f}" for share in shares)))
    print("\n" + table(("share, 2 blanks", *CONSTRUCTIONS), rows))
    if given.gap_only:
        return
    for name in names:
        said = found[name]
        rows = [
            (str(k), f"{said['completion']['ridge'][k]:.3f}", f"{said['completion']['head'][k]:.3f}")
            for k in (0, *CANDIDATES)
        ]
        print(f"\n{name}\n\n" + table(("K", "KL, ridge", "KL, head and ridge"), rows))
        print()
        for how in ("head", "without"):
            count = said["passes"][how]
            print(f"- passes per pair at auto, {how}: {sum(count) / len(count):.0f}")
        for how, errors in said["exact"].items():
            if errors:
                mean = sum(errors) / len(errors)
                print(f"- error of log q, {how}: mean {mean:.3f}, worst {max(errors):.3f} of {len(errors)}")


if __name__ == "__main__":
    main()
