"""Small data sets in every form that the readers know, made of words that the tiny models have."""

import json
from pathlib import Path

SENTENCES = [
    "The old man is playing at the casino.",
    "A dog was in the house.",
    "The red cat walked on the bank.",
    "Money is at the bank.",
    "The man played in the red house.",
    "A big dog is at the casino.",
    "The cat was in the big bank.",
    "The old dog walks on the red house.",
    "A man was playing on the bank.",
    "The bank is in the old house.",
    "The money was at the big red casino.",
    "A cat is on the man.",
]


def text_file(path: Path, sentences: list[str] = SENTENCES) -> Path:
    path.write_text("\n".join(sentences) + "\n", encoding="utf-8")
    return path


def snli_rows() -> list[dict[str, str]]:
    labels = ["entailment", "-", "neutral", "", "contradiction", "entailment"]
    return [
        {"gold_label": label, "sentence1": SENTENCES[i], "sentence2": SENTENCES[i + 6]}
        for i, label in enumerate(labels)
    ]


def snli_jsonl(path: Path) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in snli_rows()), encoding="utf-8")
    return path
