"""Evaluation scores: exact means over the predictions, equal however the batches are shared."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from unmask.training import eval as evaluation
from unmask.training import init_model
from unmask.training.batches import collate
from unmask.training.forward import Gathering
from unmask.training.masking import Unigram, Vocabulary
from unmask.training.packing import Packing


@pytest.fixture(scope="module")
def scored(toy_tokenizer, toy_tokens, marks):
    torch.manual_seed(0)
    model = init_model.from_scratch(
        "bert-tiny", toy_tokenizer, max_length=64, next_sentence=False, dropout=0.1
    )
    source = Packing(toy_tokens, np.arange(toy_tokens.documents), 64, marks)
    vocabulary = Vocabulary.of(toy_tokenizer)
    unigram = Unigram.of(toy_tokens.counts, toy_tokenizer.all_special_ids)
    items = evaluation.spread_rows(source, source.rows(), 70, vocabulary, unigram)
    return model, Gathering(model), items


def test_the_loss_is_the_mean_over_all_predictions(scored):
    model, gathering, items = scored
    found = evaluation.score(model, gathering, {"toy": items})["toy"]
    batch = collate(items)
    model.eval()
    logits = model(**gathering.inputs(batch)).logits
    chosen = batch["labels"] != -100
    expected = functional.cross_entropy(logits[chosen], batch["labels"][chosen])
    assert found.loss == pytest.approx(float(expected.detach()), rel=1e-5)
    assert found.predictions == int(chosen.sum())
    assert found.perplexity == pytest.approx(math.exp(found.loss))
    hits = (logits[chosen].argmax(-1) == batch["labels"][chosen]).float().mean()
    assert found.accuracy == pytest.approx(float(hits))


def test_two_processes_that_add_their_sums_up_find_the_same(scored):
    model, gathering, items = scored
    alone = evaluation.score(model, gathering, {"toy": items})["toy"]
    parts = []
    for process in (0, 1):
        evaluation.score(
            model,
            gathering,
            {"toy": items},
            lambda sums: parts.append(sums.clone()) or sums,
            slice(process, None, 2),
        )
    together = evaluation.score(
        model, gathering, {"toy": items}, lambda _: parts[0] + parts[1], slice(0, None, 2)
    )["toy"]
    assert together.loss == pytest.approx(alone.loss)
    assert together.predictions == alone.predictions


def test_a_score_leaves_the_model_in_the_mode_it_was_in(scored):
    model, gathering, items = scored
    model.train()
    evaluation.score(model, gathering, {"toy": items[:3]})
    assert model.training


def test_rows_are_spread_over_the_text_and_masked_the_same_each_time(
    scored, toy_tokens, marks, toy_tokenizer
):
    source = Packing(toy_tokens, np.arange(toy_tokens.documents), 64, marks)
    vocabulary = Vocabulary.of(toy_tokenizer)
    unigram = Unigram.of(toy_tokens.counts, toy_tokenizer.all_special_ids)
    again = evaluation.spread_rows(source, source.rows(), 70, vocabulary, unigram)
    assert len(again) == 70
    for left, right in zip(scored[2], again, strict=True):
        assert (left["input_ids"] == right["input_ids"]).all()
    few = evaluation.spread_rows(source, 5, 70, vocabulary, unigram)
    assert len(few) == 5
