"""Forward passes over one text with many tokens in one blank: the engine against plain Hugging Face.

The baseline is the library's own model, which computes every position in every layer and its head at the
asked position only (a hook cuts the encoder's output), in batches of whichever size of BATCHES serves it
best. Both have the same weights and go as far as the logits of all tokens; they take turns, and the best time
of each counts, so that what else the machine does weighs on neither. Their log-probabilities are compared.

A second table shows what a text costs by how many are asked about at once: whether it would pay to gather
the candidates of several examples into one batch. A third one has the pace of the matrix products alone, by
torch's own `linear` and by unmask's layers.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import unmask
from machine import by_turns, describe, hugging_face, table
from unmask.linear_layers import FastLinear, onednn_is_faster
from unmask.models.hooks import output_cut
from unmask.text.cloze import Cloze

LENGTHS = (10, 16, 24, 40)
BATCHES = (512, 1024, 2048)
"""How many tokens a batch of the baseline holds."""
PRODUCTS = ((1024, 384, 384), (1024, 384, 1536), (1024, 1536, 384), (256, 384, 8192), (32, 384, 1536))
"""Rows, features and outputs of linear layers: those of a layer, the output layer, and a single text."""
TOGETHER = (1, 4, 16, 32, 64, 128, 256)
"""How many texts of 16 tokens are asked about at once, for the second table."""


def measure(
    model: str = "english",
    *,
    lengths: Sequence[int] = LENGTHS,
    tokens: int = 2048,
    repeats: int = 5,
    show: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Time both at each length, on texts that hold so many tokens in all; `show` gets a table's lines."""
    fast, plain = unmask.load(model, device="cpu"), hugging_face(model, device="cpu")
    show(
        "| tokens in a text | Hugging Face, ms per text | engine, ms per text | ratio | largest difference |"
    )
    show("|---|---|---|---|---|")
    rows = []
    for length in lengths:
        row = _compare(fast, plain, length, max(1, tokens // length), repeats)
        times = f"{row['plain_ms']:.2f} (batches of {row['plain_batch']}) | {row['engine_ms']:.2f}"
        show(f"| {length} | {times} | {row['ratio']:.2f} | {row['difference']:.1e} nats |")
        rows.append(row)
    return {"engine": fast.filled_by, "threads": torch.get_num_threads(), "rows": rows}


def together(
    model: str = "english", counts: Sequence[int] = TOGETHER, *, length: int = 16, repeats: int = 5
) -> dict[int, float]:
    """Return the milliseconds a text takes where so many are asked about at once, head included."""
    mlm = unmask.load(model, device="cpu")
    best = dict.fromkeys(counts, float("inf"))
    for _ in range(repeats + 1):
        for count in counts:
            text, chosen = _text(mlm, length, count)
            _, taken = _timed(partial(_filled, mlm, text, chosen))
            best[count] = min(best[count], 1000 * taken / count)
    return best


@torch.inference_mode()
def products(repeats: int = 5) -> list[tuple[str, float, float]]:
    """Return the GFLOP/s of each of PRODUCTS by torch's own `linear` and by our layers."""
    return [(f"{r:,} × {f:,} × {o:,}", *_paces(r, f, o, 4 * repeats)) for r, f, o in PRODUCTS]


def _paces(rows: int, features: int, outputs: int, repeats: int) -> tuple[float, float]:
    layers = {"torch": nn.Linear(features, outputs), "unmask": FastLinear(features, outputs)}
    x, calls = torch.randn(rows, features), max(1, int(1e9 / (rows * features * outputs)))

    def work(layer: nn.Module) -> None:
        for _ in range(calls):
            layer(x)

    best = by_turns({name: partial(work, layer) for name, layer in layers.items()}, repeats)
    done = 2e-9 * calls * rows * features * outputs
    return done / best["torch"], done / best["unmask"]


def _filled(mlm: Any, text: Cloze, chosen: Tensor) -> Tensor:
    decoded: Tensor = mlm.decode(mlm.filled_states(text, 0, chosen, text.blanks[1]))
    return decoded


def _compare(fast: Any, plain: Any, length: int, count: int, repeats: int) -> dict[str, Any]:
    text, chosen = _text(fast, length, count)
    asked = text.blanks[1]
    ids = plain.fillings(text, 0, chosen)

    engine = partial(_filled, fast, text, chosen)

    def baseline(size: int) -> Callable[[], Tensor]:
        return lambda: torch.cat([_plain(plain.model, part, asked) for part in ids.split(size)])

    sizes = sorted({min(count, max(1, batch // length)) for batch in BATCHES})
    plain_best, engine_best = dict.fromkeys(sizes, float("inf")), float("inf")
    for _ in range(repeats + 1):  # the first time warms up
        for size in sizes:  # the engine runs as often as all sizes of the baseline together
            theirs, taken = _timed(baseline(size))
            plain_best[size] = min(plain_best[size], taken)
            ours, taken = _timed(engine)
            engine_best = min(engine_best, taken)
    best_size = min(sizes, key=plain_best.__getitem__)
    return {
        "length": length,
        "texts": count,
        "engine_ms": 1000 * engine_best / count,
        "plain_ms": 1000 * plain_best[best_size] / count,
        "plain_batch": best_size,
        "ratio": plain_best[best_size] / engine_best,
        "difference": float((ours.log_softmax(-1) - theirs.log_softmax(-1)).abs().max()),
    }


def _timed(run: Callable[[], Tensor]) -> tuple[Tensor, float]:
    start = time.perf_counter()
    answer = run()
    return answer, time.perf_counter() - start


def _text(mlm: Any, length: int, count: int) -> tuple[Cloze, Tensor]:
    """Return words drawn by chance with two blanks a third and two thirds in, and tokens for the first."""
    generator = torch.Generator().manual_seed(length)
    words = torch.randint(0, mlm.vocabulary.size, (length + count,), generator=generator)
    ids, blanks = words[:length].tolist(), (length // 3, 2 * length // 3)
    for blank in blanks:
        ids[blank] = mlm.vocabulary.mask_id
    return Cloze(tuple(ids), blanks, ("", "", ""), mlm.vocabulary), words[length:]


@torch.inference_mode()
def _plain(model: Any, ids: Tensor, asked: int) -> Tensor:
    with output_cut(model.base_model, [asked]):
        logits: Tensor = model(input_ids=ids).logits
    return logits[:, 0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="english", help="a directory or a name")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS, help="tokens in the text")
    parser.add_argument("--tokens", type=int, default=2048, help="tokens of all texts together")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    print("## Forward passes over texts that differ in one token\n")
    print(f"{describe()}; float32, model {given.model}\n")
    chosen = {"lengths": given.lengths, "tokens": given.tokens, "repeats": given.repeats}
    found = measure(given.model, **chosen, show=partial(print, flush=True))
    print(f"\nThe passes were made by: {found['engine']}.\n")
    costs = together(given.model, repeats=given.repeats)
    heads = ["texts of 16 tokens at once", *map(str, costs)]
    print(table(heads, [["engine, ms per text", *(f"{cost:.2f}" for cost in costs.values())]]))
    print(f"\nLinear layers take {'oneDNN' if onednn_is_faster() else 'what torch takes'} here.\n")
    rows = [[what, f"{a:.0f}", f"{b:.0f}", f"{b / a:.2f}"] for what, a, b in products(given.repeats)]
    print(table(["product", "torch, GFLOP/s", "unmask, GFLOP/s", "ratio"], rows))


if __name__ == "__main__":
    main()
