"""Small corpora, tokenizers and token files that the training tests share."""

import json

import numpy as np
import pytest
import toy

from unmask.training import Settings
from unmask.training.corpus import Corpus
from unmask.training.packing import Marks
from unmask.training.tokenfile import write
from unmask.training.vocabulary import train_vocabulary


@pytest.fixture(scope="session")
def toy_corpus(tmp_path_factory):
    return Corpus("toy", toy.write_corpus(tmp_path_factory.mktemp("toy") / "toy.txt"))


@pytest.fixture(scope="session")
def toy_tokenizer(toy_corpus):
    return train_vocabulary(
        [toy_corpus], tokenizer_type="wordpiece", size=90, alpha=1.0, lowercase=True, seed=0
    )


@pytest.fixture(scope="session")
def toy_tokens(toy_corpus, toy_tokenizer, tmp_path_factory):
    return write(toy_corpus, toy_tokenizer, tmp_path_factory.mktemp("tokens"), "toy")


@pytest.fixture(scope="session")
def marks(toy_tokenizer):
    return Marks(toy_tokenizer.cls_token_id, toy_tokenizer.sep_token_id, toy_tokenizer.pad_token_id)


@pytest.fixture
def generator():
    return np.random.default_rng(0)


@pytest.fixture
def settings(tmp_path):
    """A run of four steps of a very small model."""
    toy.write_corpus(tmp_path / "toy.txt", documents=120)
    config = tmp_path / "config.json"
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config.write_text(json.dumps({"model_type": "bert", **shape}))
    return Settings(
        corpora=(f"toy={tmp_path / 'toy.txt'}",),
        init_from=str(config),
        vocab_size=150,
        max_length=32,
        eval_one_in=10,
        max_steps=4,
        warmup_steps=1,
        decay_steps=1,
        batch_size=4,
        save_steps=2,
        eval_steps=2,
        eval_rows=4,
    )
