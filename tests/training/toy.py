"""A toy language: every document keeps to one topic, and every sentence to one frame.

A sentence is `the ADJECTIVE NOUN VERB the NOUN .` with all words from the document's topic, so that a
masked word is known up to the few words of its slot and topic, and a second paragraph from another document
shows by its words.
"""

import random
from pathlib import Path

TOPICS, WORDS = 6, 3
VOCABULARY = 5 + 2 + TOPICS * WORDS * 3 + 40


def sentence(topic: int, chance: random.Random) -> str:
    def word(slot: str) -> str:
        return f"{slot}{'abcdef'[topic]}{'xyz'[chance.randrange(WORDS)]}"

    return f"the {word('j')} {word('n')} {word('v')} the {word('n')} ."


def document(chance: random.Random) -> str:
    topic = chance.randrange(TOPICS)
    paragraphs = [" ".join(sentence(topic, chance) for _ in range(2)) for _ in range(4)]
    return "\n".join(paragraphs)


def write_corpus(path: Path, documents: int = 400, seed: int = 0) -> Path:
    chance = random.Random(seed)
    path.write_text("\n\n".join(document(chance) for _ in range(documents)) + "\n")
    return path
