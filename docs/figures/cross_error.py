"""How far cross conditionals are from exact ones, against the number K of candidates.

The figure of docs/background/cross-conditionals.md:

    python docs/figures/cross_error.py

writes cross_error.png, cross_error.svg and cross_error.json (the numbers) beside this file. The model is the
embedded one, over the 1,500 likeliest tokens of each blank, so that the exact answer is at hand in seconds.
The scored pairs are always among the candidates, as in `unmask score`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from torch import Tensor
from torch.distributions import kl_divergence

import unmask
from unmask.inference.cross import cross_conditionals
from unmask.inference.exact import Supports, both_blank, exact_conditionals
from unmask.tables.pair_conditionals import PairConditionals
from unmask.text.cloze import Cloze, parse_braces
from unmask.text.support import Support

sys.path.append(str(Path(__file__).parents[2] / "recipes"))

from pages import markdown, renew
from provenance import ALL, MADE, shown, stamp, write

HERE = Path(__file__).parent
TOKENS = 1500
TEXTS = [
    "The {man} {is} sitting at the table.",
    "A {woman} in a red dress is {playing} the piano.",
    "Two {children} are {running} in the park.",
    "The {old} {dog} slept in front of the fire.",
    "He went {to} {the} station early in the morning.",
    "The {police} said that two {people} were found.",
]
METHODS = {"ag": "-", "gibbs": "--"}
COLOURS = {"plain": "#c1571f", "learned": "#1f6fb4"}


def main() -> None:
    """Measure, write the numbers, draw."""
    mlm = unmask.load()
    clozes = [parse_braces(text, mlm.vocabulary, mlm.window) for text in TEXTS]
    clozes = [c for c in clozes if len(c.blanks) == 2]  # a word may be several tokens for the model
    tokens = min(TOKENS, len(Support.words(mlm.vocabulary)))
    counts = [k for k in (16, 32, 64, 128, 256, 512, 1024) if k < tokens] + [tokens]
    found = measure(mlm, clozes, counts)
    found |= {"model": mlm.name, "tokens": tokens, "texts": [c.filled(c.truth or ()) for c in clozes]}
    found = write(HERE / "cross_error.json", found, {ALL: stamp(pair_head=True)})
    draw(found)
    renew(HERE.parent / "background" / "cross-conditionals.md", "cross_error", tables(found))
    print(json.dumps({k: v for k, v in found.items() if k != "texts"}, indent=1))


def tables(found: dict[str, Any]) -> dict[str, str]:
    """Return the table of the page: the error of log q of the true pair under `ag` against K."""
    rows = [
        [f"error of log q, {name}", *(f"{value:.3f}" for value in found["log_q_error"][f"{name} ag"])]
        for name in COLOURS
    ]
    rows.append(
        [
            "KL of a conditional, learned, as reported",
            *(f"{value:.3f}" for value in found["left_out"]["learned"]),
        ]
    )
    rows.append(["the same, true", *(f"{value:.3f}" for value in found["unevaluated"]["learned"])])
    told = f"Made by `python docs/figures/cross_error.py`: {shown(found.get(MADE, {}).get(ALL))}."
    return {"errors": f"{markdown(['K', *map(str, found['K'])], rows)}\n\n{told}"}


def likeliest(mlm: unmask.MaskedLM, cloze: Cloze) -> Supports:
    """Return the likeliest tokens of each blank, the true one among them."""
    words = Support.words(mlm.vocabulary)
    alone = both_blank(mlm, cloze, (words, words))
    for log_m, token in zip(alone, cloze.truth or (), strict=True):
        log_m[words.index(token)] += 100.0
    a, b = (words.likeliest(log_m, TOKENS) for log_m in alone)
    return a, b


def measure(mlm: unmask.MaskedLM, clozes: list[Cloze], counts: list[int]) -> dict[str, Any]:
    """Return each measure, the mean over the texts, for each K: the keys are measure, completion, method."""
    names = [(c, m) for c in COLOURS for m in METHODS]
    log_q = {n: torch.zeros(len(counts)) for n in names}
    kl = {n: torch.zeros(len(counts)) for n in names}
    left_out, actual = ({c: torch.zeros(len(counts)) for c in COLOURS} for _ in range(2))
    for cloze in clozes:
        supports = likeliest(mlm, cloze)
        exact = exact_conditionals(mlm, cloze, supports)
        truths = {method: unmask.construct(method, exact) for method in METHODS}
        a, b = cloze.truth or ()
        for i, k in enumerate(counts):
            for completion in COLOURS:
                cross = cross_conditionals(
                    mlm,
                    cloze,
                    supports,
                    k,
                    completion=completion,
                    include=((a,), (b,)),
                    ungrouped=max(map(len, supports)),  # so that nothing but the completion is wrong
                    seed=i,
                )
                for method, truth in truths.items():
                    joint = unmask.construct(method, cross)
                    log_q[completion, method][i] += abs(
                        float(joint.log_prob([a, b]) - truth.log_prob([a, b]))
                    )
                    kl[completion, method][i] += max(0.0, float(kl_divergence(truth, joint)))
                errors = cross.diagnostics.completion_error
                left_out[completion][i] += sum(e or 0.0 for e in errors) / 2
                actual[completion][i] += sum(unevaluated_kl(exact, cross)) / 2
    n = len(clozes)
    return {
        "K": counts,
        "log_q_error": {f"{c} {m}": (v / n).tolist() for (c, m), v in log_q.items()},
        "kl": {f"{c} {m}": (v / n).tolist() for (c, m), v in kl.items()},
        "left_out": {c: (v / n).tolist() for c, v in left_out.items()},
        "unevaluated": {c: (v / n).tolist() for c, v in actual.items()},
    }


def unevaluated_kl(exact: PairConditionals, cross: PairConditionals) -> list[float]:
    """Return the mean KL(model || completed) over the unevaluated contexts, for p(a|b) and p(b|a)."""
    of_a, of_b = cross.evaluated
    both = [(exact.a_given_b().T, cross.a_given_b().T, of_b), (exact.b_given_a(), cross.b_given_a(), of_a)]
    return [_mean_kl(truth, guess, seen) for truth, guess, seen in both]


def _mean_kl(truth: Tensor, guess: Tensor, seen: Tensor) -> float:
    unseen = torch.ones(len(truth), dtype=torch.bool)
    unseen[seen] = False
    if not unseen.any():
        return 0.0
    return float((truth.exp() * (truth - guess)).sum(1)[unseen].mean())


def draw(found: dict[str, Any]) -> None:
    """Draw three panels over K, up to the last K that is not all tokens."""
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(1, 3, figsize=(11, 4), layout="constrained")
    texts = len(found["texts"])
    figure.suptitle(
        f"model: {found['model']}, {found['tokens']:,} tokens per blank, mean of {texts} texts", fontsize=9
    )
    n = len(found["K"]) - 1
    k = found["K"][:n]
    panels = [
        ("log_q_error", "mean |error| of log q(true pair)", axes[0]),
        ("kl", "KL(exact ‖ cross) of the joint", axes[1]),
    ]
    for key, title, axis in panels:
        for name, values in found[key].items():
            completion, method = name.split()
            axis.plot(
                k,
                values[:n],
                METHODS[method],
                color=COLOURS[completion],
                marker="o",
                ms=3.5,
                label=f"{method}, {completion}",
            )
        axis.set_title(title)
    for completion, colour in COLOURS.items():
        axes[2].plot(
            k,
            found["unevaluated"][completion][:n],
            "-",
            color=colour,
            marker="o",
            ms=3.5,
            label=f"{completion}: true",
        )
        axes[2].plot(
            k,
            found["left_out"][completion][:n],
            ":",
            color=colour,
            marker="s",
            ms=3.5,
            label=f"{completion}: as reported",
        )
    axes[2].set_title("KL(model ‖ completed), one conditional")
    for axis in axes:
        axis.set(
            xscale="log",
            yscale="log",
            xlabel=f"K, candidates per blank (of {found['tokens']:,})",
            ylabel="nats",
        )
        axis.set_xticks(k, [str(x) for x in k])
        axis.minorticks_off()
        axis.grid(alpha=0.25)
        low, high = axis.get_ylim()
        axis.set_ylim(low / (high / low) ** 0.35, high)  # room for the legend
        axis.legend(frameon=False, fontsize=8, loc="lower left")
    figure.savefig(HERE / "cross_error.png", dpi=160)
    plt.rcParams["svg.hashsalt"] = "unmask"
    figure.savefig(HERE / "cross_error.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
