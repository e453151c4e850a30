"""A toy language: every document keeps to one topic, and every sentence to one frame.

A sentence is `the ADJECTIVE NOUN VERB the NOUN .` with all words from the document's topic, so that a
masked word is known up to the two words of its slot and topic (a loss of 4/7·log 2 = 0.40 nats at best),
and a second paragraph of another document shows by its words (unless both share their topic, 1 in 16).
"""

import random
from pathlib import Path

TOPICS = "abcdefghiklmopqr"


def sentence(topic: str, chance: random.Random) -> str:
    def word(slot: str) -> str:
        return f"{slot}{topic}{chance.choice('xz')}"

    return f"the {word('j')} {word('n')} {word('v')} the {word('n')} ."


def document(chance: random.Random) -> str:
    topic = chance.choice(TOPICS)
    paragraphs = [" ".join(sentence(topic, chance) for _ in range(2)) for _ in range(4)]
    return "\n".join(paragraphs)


def write_corpus(path: Path, documents: int = 400, seed: int = 0) -> Path:
    chance = random.Random(seed)
    path.write_text("\n\n".join(document(chance) for _ in range(documents)) + "\n")
    return path
