"""The chain averaged over orders is a distribution, and never worse than the mean of its orders."""

import itertools
import math

import pytest
import torch

from unmask.errors import UsageError
from unmask.inference.orders import Following, Order, mixture
from unmask.inference.sentence_scores import SentenceScorer
from unmask.inference.sentences import SentenceReader
from unmask.text.support import Support

TEXTS = ("the old man is at the casino.", "a dog", "cat")


def test_orders_are_permutations_and_start_with_the_two_plain_ones():
    assert Order(0).ranks(4) == (0, 1, 2, 3)
    assert Order(1).ranks(4) == (3, 2, 1, 0)
    drawn = {Order(n, seed).ranks(6) for n in range(2, 10) for seed in (0, 1)}
    assert len(drawn) > 10
    assert all(sorted(ranks) == list(range(6)) for ranks in drawn)
    assert Order(5, 3).ranks(6) == Order(5, 3).ranks(6)


@pytest.mark.parametrize("orders", [2, 3, 5])
def test_all_sentences_sum_to_one(orders, mlm_of):
    mlm = mlm_of("bert")
    support = Support(torch.tensor([mlm.vocabulary.find(w) for w in ("man", "dog", "is")]), mlm.vocabulary)
    read = SentenceReader(mlm)
    every = [read.of_ids(ids) for ids in itertools.product(support.ids.tolist(), repeat=3)]
    scores = SentenceScorer(mlm, ["chain"], support=support, orders=orders)(every)["chain"]
    assert sum(math.exp(score.log_prob) for score in scores) == pytest.approx(1, abs=1e-6)


def test_the_mixture_is_the_average_of_its_orders_and_no_worse_than_their_mean(mlm_of, plain_model):
    mlm, model, orders = mlm_of("bert"), plain_model("bert"), 4
    read = SentenceReader(mlm)
    sentences = [read(text) for text in TEXTS]
    found = SentenceScorer(mlm, ["chain"], orders=orders, seed=7)(sentences)["chain"]
    for sentence, score in zip(sentences, found, strict=True):
        single = []
        for n in range(orders):
            hidden, total = Following(Order(n, 7)), 0.0
            for place, position in enumerate(sentence.positions):
                ids = torch.tensor([sentence.ids])
                ids[0, [sentence.positions[i] for i in hidden(sentence, place)]] = mlm.vocabulary.mask_id
                with torch.no_grad():
                    logits = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0, position]
                total += float(logits.double().log_softmax(0)[sentence.ids[position]])
            single.append(total)
        expected = torch.tensor(single, dtype=torch.float64).logsumexp(0).item() - math.log(orders)
        assert score.log_prob == pytest.approx(expected, abs=1e-4)
        assert score.log_prob >= sum(single) / orders - 1e-4
        assert len(score.log_probs) == len(sentence)
        assert score.ranks is None


def test_one_order_is_the_chain(mlm_of):
    mlm = mlm_of("bert")
    sentences = [SentenceReader(mlm)(text) for text in TEXTS]
    one, plain = (
        SentenceScorer(mlm, ["chain"], **options)(sentences)["chain"] for options in ({"orders": 1}, {})
    )
    assert [s.log_probs for s in one] == [s.log_probs for s in plain]


def test_shares_add_up_to_the_mixture():
    shares = mixture([[-1.0, -2.0], [-3.0, -0.5]])
    assert sum(shares) == pytest.approx(math.log((math.exp(-3.0) + math.exp(-3.5)) / 2))


@pytest.mark.parametrize("orders", [0, -1, 1.5, True, 10**6, "2"])
def test_a_number_of_orders_that_cannot_be(orders, mlm_of):
    with pytest.raises(UsageError, match="number of orders"):
        SentenceScorer(mlm_of("bert"), ["chain"], orders=orders)


def test_orders_that_no_score_would_heed(mlm_of):
    with pytest.raises(UsageError, match="chain"):
        SentenceScorer(mlm_of("bert"), ["pll"], orders=2)
