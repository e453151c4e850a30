"""The result of a run: what its card says, who may read it, and how long its tokenizer lets a text be."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from unmask.training import train


@pytest.fixture
def window(settings):
    """A run whose model reads 64 tokens."""
    config = Path(settings.init_from)
    config.write_text(json.dumps({**json.loads(config.read_text()), "max_position_embeddings": 64}))
    return replace(settings, max_steps=2)


def saved_window(model):
    return json.loads((model / "tokenizer_config.json").read_text())["model_max_length"]


def test_the_tokenizer_knows_the_models_window(window, tmp_path):
    first = train(window, tmp_path / "first")
    assert saved_window(first.model) == 64
    further = train(replace(window, init_from=str(first.model), vocab_size=0), tmp_path / "further")
    assert saved_window(further.model) == 64


def test_the_card_lists_evaluation_text_and_the_run_that_was_started_from(window, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("\n\n".join(["the jax sees the vax in the house"] * 40))
    first = train(window, tmp_path / "first")
    further = replace(
        window,
        init_from=str(first.model),
        vocab_size=0,
        eval_corpora=(f"other={other}",),
        data_licences={"other": "made here"},
    )
    card = (train(further, tmp_path / "further").model / "README.md").read_text()
    tokens = json.loads((tmp_path / "further" / "tokens" / "other" / "about.json").read_text())["tokens"]
    assert f"| other | {tokens:,} | none, evaluated on | made here |" in card
    assert "Started from `first/model`;" in card


def test_all_files_of_the_result_have_the_mode_of_new_files(window, tmp_path):
    (tmp_path / "new").touch()
    model = train(window, tmp_path / "run").model
    assert {path.stat().st_mode for path in model.iterdir()} == {(tmp_path / "new").stat().st_mode}
