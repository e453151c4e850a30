"""Small last states are brought to a size that a new head can read; their directions stay."""

import pytest
import torch
from transformers import AutoModelForTokenClassification

import task_toy as toy
from unmask.models.checkpoint import open_with_head
from unmask.tasks import finetune, scale
from unmask.tasks.scale import even_scale

INPUTS = {"input_ids": torch.tensor([[2, 7, 8, 9, 3], [2, 9, 3, 0, 0]]), "attention_mask": torch.ones(2, 5)}
INPUTS["attention_mask"][1, 3:] = 0


def states_of(model):
    with torch.no_grad():
        return model.base_model.eval()(**INPUTS).last_hidden_state[INPUTS["attention_mask"].bool()]


def size_of(states):
    return float(states.square().mean().sqrt())


def test_small_states_of_any_architecture_get_size_one(architecture, checkpoint, monkeypatch):
    model = AutoModelForTokenClassification.from_pretrained(checkpoint(architecture))
    before = states_of(model)
    monkeypatch.setattr(scale, "SMALL", 2 * size_of(before))
    factor = even_scale(model, INPUTS)
    if architecture == "albert":  # its layers share one normalisation, which must not change
        assert factor == 1.0
        return
    assert factor == pytest.approx(1 / size_of(before), rel=1e-5)
    assert torch.allclose(states_of(model), before * factor, atol=1e-4)


def test_states_of_a_usual_size_are_left_alone(checkpoint):
    model = AutoModelForTokenClassification.from_pretrained(checkpoint("bert"))
    before = states_of(model)
    assert size_of(before) > scale.SMALL
    assert even_scale(model, INPUTS) == 1.0
    assert torch.equal(states_of(model), before)


def test_a_run_wakes_a_faint_encoder_and_never_one_whose_head_has_learned(tmp_path, checkpoint):
    kind = AutoModelForTokenClassification
    model, tokenizer, fresh = open_with_head(checkpoint("bert"), kind, {})
    assert fresh
    norm = model.bert.encoder.layer[-1].output.LayerNorm
    with torch.no_grad():
        norm.weight *= 0.05
        norm.bias *= 0.05
    faint = tmp_path / "faint"
    model.save_pretrained(faint)  # with a head, as of a model that was fine-tuned before
    tokenizer.save_pretrained(faint)
    assert not open_with_head(faint, kind, {})[2]

    model.bert.save_pretrained(faint)  # the encoder alone
    settings = toy.settings(tmp_path / "toy", faint, "tag", pretrained=True, epochs=1, lr=1e-9)
    result = finetune(settings, tmp_path / "run")
    woken = kind.from_pretrained(result.model)
    assert size_of(states_of(woken)) > 0.5

    norm = woken.bert.encoder.layer[-1].output.LayerNorm
    with torch.no_grad():
        norm.weight *= 0.05
        norm.bias *= 0.05
    woken.save_pretrained(faint)  # with the head of this very task: its states are as it knows them
    again = finetune(settings, tmp_path / "again")
    assert size_of(states_of(kind.from_pretrained(again.model))) < 0.1
