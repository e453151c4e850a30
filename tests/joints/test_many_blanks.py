"""One suite for every joint of many blanks: it walks a registry and asks each all that is promised."""

import itertools
from functools import cache

import numpy as np
import pytest
import torch
from torch.distributions import kl_divergence

import unmask
from reference import p_value
from sequence_toy import JOINTS
from unmask import UsageError
from unmask.joints import estimate_kl_divergence

BLANKS = [2, 3, 4]
EXAMPLES = [(name, n) for name in JOINTS for n in BLANKS]
SAME_SUPPORTS = ["chain", "chain by confidence", "chain of pairs", "independent", "tree"]
"""Joints of the same tokens, by different rules."""
every_joint = pytest.mark.parametrize(("name", "blanks"), EXAMPLES)


@pytest.fixture(scope="module")
def joint_of(mlm_of):
    made = {}

    def get(name, blanks):
        if (name, blanks) not in made:
            made[name, blanks] = JOINTS[name](mlm_of("bert"), blanks)
        return made[name, blanks]

    return get


@cache
def whole(joint):
    """q of every filling, asked one by one through `log_prob`."""
    sizes = [len(support) for support in joint.supports]
    return joint.log_prob(joint.enumerate_support()).exp().reshape(sizes).numpy()


@every_joint
def test_all_fillings_sum_to_one_and_none_is_impossible(name, blanks, joint_of):
    q = whole(joint_of(name, blanks))
    assert q.ndim == blanks
    assert q.sum() == pytest.approx(1, abs=1e-6)
    assert (q > 0).all()


@every_joint
def test_marginals_and_conditionals_agree_with_brute_force(name, blanks, joint_of):
    joint = joint_of(name, blanks)
    q = whole(joint)
    for blank in range(blanks):
        others = tuple(i for i in range(blanks) if i != blank)
        np.testing.assert_allclose(joint.marginal(blank).log_probs.exp(), q.sum(others), atol=1e-6)
        given = {i: int(joint.supports[i].ids[-1]) for i in others}
        line = q[tuple(slice(None) if i == blank else -1 for i in range(blanks))]
        found = joint.conditional(blank, given).log_probs.exp()
        np.testing.assert_allclose(found, line / line.sum(), atol=1e-6)
    if blanks > 2:  # the third is summed over
        found = joint.conditional(0, {1: int(joint.supports[1].ids[0])}).log_probs.exp()
        line = q[:, 0].reshape(q.shape[0], -1).sum(1)
        np.testing.assert_allclose(found, line / line.sum(), atol=1e-6)


@every_joint
def test_entropy_and_divergence_agree_with_brute_force(name, blanks, joint_of):
    joint = joint_of(name, blanks)
    q = whole(joint)
    assert float(joint.entropy()) == pytest.approx(-(q * np.log(q)).sum(), abs=1e-6)
    margins = [q.sum(tuple(j for j in range(blanks) if j != i)) for i in range(blanks)]
    information = sum(-(m * np.log(m)).sum() for m in margins) - float(joint.entropy())
    assert float(joint.mutual_information()) == pytest.approx(information, abs=1e-6)
    assert float(kl_divergence(joint, joint)) == pytest.approx(0, abs=1e-9)


@every_joint
def test_a_joint_is_a_torch_distribution(name, blanks, joint_of):
    joint = joint_of(name, blanks)
    assert isinstance(joint, torch.distributions.Distribution)
    assert (joint.batch_shape, joint.event_shape) == ((), (blanks,))
    generator = torch.Generator().manual_seed(0)
    for shape in ((), (5,), (2, 3), (0,)):
        value = joint.sample(shape, generator=generator)
        assert value.shape == (*shape, blanks)
        assert joint.log_prob(value).shape == shape
        assert bool(joint.support.check(value).all())
    assert joint.entropy().shape == joint.mutual_information().shape == ()
    assert len(joint.enumerate_support()) == np.prod([len(s) for s in joint.supports])


@pytest.mark.slow
@pytest.mark.parametrize("blanks", BLANKS)
@pytest.mark.parametrize("names", list(itertools.product(SAME_SUPPORTS, SAME_SUPPORTS)))
def test_the_divergence_between_any_two_joints_agrees_with_brute_force(names, blanks, joint_of):
    p, q = (joint_of(name, blanks) for name in names)
    first, second = whole(p), whole(q)
    expected = (first * (np.log(first) - np.log(second))).sum()
    assert float(kl_divergence(p, q)) == pytest.approx(expected, abs=1e-6)
    mean, error = estimate_kl_divergence(p, q, 500, torch.Generator().manual_seed(0))
    assert abs(float(mean) - expected) < 5 * float(error) + 1e-6


@every_joint
def test_top_finds_the_likeliest(name, blanks, joint_of):
    """The beams are wider than these little tables have branches, so that the search is exhaustive."""
    joint = joint_of(name, blanks)
    q = whole(joint)
    best = joint.top(3 if "pairs" not in name else 40)
    order = np.argsort(-q, axis=None)[:3]
    wanted = [
        tuple(int(s.ids[i]) for s, i in zip(joint.supports, np.unravel_index(o, q.shape), strict=True))
        for o in order
    ]
    assert [f.ids for f in best[:3]] == wanted
    assert [f.log_prob for f in best[:3]] == pytest.approx([np.log(q.flat[o]) for o in order], abs=1e-6)
    assert [f.log_prob for f in best] == sorted((f.log_prob for f in best), reverse=True)


@every_joint
def test_samples_follow_the_joint(name, blanks, joint_of):
    """Chi-square over all fillings; false-alarm rate 1e-4 for each of the joints, with a fixed seed."""
    joint = joint_of(name, blanks)
    samples = joint.sample(4000, torch.Generator().manual_seed(0))
    assert samples.shape == (4000, blanks)
    assert p_value(samples, joint.supports, whole(joint)) > 1e-4


@every_joint
def test_the_same_seed_gives_the_same_samples(name, blanks, joint_of):
    joint = joint_of(name, blanks)
    first, second, other = (joint.sample(30, torch.Generator().manual_seed(s)) for s in (7, 7, 8))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("name", list(JOINTS))
def test_what_is_no_question_is_refused(name, joint_of):
    joint = joint_of(name, 3)
    token = int(joint.supports[0].ids[0])
    for blank, given in ((0, {}), (0, {0: token}), (0, {7: token}), (3, {0: token}), (-1, {0: token})):
        with pytest.raises(UsageError):
            joint.conditional(blank, given)
    with pytest.raises(UsageError, match="expected 3 tokens"):
        joint.log_prob([token, token])
    with pytest.raises(UsageError, match="sample shape"):
        joint.sample(-1)
    with pytest.raises(UsageError, match="number of fillings"):
        joint.top(0)


@pytest.mark.parametrize("name", list(JOINTS))
def test_many_fillings_are_scored_as_one_by_one(name, joint_of):
    joint = joint_of(name, 3)
    rows = list(itertools.islice(itertools.product(*(s.ids.tolist() for s in joint.supports)), 0, None, 5))
    together = joint.log_prob(torch.tensor(rows))
    apart = [float(joint.log_prob(row)) for row in rows]
    np.testing.assert_allclose(together, apart, atol=1e-5)


def test_a_chain_of_many_tokens_tells_what_one_of_its_factors_knows():
    joint = unmask.fill("The [MASK] [MASK] [MASK] at the casino.")
    assert joint.method == "chain"
    found = joint.conditional(2, {0: "people", 1: "are"})
    eating, dancing = joint.log_prob([["people", "are", "eating"], ["people", "are", "dancing"]])
    apart = found.log_prob("eating") - found.log_prob("dancing")
    assert float(apart) == pytest.approx(float(eating - dancing))
    first, second = joint.marginal(0), joint.conditional(1, {0: "people"})
    factors = first.log_prob("people") + second.log_prob("are") + found.log_prob("eating")
    assert float(factors) == pytest.approx(float(eating))
    with pytest.raises(UsageError, match=r"all 8,187 × 8,187 = .*use the method tree"):
        joint.conditional(2, {0: "people"})


@pytest.mark.parametrize("name", ["chain", "chain by confidence", "chain of pairs"])
def test_a_conditional_sums_over_the_free_blanks_alone_and_says_the_same_as_the_whole_table(name, mlm_of):
    joint = JOINTS[name](mlm_of("bert"), 3)
    held = {2: int(joint.supports[2].ids[1])}
    found = joint.conditional(0, held).log_probs
    assert "table" not in vars(joint)
    joint.entropy()  # which writes all fillings down
    assert "table" in vars(joint)
    np.testing.assert_allclose(found, joint.conditional(0, held).log_probs, atol=1e-6)
