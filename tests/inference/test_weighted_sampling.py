"""The sample of contexts: nested, without the known ones, and unbiased."""

import pytest
import torch

from unmask.inference.weighted_sampling import draw

LOG_M = torch.linspace(0, -12, 60, dtype=torch.float64).log_softmax(0)
KNOWN = torch.tensor([0, 1, 2, 40])


def sample(count: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    return draw(LOG_M, KNOWN, count, torch.Generator().manual_seed(seed))


def test_a_larger_sample_holds_the_smaller_one():
    small, large = sample(10)[0], sample(25)[0]
    assert len(set(large.tolist())) == 25
    assert large[:10].tolist() == small.tolist()


@pytest.mark.parametrize("count", [1, 20, 55, 56, 70])
def test_known_tokens_are_never_drawn_and_the_others_at_most_once(count):
    tokens, stands_for = sample(count)
    assert len(tokens) == min(count, 56) == len(stands_for) == len(set(tokens.tolist()))
    assert not set(tokens.tolist()) & set(KNOWN.tolist())


def test_nothing_is_stood_for_where_all_are_drawn_and_nothing_drawn_where_none_is_asked_for():
    assert not sample(56)[1].any()
    assert [len(found) for found in sample(0)] == [0, 0]


def test_sums_over_the_tokens_that_are_not_known_are_estimated_without_bias():
    """Drawn plus stood for, against the sum itself, for values that follow m and for values that do not."""
    others = torch.ones(60, dtype=torch.bool)
    others[KNOWN] = False
    samples = [sample(20, seed) for seed in range(400)]
    for values in (LOG_M.exp(), torch.ones(60, dtype=torch.float64), LOG_M.exp().sqrt()):
        found = torch.stack([(values[tokens] * (1 + weights)).sum() for tokens, weights in samples])
        error = float(found.std()) / 20
        assert abs(float(found.mean()) - float(values[others].sum())) < 4 * error


def test_likely_tokens_are_drawn_more_often():
    often = torch.zeros(60)
    for seed in range(300):
        often[sample(10, seed)[0]] += 1
    assert often[3:8].sum() > 3 * often[-8:].sum()
