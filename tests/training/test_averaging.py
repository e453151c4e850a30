"""The result of a run can be the mean of its last checkpoints."""

import json

import pytest
import torch
import toy
from transformers import AutoModelForMaskedLM

from unmask.errors import UsageError
from unmask.training import Settings, train
from unmask.training.eval import score
from unmask.training.forward import Gathering
from unmask.training.prepare_data import prepare_data

TINY = {"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}


def wanted(home, tokenizer, **changes):
    tokenizer.save_pretrained(home / "tokenizer")
    toy.write_corpus(home / "toy.txt", documents=100)
    (home / "config.json").write_text(json.dumps({**TINY, "intermediate_size": 32}))
    values = {
        "corpora": (f"toy={home / 'toy.txt'}",),
        "init_from": str(home / "config.json"),
        "tokenizer": str(home / "tokenizer"),
        "max_length": 32,
        "eval_one_in": 10,
        "max_steps": 10,
        "warmup_steps": 0,
        "decay_steps": 0,
        "batch_size": 4,
        "encoder_lr": 1e-2,
        "save_steps": 3,
        "eval_steps": 5,
        **changes,
    }
    return Settings(**values)


def weights(path):
    return dict(AutoModelForMaskedLM.from_pretrained(path).named_parameters())


def test_the_result_is_the_mean_of_the_last_checkpoints(tmp_path, toy_tokenizer):
    result = train(wanted(tmp_path, toy_tokenizer, average_checkpoints=3), tmp_path / "run")
    kept = sorted(path.name for path in (tmp_path / "run").glob("checkpoint-*"))
    assert kept == ["checkpoint-10", "checkpoint-6", "checkpoint-9"]
    parts = [weights(tmp_path / "run" / name) for name in kept]
    for name, value in weights(result.model).items():
        mean = sum(part[name].double() for part in parts) / 3
        assert torch.equal(value.double(), mean.float().double()), name
        assert not torch.equal(value, parts[0][name]) or torch.equal(parts[0][name], parts[1][name]), name


def test_the_scores_are_those_of_the_mean(tmp_path, toy_tokenizer):
    result = train(wanted(tmp_path, toy_tokenizer, average_checkpoints=3), tmp_path / "run")
    last = [entry for entry in result.history if "eval_toy_loss" in entry][-1]
    assert result.scores["toy"].loss != last["eval_toy_loss"]
    model = AutoModelForMaskedLM.from_pretrained(result.model).eval()
    data = prepare_data(wanted(tmp_path, toy_tokenizer, average_checkpoints=3), tmp_path / "run")
    again = score(model, Gathering(model), data.domains)
    assert again["toy"].loss == pytest.approx(result.scores["toy"].loss, abs=1e-6)


def test_more_checkpoints_than_a_run_makes_are_refused(tmp_path, toy_tokenizer):
    with pytest.raises(UsageError, match=r"from 1 to the 4 checkpoints of 10 steps with save_steps 3, got 5"):
        wanted(tmp_path, toy_tokenizer, average_checkpoints=5)


def test_a_run_that_kept_fewer_says_so_and_keeps_its_result(tmp_path, toy_tokenizer):
    done = train(wanted(tmp_path, toy_tokenizer), tmp_path / "run")
    before = (done.model / "model.safetensors").read_bytes()
    with pytest.raises(UsageError, match=r"expected 4 checkpoints to average, .* has 2"):
        train(wanted(tmp_path, toy_tokenizer, average_checkpoints=4), tmp_path / "run")
    assert (done.model / "model.safetensors").read_bytes() == before
