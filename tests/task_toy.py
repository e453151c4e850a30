"""Toy tasks over the words of the tiny models: what decides the label stands in plain sight."""

import itertools
import json
import random

from unmask.tasks import Settings

ANIMALS, THINGS, PLACES = ("dog", "cat"), ("house", "bank"), ("casino", "money")
KINDS = {
    word: kind
    for kind, words in (("animal", ANIMALS), ("thing", THINGS), ("place", PLACES))
    for word in words
}


def texts():
    """(text, label): the label is the kind of the one noun."""
    for first, noun, verb in itertools.product(
        ("the old", "a red", "the big"), KINDS, ("is", "was at", "walks")
    ):
        yield f"{first} {noun} {verb}", KINDS[noun]


def pairs():
    """(text, text, label): the kind of the second text's noun, whatever the first one's is."""
    for first, second in itertools.product(KINDS, KINDS):
        for verb in ("is", "was"):
            yield f"the {first} {verb}", f"a {second} {verb} old", KINDS[second]


def sentences():
    """(words, tags): animals are entities of up to two words, and so are places."""
    for a, b, verb in itertools.product(ANIMALS, PLACES, ("is", "walks", "was", "plays")):
        yield ["the", "old", a, verb, "at", b, b], ["O", "B-ANI", "I-ANI", "O", "O", "B-LOC", "I-LOC"]
        yield [b, verb, "the", a, "."], ["B-LOC", "O", "O", "B-ANI", "O"]


def write(home, task):
    """Write a file of the task's own kind and return it."""
    home.mkdir(parents=True, exist_ok=True)
    if task == "tag":
        path = home / "toy.conll"
        path.write_text(
            "\n\n".join("\n".join(map("\t".join, zip(*s, strict=True))) for s in shuffled(sentences())) + "\n"
        )
    elif task == "pairs":
        path = home / "toy.jsonl"
        rows = [{"premise": a, "hypothesis": b, "label": label} for a, b, label in shuffled(pairs())]
        path.write_text("\n".join(map(json.dumps, rows)))
    else:
        path = home / "toy.tsv"
        path.write_text("\n".join(["text\tlabel", *map("\t".join, shuffled(texts()))]) + "\n")
    return path


def shuffled(items):
    items = list(items)
    random.Random(0).shuffle(items)
    return items


def settings(home, model, task="classify", **changes):
    path = str(write(home, task))
    values = {
        "train": path,
        "dev": path,
        "model": str(model),
        "batch_size": 8,
        "lr": 3e-3,
        "epochs": 6,
        "dropout": 0.0,
    }
    return Settings(task=task, **values | changes)
