"""The pictures: isotropy by layer, and one word's instances in the plane, coloured by sense."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from unmask.embeddings.encoder import Encoder
from unmask.embeddings.isotropy import REMEDIES, LayerIsotropy
from unmask.embeddings.sense_corpus import Gold, Sentence
from unmask.embeddings.senses import instance_vectors
from unmask.embeddings.standardise import Array, Standardiser
from unmask.errors import UsageError
from unmask.lazy import require

STYLES = {"raw": "o-", "standardised": "s--", "top removed": "^:"}
PANELS = {"cosine": "expected cosine of two words", "leading_1": "variance in the leading direction"}
FORMATS = (".png", ".svg", ".pdf")


# fmt: off
LEXICOGRAPHER_FILES = (
    "all", "pert", "all", "top", "act", "animal", "artifact", "attribute", "body", "cognition",
    "communication", "event", "feeling", "food", "group", "location", "motive", "object", "person",
    "phenomenon", "plant", "possession", "process", "quantity", "relation", "shape", "state",
    "substance", "time", "body", "change", "cognition", "communication", "competition",
    "consumption", "contact", "creation", "emotion", "motion", "perception", "possession", "social",
    "stative", "weather", "ppl",
)
# fmt: on
"""WordNet's parts (its lexnames) by the number in the middle of a sense key."""


def check_figure(path: Path) -> None:
    """Refuse a name that says no format of a picture, or a machine that can't draw."""
    if path.suffix not in FORMATS:
        raise UsageError(f"expected a picture that ends in {', '.join(FORMATS)}, got '{path}'")
    require("drawing a figure", "embed", "matplotlib")


def draw_isotropy(found: Mapping[str, LayerIsotropy], path: Path) -> None:
    """Draw the two leading measures by layer for each of several models."""
    from matplotlib.figure import Figure

    check_figure(path)
    figure = Figure(figsize=(4.6 * len(PANELS), 3.2 * len(found)), layout="constrained")
    grid = figure.subplots(len(found), len(PANELS), squeeze=False, sharex=True)
    for row, (model, of_model) in zip(grid, found.items(), strict=True):
        names = list(of_model.measures)
        for axes, (measure, label) in zip(row, PANELS.items(), strict=True):
            for remedy in REMEDIES:
                heights = [getattr(of_model.measures[name][remedy], measure) for name in names]
                axes.plot(names, heights, STYLES[remedy], label=remedy, markersize=5)
            axes.set(ylabel=label, title=model)
            axes.set_ylim(min(0.0, axes.get_ylim()[0]), 1.0)
            axes.grid(alpha=0.3)
    for axes in grid[-1]:
        axes.set_xlabel("layer")
    grid[0][0].legend()
    figure.savefig(path, dpi=120)


def project(vectors: Array) -> Array:
    """Return the two leading principal components of vectors, [vectors, 2]; signs are fixed."""
    centred = vectors.astype(np.float64) - vectors.mean(axis=0)
    _, _, rows = np.linalg.svd(centred, full_matrices=False)
    plane = rows[:2]
    plane = plane * np.sign(plane[np.arange(len(plane)), np.abs(plane).argmax(axis=1)])[:, None]
    flat: Array = centred @ plane.T
    return np.pad(flat, ((0, 0), (0, 2 - flat.shape[1])))


def sense_label(key: str) -> str:
    """Return a sense key with its part of WordNet, as in `plant%1:06:01:: artifact`."""
    parts = key.partition("%")[2].split(":")
    known = len(parts) > 1 and parts[1].isdigit() and int(parts[1]) < len(LEXICOGRAPHER_FILES)
    return f"{key} {LEXICOGRAPHER_FILES[int(parts[1])]}" if known else key


def draw_senses(vectors: Array, senses: Sequence[str], title: str, path: Path) -> None:
    """Draw instances of a word in the plane of their two principal components, a colour a sense.

    Vectors are brought to unit length first, since senses are told apart by cosine.
    """
    from matplotlib.figure import Figure

    check_figure(path)
    places = project(vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-12))
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for sense in sorted(set(senses), key=lambda s: (-senses.count(s), s)):
        own = places[[one == sense for one in senses]]
        axes.scatter(own[:, 0], own[:, 1], s=18, alpha=0.75, label=f"{sense_label(sense)} ({len(own)})")
    axes.set(title=title, xlabel="first principal component", ylabel="second")
    axes.legend(fontsize="small")
    figure.savefig(path, dpi=120)


def instances_by_sense(
    encoder: Encoder,
    sentences: Iterable[Sentence],
    gold: Gold,
    lemma: str,
    pos: str,
    *,
    layers: str = "last4",
    least: int = 3,
    standardise: bool = True,
) -> tuple[Array, list[str]]:
    """Return the vectors [instances, features] of a lemma's instances, and the first gold key of each."""
    chosen = []
    for sentence in sentences:
        mine = [i for i in sentence.instances if i.entry == (lemma.lower(), pos.upper()) and gold.get(i.id)]
        if mine:
            chosen.append(Sentence(sentence.words, mine))
    found = list(instance_vectors(encoder, chosen, layers))
    senses = [gold[instance.id][0] for instance, _ in found]
    counts = Counter(senses)
    kept = [i for i, sense in enumerate(senses) if counts[sense] >= least]
    if len(kept) < 2:
        raise UsageError(
            f"the corpus has {len(found)} instances of '{lemma}' as {pos.upper()}, {len(kept)} of them of "
            f"senses with at least {least}: choose another word, or a smaller --least"
        )
    vectors = np.stack([found[i][1] for i in kept])
    if standardise:
        vectors = Standardiser.fit(vectors).apply(vectors)
    return vectors, [senses[i] for i in kept]
