"""Bits per byte: the likelihoods are those of brute force, and sums are divided by sums."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import unmask
from unmask.inference.orders import Following, Order
from unmask.inference.sentences import SentenceReader

sys.path.append(str(Path(__file__).parents[2] / "recipes"))

import bits_per_byte
from bits_per_byte import (
    BIT,
    METHODS,
    ORDERS,
    Scorer,
    length_log_probs,
    log_probs,
    ratio,
    summary,
    tasks_of,
    with_bytes,
)

TEXTS = ["The old Man is at the casino.", "a dog is in the house", "the cat, a dog"]


@pytest.fixture
def records(mlm_of):
    mlm = mlm_of("bert")
    found = Scorer(mlm)([{"key": str(n), "text": text} for n, text in enumerate(TEXTS)])
    return with_bytes(found, mlm.tokenizer)


def brute_force(model, mlm, text, order):
    """The log-probability of a text, one token after the other, each by a pass of the plain model."""
    sentence, total = SentenceReader(mlm)(text), 0.0
    hidden = Following(order)
    for place, position in enumerate(sentence.positions):
        ids = torch.tensor([sentence.ids])
        ids[0, [sentence.positions[i] for i in hidden(sentence, place)]] = mlm.vocabulary.mask_id
        with torch.no_grad():
            logits = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0, position]
        total += float(logits.double().log_softmax(0)[sentence.ids[position]])
    return total


def test_the_chain_and_its_averages_are_those_of_brute_force(records, mlm_of, plain_model):
    mlm, model = mlm_of("bert"), plain_model("bert")
    for record in records[:2]:
        single = [brute_force(model, mlm, record["text"], Order(n)) for n in range(max(ORDERS))]
        found = log_probs(record)
        assert found["chain"] == pytest.approx(single[0], abs=1e-3)
        for n in ORDERS[1:]:
            mean = sum(math.exp(one - max(single)) for one in single[:n]) / n
            assert found[f"orders-{n}"] == pytest.approx(max(single) + math.log(mean), abs=1e-3)


def test_bytes_are_those_of_the_text_that_the_model_scores(records):
    assert records[0]["bytes"] == len("the old man is at the casino.")
    assert with_bytes([{"text": "A Café"}], unmask.load().tokenizer)[0]["bytes"] == len("a cafe")


def test_bits_per_byte_are_all_bits_over_all_bytes(records):
    found = summary(records)
    for method in METHODS:
        bits = sum(-log_probs(record)[method] for record in records) / math.log(2)
        said = found["methods"][method]
        assert said["bits_per_byte"]["value"] == pytest.approx(bits / sum(r["bytes"] for r in records))
        assert said["bits_per_byte"]["low"] <= said["bits_per_byte"]["value"] <= said["bits_per_byte"]["high"]
        nats = bits * math.log(2) / sum(r["tokens"] for r in records)
        assert said["perplexity_per_token"]["value"] == pytest.approx(math.exp(nats))
        of_length = -sum(length_log_probs([r["tokens"] for r in records])) / BIT
        extra = said["bits_per_byte_with_length"]["value"] - said["bits_per_byte"]["value"]
        assert extra == pytest.approx(of_length / sum(r["bytes"] for r in records))
    assert found["methods"]["chain"]["gain"]["value"] == 0


def test_a_length_is_counted_in_the_other_half():
    told = length_log_probs([5, 7, 5, 7])  # each half has one length, which the other half never saw
    assert max(told) < math.log(0.2)
    alike = length_log_probs([5, 5, 5, 5])
    assert min(alike) > math.log(0.5)


def test_the_interval_of_a_ratio_covers_it_as_often_as_it_says():
    """False alarm: with 200 draws and a true rate of 0.95, fewer than 0.88 come once in 10,000 times."""
    rng, covered = np.random.default_rng(3), 0
    for _ in range(200):
        sizes = rng.uniform(20, 120, 80)
        amounts = 1.3 * sizes + rng.normal(0, 20, 80)
        (found,) = ratio(amounts[:, None], sizes)
        covered += found["low"] <= 1.3 <= found["high"]
    assert covered >= 0.88 * 200


def test_texts_that_the_model_cannot_spell_are_left_out_and_counted(mlm_of):
    tasks, left = tasks_of("snli", [*TEXTS, "a dog 漢"], mlm_of("bert"), 10)
    assert sorted(task["text"] for task in tasks) == sorted(TEXTS)
    assert sum(left.values()) == 1


def test_the_page_names_the_best_method_and_whether_chance_may_have_made_it(records):
    shown = bits_per_byte.tables({"snli": summary(records) | {"left_out": {}}})
    assert shown["table"].count("\n") == len(METHODS) + 1
    best = min(METHODS, key=lambda m: -sum(log_probs(r)[m] for r in records))
    assert METHODS[best] in shown["answer"]
    assert bits_per_byte.tables({}) == {}
