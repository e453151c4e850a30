"""TokenGroups: a joint over groups of tokens is the joint over the tokens, in every method."""

from dataclasses import replace

import pytest
import torch
from torch.distributions import kl_divergence

from reference import p_value
from unmask import CONSTRUCTIONS, PairConditionals, construct
from unmask.tables.token_groups import TokenGroups

A, B = 11, 14


def gathered(seed=0, tilt=0.0):
    """Conditionals over groups, and the same over tokens, a row or a column for each."""
    generator = torch.Generator().manual_seed(seed)

    def groups(tokens, log_m):
        apart = torch.randperm(tokens, generator=generator)[: tokens // 2]
        made = TokenGroups.by_probability(log_m, apart, 2)
        return replace(made, log_within=tilt * made.log_within)

    a, b = (
        groups(n, torch.randn(n, generator=generator, dtype=torch.float64).log_softmax(0)) for n in (A, B)
    )
    shape = (len(a), len(b))
    p, r = (1.5 * torch.randn(*shape, generator=generator, dtype=torch.float64) for _ in range(2))
    whole = PairConditionals.from_logits(
        p[a.group_of][:, b.group_of],
        r[a.group_of][:, b.group_of],
        p.mean(1)[a.group_of].contiguous(),
        r.mean(0)[b.group_of].contiguous(),
    )
    first_a, first_b = (
        torch.tensor([(c.group_of == n).nonzero()[0, 0] for n in range(len(c))]) for c in (a, b)
    )
    small = replace(
        whole,
        a_table=whole.a_table[first_a][:, first_b],
        b_table=whole.b_table[first_a][:, first_b],
        a_alone=whole.a_alone[first_a],
        b_alone=whole.b_alone[first_b],
        a_log_z=whole.a_log_z[first_b],
        b_log_z=whole.b_log_z[first_a],
        a_groups=a,
        b_groups=b,
    )
    return small, whole


def table(joint):
    return joint.log_prob(torch.cartesian_prod(torch.arange(A), torch.arange(B))).reshape(A, B)


@pytest.mark.parametrize("method", list(CONSTRUCTIONS))
def test_a_joint_over_cells_is_the_joint_over_tokens(method):
    small, whole = (construct(method, conditionals) for conditionals in gathered())
    torch.testing.assert_close(table(small), table(whole), atol=1e-7, rtol=0)
    assert small.entropy() == pytest.approx(float(whole.entropy()), abs=1e-8)
    assert small.mutual_information() == pytest.approx(float(whole.mutual_information()), abs=1e-8)
    for blank in (0, 1):
        torch.testing.assert_close(
            small.marginal(blank).log_probs, whole.marginal(blank).log_probs, atol=1e-7, rtol=0
        )
        for token in (0, 5):
            torch.testing.assert_close(
                small.conditional(blank, {1 - blank: token}).log_probs,
                whole.conditional(blank, {1 - blank: token}).log_probs,
                atol=1e-7,
                rtol=0,
            )
    assert kl_divergence(small, whole) == pytest.approx(0, abs=1e-8)
    assert kl_divergence(small, construct("product", small.conditionals)) == pytest.approx(
        float(kl_divergence(whole, construct("product", whole.conditionals))), abs=1e-8
    )


@pytest.mark.parametrize("method", list(CONSTRUCTIONS))
def test_tilts_leave_a_distribution_that_agrees_with_brute_force(method):
    joint = construct(method, gathered(seed=1, tilt=1.0)[0])
    log_q = table(joint)
    q = log_q.exp()
    assert float(q.sum()) == pytest.approx(1, abs=1e-9)
    assert joint.entropy() == pytest.approx(-float((q * log_q).sum()), abs=1e-9)
    torch.testing.assert_close(joint.marginal(0).log_probs.exp(), q.sum(1), atol=1e-9, rtol=0)
    torch.testing.assert_close(joint.marginal(1).log_probs.exp(), q.sum(0), atol=1e-9, rtol=0)
    given = joint.conditional(1, {0: 3}).log_probs.exp()
    torch.testing.assert_close(given, q[3] / q[3].sum(), atol=1e-9, rtol=0)
    best = q.flatten().topk(20)
    found = joint.top(20)
    torch.testing.assert_close(
        torch.tensor([f.log_prob for f in found], dtype=torch.float64), best.values.log(), atol=1e-9, rtol=0
    )
    assert {f.ids for f in found[:10]} == {(int(i) // B, int(i) % B) for i in best.indices[:10]}
    assert joint.mass(torch.tensor([1, 4]), torch.tensor([0, 7, 9])) == pytest.approx(
        float(q[[1, 4]][:, [0, 7, 9]].sum()), abs=1e-9
    )


def test_samples_of_a_joint_over_cells_follow_it():
    """Chi-square over the cells with expected counts of at least 5; false alarms: 1 in 1,000."""
    joint = construct("ag", gathered(seed=2, tilt=1.0)[0])
    drawn = joint.sample(20_000, torch.Generator().manual_seed(0))
    assert p_value(drawn, joint.supports, table(joint).exp().numpy()) > 1e-3


def test_cells_keep_those_apart_first_and_gather_like_with_like():
    log_m = torch.tensor([0.3, 0.02, 0.25, 0.04, 0.21, 0.08, 0.1]).log()
    groups = TokenGroups.by_probability(log_m, torch.tensor([2, 0]), 2)
    assert groups.counts.tolist() == [1, 1, 1, 4]  # 0.21 has as much of m^(3/4) as the other four
    assert groups.group_of.tolist() == [1, 3, 0, 3, 2, 3, 3]
    torch.testing.assert_close(
        groups.spread(groups.mean(log_m.double())), log_m.double(), atol=1e-7, rtol=0
    )  # the tilt is m's own


@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0])
@pytest.mark.parametrize(("tokens", "groups"), [(5, 5), (6, 5), (40, 5), (400, 32), (3, 8)])
def test_no_group_is_empty_however_the_mass_is_spread(spread, tokens, groups):
    log_m = spread * torch.randn(tokens, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    made = TokenGroups.by_probability(log_m, torch.tensor([0]), groups)
    assert len(made) == 1 + min(groups, tokens - 1)
    assert int(made.counts.min()) >= 1
    lowest, highest = (
        torch.stack([pick(log_m[made.group_of == n]) for n in range(1, len(made))])
        for pick in (torch.min, torch.max)
    )
    assert bool((lowest[:-1] >= highest[1:]).all())  # a likelier token is never in a later group
