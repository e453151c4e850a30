"""Starts: presets, checkpoints, encoders without a head, and cuts of tokens and layers."""

import json

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM

from tiny import ARCHITECTURES
from unmask.errors import RunError, UsageError
from unmask.training import init_model
from unmask.training.masking import Unigram

SHAPE = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 24}


@pytest.fixture
def encoder(tmp_path):
    torch.manual_seed(0)
    config = AutoConfig.for_model("bert", vocab_size=30, max_position_embeddings=16, **SHAPE)
    AutoModel.from_config(config).save_pretrained(tmp_path / "encoder")
    return tmp_path / "encoder"


@pytest.mark.parametrize("preset", list(init_model.PRESETS))
def test_a_preset_fits_the_tokenizer(toy_tokenizer, preset):
    with torch.device("meta"):  # shapes alone: the large ones would take seconds and a gigabyte
        model = init_model.from_scratch(
            preset, toy_tokenizer, max_length=64, next_sentence=False, dropout=0.0
        )
    assert model.config.vocab_size == len(toy_tokenizer)
    assert model.config.num_hidden_layers == init_model.PRESETS[preset]["num_hidden_layers"]
    assert model.config.pad_token_id == toy_tokenizer.pad_token_id


def test_a_longer_window_than_the_presets_gets_its_positions(toy_tokenizer):
    model = init_model.from_scratch(
        "bert-tiny", toy_tokenizer, max_length=700, next_sentence=False, dropout=0.0
    )
    assert model.config.max_position_embeddings == 700


def test_any_config_file_is_a_start(toy_tokenizer, tmp_path):
    AutoConfig.for_model("xlm-roberta", dtype="float16", **SHAPE).save_pretrained(tmp_path)
    path = str(tmp_path / "config.json")
    model = init_model.from_scratch(path, toy_tokenizer, max_length=64, next_sentence=False, dropout=0.1)
    assert model.config.model_type == "xlm-roberta"
    assert model.config.hidden_dropout_prob == 0.1
    assert model.dtype == torch.float32


@pytest.mark.parametrize("kind", ["roberta", "camembert", "esm"])
def test_positions_that_begin_after_the_padding_id_have_room(toy_tokenizer, tmp_path, kind):
    AutoConfig.for_model(kind, max_position_embeddings=32, vocab_size=9, **SHAPE).save_pretrained(tmp_path)
    path = str(tmp_path / "config.json")
    model = init_model.from_scratch(path, toy_tokenizer, max_length=64, next_sentence=False, dropout=0.0)
    assert model.config.max_position_embeddings == 64 + toy_tokenizer.pad_token_id + 1


@pytest.mark.parametrize(("kind", "names"), [("distilbert", ("dropout", "attention_dropout"))])
def test_dropout_has_other_names_elsewhere(toy_tokenizer, tmp_path, kind, names):
    AutoConfig.for_model(kind, dim=16, n_layers=1, n_heads=2, hidden_dim=16).save_pretrained(tmp_path)
    path = str(tmp_path / "config.json")
    model = init_model.from_scratch(path, toy_tokenizer, max_length=64, next_sentence=False, dropout=0.25)
    assert [getattr(model.config, name) for name in names] == [0.25] * len(names)


def test_rows_beyond_the_tokenizers_are_the_unlikeliest(encoder):
    model, _ = init_model.from_checkpoint(encoder, next_sentence=False, dropout=0.0)
    unigram = Unigram.of(np.arange(1.0, 28.0), [0])  # three rows of padding
    init_model.init_head(model, unigram)
    bias = model.get_output_embeddings().bias.double()
    torch.testing.assert_close(bias[:27], torch.tensor(unigram.log_prob()))
    assert (bias[27:] == bias.min()).all()


def test_an_unknown_preset_is_refused(toy_tokenizer):
    with pytest.raises(UsageError, match="bert-tiny"):
        init_model.from_scratch("bert-huge", toy_tokenizer, max_length=64, next_sentence=False, dropout=0.0)


def test_an_encoder_gets_a_head_of_its_embeddings_and_the_unigram(encoder):
    model, headless = init_model.from_checkpoint(encoder, next_sentence=False, dropout=0.0)
    assert headless
    unigram = Unigram.of(np.arange(30.0), [0, 1])
    init_model.init_head(model, unigram)
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    torch.testing.assert_close(model.get_output_embeddings().bias.double(), torch.tensor(unigram.log_prob()))
    assert torch.equal(model.cls.predictions.transform.dense.weight, torch.eye(16))


@pytest.mark.parametrize("kind", sorted(ARCHITECTURES))
def test_every_bare_encoder_gets_a_head_and_every_whole_model_keeps_its_own(kind, tmp_path, checkpoint):
    """The head's answer to a state is, at first, the state itself; so with one vector for every token ..."""
    whole, headless = init_model.from_checkpoint(checkpoint(kind), next_sentence=False, dropout=0.0)
    assert not headless
    whole.base_model.save_pretrained(tmp_path)
    model, headless = init_model.from_checkpoint(tmp_path, next_sentence=False, dropout=0.0)
    assert headless
    size = model.get_output_embeddings().weight.shape[0]
    unigram = Unigram.of(np.arange(1.0, size + 1), [0, 1])
    init_model.init_head(model, unigram)
    with torch.no_grad():
        model.get_output_embeddings().weight.zero_()  # ... what is left is the bias
        logits = model(input_ids=torch.tensor([[5, 6, 7]])).logits[0, 1]
    torch.testing.assert_close(logits.double(), torch.tensor(unigram.log_prob()))
    shape = (model.get_output_embeddings().weight.shape[1], model.config.hidden_size)
    inside = {id(weight) for weight in model.base_model.parameters()}
    dense = [
        m.weight for m in model.modules() if isinstance(m, torch.nn.Linear) and id(m.weight) not in inside
    ]
    assert any(w.shape == shape and torch.equal(w, torch.eye(*shape)) for w in dense)


def test_a_model_with_a_head_keeps_it(tmp_path):
    config = AutoConfig.for_model("bert", vocab_size=30, **SHAPE)
    model = AutoModelForMaskedLM.from_config(config)
    torch.nn.init.normal_(model.cls.predictions.bias)
    model.save_pretrained(tmp_path)
    again, headless = init_model.from_checkpoint(tmp_path, next_sentence=False, dropout=0.0)
    assert not headless
    assert torch.equal(again.cls.predictions.bias, model.cls.predictions.bias)


def test_kept_tokens_keep_their_rows_and_stay_tied(encoder):
    model, _ = init_model.from_checkpoint(encoder, next_sentence=False, dropout=0.0)
    rows = model.get_input_embeddings().weight.detach().clone()
    bias = torch.randn(30)
    model.get_output_embeddings().bias.data.copy_(bias)
    old = [0, 7, 3, 29]
    init_model.keep_tokens(model, old)
    assert torch.equal(model.get_input_embeddings().weight, rows[old])
    assert torch.equal(model.get_output_embeddings().bias, bias[old])
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert model(input_ids=torch.tensor([[0, 1, 2]])).logits.shape == (1, 3, 4)


def test_kept_layers_are_the_named_ones(encoder):
    model, _ = init_model.from_checkpoint(encoder, next_sentence=False, dropout=0.0)
    third = model.bert.encoder.layer[2].output.dense.weight
    init_model.keep_layers(model, [0, 2])
    assert model.config.num_hidden_layers == len(model.bert.encoder.layer) == 2
    assert model.bert.encoder.layer[1].output.dense.weight is third
    with pytest.raises(UsageError, match="layers between 0 and 1"):
        init_model.keep_layers(model, [5])


def test_a_causal_model_is_refused(tmp_path):
    config = AutoConfig.for_model("gpt2", vocab_size=30, n_embd=16, n_layer=1, n_head=2)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    with pytest.raises(UsageError, match="expected a masked language model"):
        init_model.from_checkpoint(tmp_path, next_sentence=False, dropout=0.0)


def test_a_directory_without_or_with_damaged_weights_is_one_line(tmp_path, encoder):
    with pytest.raises(UsageError, match=r"config\.json"):
        init_model.from_checkpoint(tmp_path, next_sentence=False, dropout=0.0)
    (encoder / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(RunError, match="could not be loaded") as refusal:
        init_model.from_checkpoint(encoder, next_sentence=False, dropout=0.0)
    assert "\n" not in str(refusal.value)


def test_next_sentence_prediction_without_a_bert_is_refused(tmp_path):
    AutoConfig.for_model("xlm-roberta", **SHAPE).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["architectures"] = ["XLMRobertaForMaskedLM"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UsageError, match="needs a BERT"):
        init_model.from_checkpoint(tmp_path, next_sentence=True, dropout=0.0)
