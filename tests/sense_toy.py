"""A toy sense-tagged corpus in the unified format."""

from itertools import product

MONEY, HOUSE = "bank%1:14:00::", "bank%1:06:00::"
CONTEXTS = {
    MONEY: ("money in the {}", "the casino and the {} play", "big money at a {}"),
    HOUSE: ("the old {} is red",),
}


def xml(sentences):
    """Sentences as lists of words, where (id, lemma, pos, word) is an instance."""
    lines = ['<?xml version="1.0" encoding="UTF-8" ?>', '<corpus lang="en">', '<text id="d0">']
    for number, words in enumerate(sentences):
        lines.append(f'<sentence id="d0.s{number}">')
        for word in words:
            if isinstance(word, str):
                lines.append(f'<wf lemma="{word}" pos="X">{word}</wf>')
            else:
                lines.append('<instance id="{}" lemma="{}" pos="{}">{}</instance>'.format(*word))
        lines.append("</sentence>")
    return "\n".join([*lines, "</text>", "</corpus>"])


def write_corpus(home):
    """A sense-tagged corpus of a word with two senses, one with a single sense, and two keys for one word."""
    sentences, gold = [], []
    for number, (adjective, (sense, frame)) in enumerate(
        product(("old", "red", "big"), ((s, f) for s, frames in CONTEXTS.items() for f in frames))
    ):
        words = frame.format("@").split()
        at = words.index("@")
        words[at] = (f"t{number}", "bank", "NOUN", "bank")
        sentences.append([adjective, *words, (f"w{number}", "walk", "VERB", "walked")])
        gold += [f"t{number} {sense}", f"w{number} walk%2:38:00:: walk%2:38:01::"]
    (home / "toy.data.xml").write_text(xml(sentences))
    (home / "toy.gold.key.txt").write_text("\n".join(gold) + "\n")
    return home / "toy.data.xml"
