"""One suite for every construction: it walks the registry and asks each joint all that is promised."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import kl_divergence

import reference
from unmask import CONSTRUCTIONS, PairConditionals, Support, UsageError, construct
from unmask.joints import Independent, TableJoint
from unmask.tables.pair_conditionals import BLOCK_CELLS

# every construction, and those with options once more for each option
EXAMPLES = [(name, {}) for name in CONSTRUCTIONS] + [
    ("hcb", {"order": "ba"}),
    ("hcb", {"pivot": 0}),
    ("hcb", {"order": "ba", "pivot": 1}),
    ("ag-published", {"rounds": 1}),
    ("ag-published", {"rounds": 7}),
    ("ag-weighted", {"power": 0.5}),
]
BAD_OPTIONS = [
    ("hcb", {"order": "up"}),
    ("hcb", {"pivot": 99}),
    ("hcb", {"pivot": -1}),
    ("ag", {"tolerance": 0.0}),
    ("ag", {"tolerance": float("inf")}),
    ("ag", {"tolerance": "fine"}),
    ("ag", {"sweeps": -3}),
    ("ag", {"sweeps": "many"}),
    ("ag", {"pivot": 1}),
    ("product", {"rounds": 3}),
    ("ag-weighted", {"power": -0.1}),
    ("ag-weighted", {"power": 2}),
    ("ag-weighted", {"power": "some"}),
    ("ag-weighted", {"tolerance": 0}),
    ("ag-weighted", {"sweeps": 1.5}),
    ("ag-published", {"rounds": 0}),
    ("ag-published", {"rounds": 2.5}),
    ("ag-published", {"rounds": True}),
]

every_construction = pytest.mark.parametrize(("name", "options"), EXAMPLES)
tables = st.builds(
    reference.draw,
    rows=st.integers(1, 6),
    columns=st.integers(2, 6),
    spread=st.sampled_from([0.1, 1.0, 3.0]),
    seed=st.integers(0, 10_000),
)
some = settings(max_examples=25, deadline=None, derandomize=True)


def whole(joint):
    return joint.log_block(slice(None), slice(None)).double().numpy()


@every_construction
@given(conditionals=tables)
@some
def test_the_joint_equals_its_brute_force_twin(name, options, conditionals):
    expected = np.log(reference.REFERENCES[name](conditionals, **options))
    np.testing.assert_allclose(whole(construct(name, conditionals, **options)), expected, atol=1e-5)


@every_construction
@given(conditionals=tables)
@some
def test_the_joint_is_a_distribution_whose_parts_agree_with_brute_force(name, options, conditionals):
    joint = construct(name, conditionals, **options)
    q = np.exp(whole(joint))
    assert abs(q.sum() - 1) < 1e-5
    for blank in (0, 1):
        marginal = joint.marginal(blank)
        np.testing.assert_allclose(marginal.log_probs.exp(), q.sum(1 - blank), atol=1e-9)
        for token in range(q.shape[1 - blank]):
            line = q[:, token] if blank == 0 else q[token]
            found = joint.conditional(blank, given={1 - blank: token}).log_probs.exp()
            np.testing.assert_allclose(found, line / line.sum(), atol=1e-9)
    entropy = -(q * np.log(q)).sum()
    margins = sum(-(q.sum(i) * np.log(q.sum(i))).sum() for i in (0, 1))
    assert joint.entropy() == pytest.approx(entropy, abs=1e-8)
    assert joint.mutual_information() == pytest.approx(margins - entropy, abs=1e-8)


@every_construction
def test_log_prob_and_top_read_the_same_table(name, options):
    joint = construct(name, reference.draw(5, 7, 2.0, seed=3), **options)
    table = whole(joint)
    pairs = joint.enumerate_support().reshape(5, 7, 2)
    np.testing.assert_allclose(joint.log_prob(pairs), table, atol=1e-12)
    assert float(joint.log_prob([2, 6])) == pytest.approx(table[2, 6], abs=1e-12)
    best = joint.top(4)
    order = np.argsort(-table, axis=None)[:4]
    assert [f.ids for f in best] == [tuple(int(i) for i in np.unravel_index(o, table.shape)) for o in order]
    assert [f.log_prob for f in best] == pytest.approx([table.flat[o] for o in order])
    assert len(joint.top(1000)) == 35


@every_construction
def test_kl_between_joints_agrees_with_brute_force(name, options):
    conditionals = reference.draw(4, 6, 1.5, seed=5)
    joint, other = construct(name, conditionals, **options), construct("l2r", conditionals)
    p, q = whole(joint), whole(other)
    assert kl_divergence(joint, other) == pytest.approx((np.exp(p) * (p - q)).sum(), abs=1e-9)
    assert kl_divergence(joint, joint) == 0


@every_construction
def test_a_pair_and_a_joint_of_another_kind_have_a_divergence_both_ways(name, options):
    """Against a table, a product and a backoff chain, which share nothing with a pair but the contract."""
    joint = construct(name, reference.draw(4, 6, 1.5, seed=5), **options)
    p = whole(joint)
    logits = torch.randn(4, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    table = TableJoint(logits.flatten().log_softmax(0).reshape(4, 6), joint.supports, method="table")
    product = Independent((logits[:, 0].log_softmax(0), logits[0].log_softmax(0)), joint.supports)
    for other in (table, product):
        q = other.log_prob(other.enumerate_support()).reshape(4, 6).numpy()
        assert float(kl_divergence(joint, other)) == pytest.approx((np.exp(p) * (p - q)).sum(), abs=1e-9)
        assert float(kl_divergence(other, joint)) == pytest.approx((np.exp(q) * (q - p)).sum(), abs=1e-9)


@every_construction
def test_a_joint_is_a_torch_distribution(name, options):
    joint = construct(name, reference.draw(4, 6, 1.5, seed=5), **options)
    assert isinstance(joint, torch.distributions.Distribution)
    assert (joint.batch_shape, joint.event_shape) == ((), (2,))
    for shape in ((), (5,), (2, 3), (0,)):
        value = joint.sample(shape, generator=torch.Generator().manual_seed(0))
        assert value.shape == (*shape, 2)
        assert joint.log_prob(value).shape == shape
        assert bool(joint.support.check(value).all())
    for found in (joint.entropy(), joint.mutual_information(), kl_divergence(joint, joint)):
        assert (found.shape, found.dtype) == ((), torch.float64)
    (block, log_prob), *rest = joint.factors([1, 2])
    assert (block, rest) == ((0, 1), [])
    assert log_prob == float(joint.log_prob([1, 2]))


@every_construction
def test_samples_follow_the_joint(name, options):
    """Chi-square over all cells; false-alarm rate 1e-4 for each of the constructions, with a fixed seed."""
    joint = construct(name, reference.draw(4, 5, 1.0, seed=11), **options)
    draws = 20_000
    samples = joint.sample(draws, torch.Generator().manual_seed(0))
    assert samples.shape == (draws, 2)
    assert reference.p_value(samples, joint.supports, np.exp(whole(joint))) > 1e-4


@every_construction
def test_the_same_seed_gives_the_same_samples(name, options):
    joint = construct(name, reference.draw(4, 5, 1.0, seed=11), **options)
    first, second, other = (joint.sample(50, torch.Generator().manual_seed(s)) for s in (7, 7, 8))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("name", ["ag", "ag-weighted", "hcb", "gibbs"])
@given(
    rows=st.integers(1, 6),
    columns=st.integers(1, 6),
    spread=st.sampled_from([0.5, 2.0, 4.0]),
    seed=st.integers(0, 999),
)
@some
def test_compatible_conditionals_are_recovered(name, rows, columns, spread, seed):
    generator = torch.Generator().manual_seed(seed)
    truth = (
        (spread * torch.randn(rows, columns, generator=generator, dtype=torch.float64)).flatten().softmax(0)
    )
    joint = construct(name, reference.of_joint(truth.reshape(rows, columns)))
    np.testing.assert_allclose(np.exp(whole(joint)), truth.reshape(rows, columns), atol=1e-6)


@pytest.mark.slow
@every_construction
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_violently_peaked_logits_leave_every_number_finite(name, options, dtype):
    """Logits of standard deviation 40 over 500 tokens: probabilities down to e^-250."""
    joint = construct(name, reference.draw(500, 500, 40.0, seed=2, dtype=dtype), **options)
    table = whole(joint)
    assert np.isfinite(table).all()
    assert abs(np.exp(table).sum() - 1) < 1e-5
    assert all(torch.isfinite(joint.marginal(i).log_probs).all() for i in (0, 1))
    assert np.isfinite([joint.entropy(), joint.mutual_information()]).all()


@pytest.mark.parametrize("depth", [40.0, 75.0, 300.0, 1000.0])
@pytest.mark.parametrize("size", [(40, 50), (400, 350)])
@every_construction
def test_a_token_whose_probability_underflows_float32_keeps_a_finite_log_prob(name, options, size, depth):
    generator = torch.Generator().manual_seed(0)
    logits = [torch.randn(*size, generator=generator) for _ in range(2)]
    alone = [torch.randn(n, generator=generator) for n in size]
    logits[0][7] -= depth  # p(a = 7 | b) = e^-depth whatever b
    logits[1][:, 9] -= depth
    alone[0][7] -= depth
    alone[1][9] -= depth
    joint = construct(name, PairConditionals.from_logits(*logits, *alone), **options)
    table = whole(joint)
    assert np.isfinite(table).all()
    assert abs(np.exp(table).sum() - 1) < 1e-5


@every_construction
def test_streaming_over_many_blocks_changes_nothing(name, options, monkeypatch):
    conditionals = reference.draw(23, 17, 1.0, seed=4)
    joint = construct(name, conditionals, **options)
    expected = (float(joint.entropy()), joint.marginal(0).log_probs, [f.ids for f in joint.top(9)])
    monkeypatch.setattr("unmask.tables.pair_conditionals.BLOCK_CELLS", 40)  # two rows a block
    again = construct(name, conditionals, **options)
    assert again.entropy() == pytest.approx(expected[0], abs=1e-9)
    np.testing.assert_allclose(again.marginal(0).log_probs, expected[1], atol=1e-9)
    assert [f.ids for f in again.top(9)] == expected[2]


@pytest.mark.slow
@pytest.mark.parametrize("name", list(CONSTRUCTIONS))
def test_no_table_of_all_pairs_is_held(name):
    """A block that is asked for while streaming never has more cells than the bound."""
    joint = construct(name, reference.draw(2000, 1500, 1.0, seed=1, dtype=torch.float32))
    largest = 0
    original = joint.log_block

    def watched(rows, columns):
        nonlocal largest
        block = original(rows, columns)
        largest = max(largest, block.numel())
        return block

    joint.log_block = watched
    (
        joint.entropy(),
        joint.top(3),
        kl_divergence(joint, joint),
        joint.sample(5, torch.Generator().manual_seed(0)),
    )
    assert 0 < largest <= BLOCK_CELLS


@pytest.mark.parametrize(("name", "options"), BAD_OPTIONS)
def test_bad_options_are_refused(name, options):
    with pytest.raises(UsageError):
        construct(name, reference.draw(4, 4, 1.0, seed=0), **options)


def test_an_unknown_construction_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match="unknown method 'adaptive-gradient': expected one of product"):
        construct("adaptive-gradient", reference.draw(2, 2, 1.0, seed=0))


@pytest.mark.parametrize(
    ("blank", "known"), [(0, {}), (0, {0: 1}), (1, {1: 0}), (0, {0: 1, 1: 1}), (2, {0: 0}), (-1, {0: 0})]
)
def test_conditionals_need_a_token_for_the_other_blank_and_no_other(blank, known):
    joint = construct("l2r", reference.draw(3, 3, 1.0, seed=0))
    with pytest.raises(UsageError):
        joint.conditional(blank, given=known)


def test_tokens_outside_the_table_are_refused():
    joint = construct("l2r", reference.draw(3, 4, 1.0, seed=0))
    with pytest.raises(UsageError, match="expected an index from 0 to 2"):
        joint.log_prob([3, 0])
    with pytest.raises(UsageError, match="has no vocabulary"):
        joint.log_prob(["man", 0])


@pytest.mark.parametrize(
    "value",
    [
        1,
        [1],
        [0, 1, 2],
        [[0, 1], [0]],
        torch.tensor(1),
        torch.tensor([0, 1, 2]),
        torch.zeros(3, 2),
        torch.zeros(2, dtype=torch.bool),
        torch.zeros(2, dtype=torch.long, device="meta"),
        None,
        {},
        1.5,
        np.array(["man", "is"]),
        np.array([0, None], dtype=object),
        ["\ud800", 0],
    ],
)
def test_what_is_no_filling_is_refused(value):
    joint = construct("l2r", reference.draw(3, 4, 1.0, seed=0))
    with pytest.raises(UsageError):
        joint.log_prob(value)


@pytest.mark.parametrize(
    "shape", [-1, (2, -1), 1.0, True, "3", None, 10**12, 10**30, (10**6, 10**6), (0, 10**30)]
)
def test_what_is_no_sample_shape_is_refused(shape):
    joint = construct("l2r", reference.draw(3, 4, 1.0, seed=0))
    for distribution in (joint, joint.marginal(0)):
        with pytest.raises(UsageError):
            distribution.sample(shape)


def test_numbers_of_numpy_are_taken_wherever_numbers_are():
    joint = construct("l2r", reference.draw(3, 4, 1.0, seed=0))
    expected = joint.log_prob([1, 2])
    for value in (np.array([1, 2]), np.array([1, 2], dtype=np.uint8), [np.int32(1), np.int64(2)]):
        assert joint.log_prob(value) == expected
    for shape in (np.int64(6), (np.int8(2), np.int16(3)), np.array([2, 3])):
        assert joint.sample(shape).numel() == 12
    assert len(joint.top(np.int64(2))) == 2
    given = joint.conditional(np.int64(1), {np.int64(0): np.int64(2)})
    assert given.log_probs.equal(joint.conditional(1, {0: 2}).log_probs)


@pytest.mark.parametrize("k", [0, -1, 1.0, True, "3", None])
def test_what_is_no_number_of_fillings_is_refused(k):
    with pytest.raises(UsageError, match="number of fillings"):
        construct("l2r", reference.draw(3, 4, 1.0, seed=0)).top(k)


def test_supports_that_do_not_fit_the_tables_are_refused():
    with pytest.raises(UsageError, match="supports of 3 and 3 tokens"):
        PairConditionals.from_logits(torch.zeros(3, 3), torch.zeros(3, 3), a_support=Support.numbered(4))


def test_half_precision_and_gradients_do_no_harm():
    logits = torch.randn(400, 350, generator=torch.Generator().manual_seed(0))
    for table in (logits.bfloat16(), logits.half(), logits.clone().requires_grad_()):
        for name in CONSTRUCTIONS:
            joint = construct(name, PairConditionals.from_logits(table, table + 1))
            assert np.exp(joint.marginal(0).log_probs).sum() == pytest.approx(1, abs=1e-5)


def test_kl_between_joints_over_different_tokens_is_refused():
    logits = torch.zeros(3, 3)
    others = Support(torch.tensor([0, 1, 5]))
    first = construct("l2r", PairConditionals.from_logits(logits, logits))
    second = construct("l2r", PairConditionals.from_logits(logits, logits, a_support=others))
    for one, other in ((first, second), (first.marginal(0), second.marginal(0)), (first, first.marginal(0))):
        with pytest.raises(UsageError, match="the same blanks and the same tokens"):
            kl_divergence(one, other)


def test_a_conditional_is_given_one_token():
    joint = construct("l2r", reference.draw(3, 3, 1.0, seed=0))
    with pytest.raises(UsageError, match="a token or its id"):
        joint.conditional(0, given={1: [0, 1]})


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ((torch.zeros(2, 3), torch.zeros(3, 2)), "two tables of one shape"),
        ((torch.zeros(4), torch.zeros(4)), "two tables of one shape"),
        ((torch.zeros(0, 3), torch.zeros(0, 3)), "two tables of one shape"),
        ((torch.zeros(2, 3, dtype=torch.int64), torch.zeros(2, 3)), "floating-point"),
        ((torch.full((2, 3), torch.nan), torch.zeros(2, 3)), "a_given_b holds infinite or undefined"),
        ((torch.zeros(2, 3), torch.tensor([[0.0, 1, -torch.inf]] * 2)), "b_given_a holds infinite"),
        ((torch.zeros(2, 3), torch.zeros(2, 3), torch.zeros(3), torch.zeros(3)), "of 2 and 3 tokens"),
    ],
)
def test_tables_that_are_no_conditionals_are_refused(tables, message):
    with pytest.raises(UsageError, match=message):
        PairConditionals.from_logits(*tables)
