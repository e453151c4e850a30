"""`unmask.fill` in a warm process, to its five best fillings: at its default settings, and from one pass.

The unit is one plain forward pass of the same model over the same sentence: what the independent answer
of a fill-mask pipeline costs.
"""

from __future__ import annotations

from functools import partial
from statistics import fmean
from typing import Any

import torch

import unmask
from machine import by_turns, describe, parser, table
from unmask.text.cloze import parse_blanks

SENTENCES = (
    "The [MASK] [MASK] at the casino.",
    "A [MASK] in a red dress is playing the [MASK].",
    "Two [MASK] are running [MASK] the park.",
    "He [MASK] to the station early in the [MASK].",
    "The old dog slept [MASK] front of the [MASK] while the children were playing outside.",
)


def measure(model: str = "english", repeats: int = 3) -> list[dict[str, Any]]:
    """Time each sentence, filled and passed once through the model, the best of several."""
    mlm = unmask.load(model, device="cpu")
    rows = []
    for text in SENTENCES:
        cloze = parse_blanks(text, mlm.vocabulary, mlm.window)
        ids = torch.tensor([cloze.ids])
        works = {
            "fill": partial(_fill, text, mlm, "auto"),
            "one-pass": partial(_fill, text, mlm, 0),
            "pass": partial(_pass, mlm.model, ids),
        }
        if mlm.pair_head is None:
            del works["one-pass"]
        passes = _fill(text, mlm, "auto").diagnostics.passes
        rows.append({"text": text, "passes": passes, **by_turns(works, repeats)})
    return rows


@torch.inference_mode()
def _pass(model: Any, ids: torch.Tensor) -> None:
    model(input_ids=ids)


def _fill(text: str, mlm: unmask.MaskedLM, candidates: int | str) -> unmask.Joint:
    joint = unmask.fill(text, mlm=mlm, candidates=candidates)
    joint.top(5)
    return joint


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--model", default="english")
    options.add_argument("--repeats", type=int, default=3)
    print(f"## A warm `unmask.fill`\n\n{describe()}\n")
    found = measure(**vars(options.parse_args()))
    rows = [(row["text"].replace("[MASK]", "___"), str(row["passes"]), *_cells(row)) for row in found]
    mean = {name: fmean(row[name] for row in found) for name in found[0] if name not in ("text", "passes")}
    units = {name: fmean(row[name] / row["pass"] for row in found) for name in mean}
    rows.append(("mean", f"{fmean(row['passes'] for row in found):.0f}", *_cells(mean, units)))
    rows.append(("target", "", "", "≤ 20", "", "", "≤ 8"))
    heads = ("sentence", "passes", "fill", "in units of a pass", "one pass", "candidates=0", "in units")
    print(table(heads, rows))


def _cells(seconds: dict[str, float], units: dict[str, float] | None = None) -> tuple[str, ...]:
    """Return the cells of times; `units` are given where they are not their ratios."""
    times = {name: f"{1000 * seconds[name]:.0f} ms" for name in ("fill", "one-pass") if name in seconds}
    ratios = units or {name: seconds[name] / seconds["pass"] for name in times}
    one_pass = (times["one-pass"], f"{ratios['one-pass']:.1f}") if "one-pass" in times else ("", "")
    return (times["fill"], f"{ratios['fill']:.1f}", f"{1000 * seconds['pass']:.1f} ms", *one_pass)


if __name__ == "__main__":
    main()
