"""Logits at the predicted positions equal the plain forward pass, and packed segments do not see each
other.
"""

import pytest
import torch
from transformers import AutoConfig, AutoModelForMaskedLM, AutoModelForPreTraining

from unmask.errors import UsageError
from unmask.training.forward import Gathering, predicted
from unmask.training.masking import IGNORED

SHAPES = {
    "bert": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48},
    "xlm-roberta": {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 48,
    },
    "electra": {
        "hidden_size": 32,
        "embedding_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 48,
    },
    "distilbert": {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 48},
}


def tiny(kind):
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, vocab_size=50, max_position_embeddings=40, **SHAPES[kind])
    return AutoModelForMaskedLM.from_config(config).eval()


def rows(*lengths, width=20, seed=1):
    """One packed row: segments of the given lengths, then padding."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, 50, (1, width), generator=generator)
    segments, positions = torch.full((1, width), -1), torch.zeros(1, width, dtype=torch.long)
    at = 0
    for number, length in enumerate(lengths):
        segments[0, at : at + length] = number
        positions[0, at : at + length] = torch.arange(length)
        at += length
    ids[segments < 0] = 0
    labels = torch.full((1, width), IGNORED)
    for place in (1, 4, at - 2):
        labels[0, place] = ids[0, place]
    types = torch.zeros_like(ids)
    return {
        "input_ids": ids,
        "segments": segments,
        "position_ids": positions,
        "token_type_ids": types,
        "labels": labels,
    }


def answer(model, gathering, batch):
    where = predicted(batch["labels"])
    with gathering.at(*where[:2]):
        return model(**gathering.inputs(batch)).logits[0]


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("narrow", [True, False])
def test_gathered_logits_and_gradients_equal_the_plain_ones(kind, narrow):
    batch = rows(18)
    plain, gathered = tiny(kind), tiny(kind)
    gathering = Gathering(gathered, narrow=narrow)
    where = predicted(batch["labels"])
    expected = plain(**gathering.inputs(batch)).logits[where[0], where[1]]
    found = answer(gathered, gathering, batch)
    torch.testing.assert_close(found, expected)
    expected.square().sum().backward()
    found.square().sum().backward()
    for (name, left), right in zip(plain.named_parameters(), gathered.parameters(), strict=True):
        if left.grad is not None:
            torch.testing.assert_close(right.grad, left.grad, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.parametrize("kind", SHAPES)
def test_a_packed_segment_is_answered_as_if_it_were_alone(kind):
    model = tiny(kind)
    gathering = Gathering(model)
    batch = rows(8, 9)
    together = answer(model, gathering, batch)
    alone = {name: value[:, :8] for name, value in batch.items()}
    torch.testing.assert_close(together[:2], answer(model, gathering, alone), rtol=1e-4, atol=1e-5)
    changed = {**batch, "input_ids": batch["input_ids"].clone()}
    changed["input_ids"][0, 10] = 7
    torch.testing.assert_close(answer(model, gathering, changed)[:2], together[:2])
    assert not torch.equal(answer(model, gathering, changed)[2], together[2])


def test_outside_its_context_the_model_is_its_plain_self():
    batch, model = rows(18), tiny("bert")
    gathering = Gathering(model)
    answer(model, gathering, batch)
    assert model(**gathering.inputs(batch)).logits.shape == (1, 20, 50)


def test_a_model_with_next_sentence_prediction_keeps_its_pooled_answer():
    torch.manual_seed(0)
    config = AutoConfig.for_model("bert", vocab_size=50, **SHAPES["bert"])
    model = AutoModelForPreTraining.from_config(config).eval()
    batch = rows(18)
    gathering = Gathering(model)
    plain = model(**gathering.inputs(batch))
    where = predicted(batch["labels"])
    with gathering.at(*where[:2]):
        found = model(**gathering.inputs(batch))
    torch.testing.assert_close(found.seq_relationship_logits, plain.seq_relationship_logits)
    torch.testing.assert_close(found.prediction_logits[0], plain.prediction_logits[where[0], where[1]])


def test_packing_for_an_architecture_that_cannot_is_refused():
    model = tiny("bert")
    gathering = Gathering(model)
    model.config.model_type = "other"
    with pytest.raises(UsageError, match="packing off"):
        gathering.inputs(rows(8, 9))


def test_the_mask_of_packed_rows_is_made_where_the_rows_are():
    from unmask.training.forward import _block_mask

    segments = torch.tensor([[0, 0, 1, -1]], device="meta")
    assert _block_mask(segments, torch.float32).device.type == "meta"
