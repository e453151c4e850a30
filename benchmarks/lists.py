"""Time per sentence of a list in one call, against the same sentences one by one.

    python benchmarks/lists.py [--texts 32] [--candidates 8]

Each text has two blanks, or one. Both ways run in turn in one process, on one thread, and the processor time
of each is told, beside the largest difference of the probabilities of the likeliest fillings.
"""

from __future__ import annotations

import argparse
import math
import platform
import time

import torch

import unmask

SUBJECTS = ("man", "woman", "boy", "girl", "dog", "child", "player", "group")
PLACES = ("park", "street", "house", "water", "snow", "city", "field", "kitchen")
FRAMES = {1: "The {} is [MASK] in the {} today.", 2: "The {} [MASK] [MASK] in the {} today."}


def texts(count: int, blanks: int) -> list[str]:
    """Different sentences of about one length."""
    pairs = [(one, other) for one in SUBJECTS for other in PLACES]
    return [FRAMES[blanks].format(*pairs[n % len(pairs)]) for n in range(count)]


def main() -> None:
    """Print a line per kind of question."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=32)
    parser.add_argument("--candidates", type=int, default=8)
    parser.add_argument("--model", default="english")
    given = parser.parse_args()
    torch.set_num_threads(1)
    mlm = unmask.load(given.model)
    print(f"{platform.processor() or platform.machine()}, one thread, {given.texts} texts, {mlm.name}")
    few = {"candidates": given.candidates}
    questions = [
        ("one blank", 1, {}),
        ("two blanks, l2r", 2, {"method": "l2r", **few}),
        ("two blanks, ag", 2, few),
        ("two blanks, ag, auto", 2, {}),
    ]
    for name, blanks, query in questions:
        asked = texts(given.texts, blanks)
        unmask.fill(asked[0], mlm=mlm, **query).top(1)  # warm

        def alone(asked: list[str] = asked, query: dict = query) -> list[unmask.Filling]:
            return [unmask.fill(text, mlm=mlm, **query).top(1)[0] for text in asked]

        def together(asked: list[str] = asked, query: dict = query) -> list[unmask.Filling]:
            return [joint.top(1)[0] for joint in unmask.fill(asked, mlm=mlm, **query)]

        (one_by_one, first), (one_call, second) = _timed(alone), _timed(together)
        differ = max(
            abs(math.exp(a.log_prob) - math.exp(b.log_prob)) for a, b in zip(first, second, strict=True)
        )
        print(
            f"{name:22} {1000 * one_by_one / len(asked):7.0f} ms per text one by one, "
            f"{1000 * one_call / len(asked):7.0f} in one call, ratio {one_by_one / one_call:.2f}, "
            f"probabilities differ by {differ:.1e}"
        )


def _timed(work):
    best, found = math.inf, None
    for _ in range(2):
        start = time.process_time()
        found = work()
        best = min(best, time.process_time() - start)
    return best, found


if __name__ == "__main__":
    main()
