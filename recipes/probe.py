"""How much of a text's meaning is in an encoder's vectors, before anything is fine-tuned?

A linear probe: logistic regression for three-way sentiment on frozen, standardised sentence vectors (the mean
over the tokens of a layer). It takes seconds, and tells whether a training keeps what its warm start knew.

    python recipes/probe.py --data ../shared/data english CHECKPOINT...
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from pages import markdown
from torch import Tensor
from torch.nn import functional

from unmask.embeddings.encoder import Encoder
from unmask.tasks.files import Columns, Example, read_examples

TRAINED, TESTED = 3000, 1000
"""Sentences; the error of an accuracy is about 0.015."""
RIDGE = 3e-3


def probe(checkpoint: str, data: Path, layers: tuple[int, ...]) -> dict[int, float]:
    """Return the accuracy by layer."""
    encoder = Encoder.load(checkpoint, device="cpu")
    train, test = (
        read_examples(data / "sentiment" / name, pairs=False, columns=Columns(), labelled=True)[:count]
        for name, count in (("train.tsv", TRAINED), ("dev.tsv", TESTED))
    )
    labels = sorted({example.label or "" for example in train})
    truth, asked = (
        torch.tensor([labels.index(example.label or "") for example in part]) for part in (train, test)
    )
    seen, unseen = (_vectors(encoder, part, layers) for part in (train, test))
    return {layer: _accuracy(a, truth, b, asked) for layer, a, b in zip(layers, seen, unseen, strict=True)}


def _vectors(encoder: Encoder, examples: list[Example], layers: tuple[int, ...]) -> list[Tensor]:
    """Return the mean vectors of texts, [examples, features] for each layer."""
    reader = encoder.reader(unit="sentence", pooling="mean")
    readings = list(reader.read_all([example.texts[0] for example in examples]))
    found = encoder.embed(readings, reader, [encoder.layers(layer) for layer in layers])
    return [torch.from_numpy(vectors) for vectors in found]


def _accuracy(seen: Tensor, truth: Tensor, unseen: Tensor, asked: Tensor) -> float:
    """Fit to what was seen; return the share of the unseen that is told right."""
    mean, deviation = seen.mean(0), seen.std(0).clamp_min(1e-6)
    seen, unseen = (
        torch.cat([(part - mean) / deviation, torch.ones(len(part), 1)], 1) for part in (seen, unseen)
    )
    weights = torch.zeros(seen.shape[1], int(truth.max()) + 1, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=100)

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = functional.cross_entropy(seen @ weights, truth) + RIDGE * weights[:-1].square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    return float(((unseen @ weights).argmax(1) == asked).float().mean())


def main() -> None:
    """Probe every checkpoint and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkpoints", nargs="+", help="english, a directory or a hub name")
    parser.add_argument("--data", type=Path, required=True, help="directory with sentiment/")
    parser.add_argument("--layers", type=int, nargs="+", default=[0, 2, 4, 6])
    options = parser.parse_args()
    found = {one: probe(one, options.data, tuple(options.layers)) for one in options.checkpoints}
    rows = [[Path(one).name, *(f"{a:.3f}" for a in by.values())] for one, by in found.items()]
    print(markdown(["checkpoint", *(f"layer {layer}" for layer in options.layers)], rows))


if __name__ == "__main__":
    main()
