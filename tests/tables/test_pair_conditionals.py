"""Tables as logarithms and tables as probabilities are the same conditionals."""

import pytest
import torch

import reference
from unmask import CONSTRUCTIONS, PairConditionals, construct
from unmask.tables.pair_conditionals import SMALL_TABLE


def large(spread=2.0):
    return reference.draw(400, 350, spread, seed=1, dtype=torch.float32)


def test_large_tables_become_probabilities_in_place():
    before = large()
    assert before.a_table.numel() >= SMALL_TABLE
    after = large().made_linear()
    assert after.linear
    torch.testing.assert_close(after.a_given_b(), before.a_given_b(), atol=2e-6, rtol=0)
    rows, columns = torch.tensor([3, 7]), slice(5, 9)
    torch.testing.assert_close(
        after.b_given_a(rows, columns), before.b_given_a(rows, columns), atol=2e-6, rtol=0
    )
    assert after.probabilities[0] is after.a_table


def test_small_tables_and_those_that_would_underflow_stay_logarithms():
    assert not reference.draw(20, 20, 1.0, seed=0).made_linear().linear
    assert not large(spread=40.0).made_linear().linear


@pytest.mark.parametrize("name", list(CONSTRUCTIONS))
def test_every_construction_is_the_same_on_both(name, monkeypatch):
    everything = (slice(None), slice(None))
    other = construct(name, large().made_linear())
    monkeypatch.setattr("unmask.tables.pair_conditionals.SMALL_TABLE", 10**9)
    one = construct(name, large())
    assert one.conditionals.probabilities is None
    torch.testing.assert_close(
        one.log_block(*everything).double(), other.log_block(*everything).double(), atol=2e-5, rtol=0
    )


def test_without_both_blank_logits_the_mean_conditional_stands_in():
    p = torch.tensor([[0.5, 0.2], [0.5, 0.8]]).log()
    r = torch.tensor([[0.4, 0.6], [0.1, 0.9]]).log()
    made = PairConditionals.from_logits(p, r)
    torch.testing.assert_close(made.a_alone.exp(), torch.tensor([0.35, 0.65], dtype=torch.float64))
    torch.testing.assert_close(made.b_alone.exp(), torch.tensor([0.25, 0.75], dtype=torch.float64))
