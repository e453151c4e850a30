"""`unmask.fill` in a warm process at its default settings: seconds a sentence, to its five best fillings.

The baseline is one plain forward pass of the same model over the same sentence: what the independent answer
of a fill-mask pipeline costs.
"""

from __future__ import annotations

from functools import partial
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


def measure(model: str = "english", repeats: int = 3) -> dict[str, Any]:
    """Time each sentence, filled and passed once through the model, the best of several."""
    mlm = unmask.load(model, device="cpu")
    rows = []
    for text in SENTENCES:
        cloze = parse_blanks(text, mlm.vocabulary, mlm.window)
        ids = torch.tensor([cloze.ids])
        works = {
            "fill": partial(_fill, text, mlm),
            "pass": partial(_pass, mlm.model, ids),
        }
        best = by_turns(works, repeats)
        diagnostics = _fill(text, mlm).diagnostics
        rows.append(
            {
                "text": text,
                "seconds": best["fill"],
                "pass_seconds": best["pass"],
                "passes": diagnostics.passes,
            }
        )
    return {"rows": rows, "seconds": sum(row["seconds"] for row in rows) / len(rows)}


@torch.inference_mode()
def _pass(model: Any, ids: torch.Tensor) -> None:
    model(input_ids=ids)


def _fill(text: str, mlm: unmask.MaskedLM) -> unmask.Joint:
    joint = unmask.fill(text, mlm=mlm)
    joint.top(5)
    return joint


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--model", default="english")
    options.add_argument("--repeats", type=int, default=3)
    print(f"## A warm `unmask.fill`\n\n{describe()}\n")
    found = measure(**vars(options.parse_args()))
    rows = [
        (
            row["text"].replace("[MASK]", "___"),
            f"{row['seconds']:.2f} s, {row['passes']} passes",
            f"{1000 * row['pass_seconds']:.1f} ms",
            f"{row['seconds'] / row['pass_seconds']:.0f}",
            "≤ 1 s",
        )
        for row in found["rows"]
    ]
    rows.append(("mean", f"{found['seconds']:.2f} s", "", "", "≤ 1 s"))
    print(table(("sentence", "fill", "one pass", "ratio", "target"), rows))


if __name__ == "__main__":
    main()
