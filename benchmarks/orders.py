"""How much an average over several orders gives: bits per byte of held-out sentences by `chain`.

    python benchmarks/orders.py --data snli=FILE --data xsum=FILE [--count 100] [--orders 1 2 4 8]

The data are SNLI's dev.tsv, or a file with a text per line. Prints the mean of bits per byte over the same
sentences for each number of orders, with the half-width of a 95 % interval of the gain over one order.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

import unmask
from machine import describe, parser, table
from pair_head import texts_of

LONGEST = 200
"""Characters of a sentence: a chain takes a pass for every token."""


def measure(mlm: unmask.MaskedLM, texts: list[str], orders: list[int]) -> dict[int, np.ndarray]:
    """Return the bits per byte of every text, by the number of orders."""
    return {
        n: np.array([row.bits_per_byte for row in unmask.score_sentences(texts, "chain", mlm=mlm, orders=n)])
        for n in orders
    }


def main() -> None:
    """Print a table per data set."""
    options = parser(__doc__)
    options.add_argument("--data", action="append", required=True, metavar="NAME=FILE")
    options.add_argument("--model", default="english")
    options.add_argument("--count", type=int, default=100)
    options.add_argument("--orders", type=int, nargs="+", default=[1, 2, 4, 8])
    given = options.parse_args()
    mlm = unmask.load(given.model, device="cpu")
    print(f"## An average over orders\n\n{describe()}\n")
    for entry in given.data:
        name, _, path = entry.partition("=")
        texts = [text for text in texts_of(Path(path)) if text.strip() and len(text) <= LONGEST]
        found = measure(mlm, random.Random(0).sample(texts, given.count), given.orders)
        first = found[given.orders[0]]
        rows = []
        for n, values in found.items():
            gain = first - values
            half = 1.96 * gain.std(ddof=1) / np.sqrt(len(gain))
            rows.append((str(n), f"{values.mean():.3f}", f"{gain.mean():.3f} ± {half:.3f}"))
        print(f"{name}, {given.count} texts\n")
        print(table(("orders", "bits per byte", "gain"), rows), "\n", flush=True)


if __name__ == "__main__":
    main()
