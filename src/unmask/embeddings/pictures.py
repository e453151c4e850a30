"""Which instances of one word a picture shows: those of the senses that have enough of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from unmask.embeddings.encoder import Encoder
from unmask.embeddings.sense_corpus import Gold, Sentence
from unmask.embeddings.senses import instance_vectors
from unmask.embeddings.standardise import Array, Standardiser
from unmask.errors import UsageError


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
