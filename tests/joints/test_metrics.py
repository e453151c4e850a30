"""Every metric beside a brute-force float64 twin, written from the definitions on whole tables."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import reference
from tiny import sentence
from unmask import CONSTRUCTIONS, construct
from unmask.inference.infer import conditionals
from unmask.inference.query import Query
from unmask.joints import metrics
from unmask.joints.metrics import average_kl, incompatibility, marginals_of, measure
from unmask.text.cloze import parse_braces


def divergence(p, q):
    return (p * np.log(p / q)).sum()


def brute_force(q, p, r, truth):
    """All metrics from whole tables q(a, b), p(a|b), p(b|a) and the true pair, context by context."""
    rows, columns = q.shape
    contexts = [(p[:, b], q[:, b] / q[:, b].sum()) for b in range(columns)]
    contexts += [(r[a], q[a] / q[a].sum()) for a in range(rows)]
    a, b = truth
    true = (contexts[b], contexts[columns + a])
    middle = [(x, y, (x + y) / 2) for x, y in contexts]
    return {
        "log_prob": np.log(q[a, b]),
        "log_a_given_b": np.log(true[0][1][a]),
        "log_b_given_a": np.log(true[1][1][b]),
        "a_kl": np.mean([divergence(x, y) for x, y in contexts]),
        "g_kl": np.mean([divergence(x, y) for x, y in true]),
        "reverse_kl": np.mean([divergence(y, x) for x, y in contexts]),
        "jsd": np.mean([(divergence(x, m) + divergence(y, m)) / 2 for x, y, m in middle]),
        "rank": 1 + (q > q[a, b]).sum(),
    }


def whole(joint):
    return joint.log_block(slice(None), slice(None)).double().exp().numpy()


@pytest.mark.parametrize("name", list(CONSTRUCTIONS))
@pytest.mark.parametrize("spread", [0.5, 3.0])
def test_all_metrics_equal_brute_force(name, spread, monkeypatch):
    conditionals = reference.draw(13, 9, spread, seed=3)
    p, r, _, _ = reference.dense(conditionals)
    joint = construct(name, conditionals)
    expected = brute_force(whole(joint), p, r, (4, 7))
    if name == "product":  # U-PPL is the model's own
        expected |= {"log_a_given_b": np.log(p[4, 7]), "log_b_given_a": np.log(r[4, 7])}
    monkeypatch.setattr("unmask.tables.pair_conditionals.CACHED_CELLS", 40)  # many blocks
    found = measure(joint, (4, 7))
    assert dataclasses.asdict(found) == pytest.approx(expected, abs=1e-9)
    assert average_kl(joint) == pytest.approx(expected["a_kl"], abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["bert", "roberta"])
def test_on_a_tiny_model_all_metrics_equal_a_float64_computation(architecture, mlm_of, plain_model):
    """From the plain Hugging Face model, one text at a time, by the plain twin of every construction."""
    mlm = mlm_of(architecture)
    text = sentence(architecture).replace("man", "{man}").replace(" is", " {is}")
    cloze = parse_braces(text, mlm.vocabulary, mlm.window)
    ids = mlm.vocabulary.special_ids | mlm.vocabulary.unused_ids
    words = [i for i in range(mlm.vocabulary.size) if i not in ids]
    model = plain_model(architecture)

    def logits(asked, **filled):
        row = torch.tensor([cloze.ids])
        for blank, token in filled.items():
            row[0, cloze.blanks["ab".index(blank)]] = token
        with torch.no_grad():
            return model(input_ids=row).logits[0, cloze.blanks[asked]][words].double()

    plain = from_logits(
        torch.stack([logits(0, b=token) for token in words], 1),
        torch.stack([logits(1, a=token) for token in words], 0),
        logits(0),
        logits(1),
    )
    p, r, _, _ = reference.dense(plain)
    truth = tuple(words.index(t) for t in cloze.truth)
    table = conditionals(mlm, cloze, Query(candidates="all"))
    for name in CONSTRUCTIONS:
        expected = brute_force(reference.REFERENCES[name](plain), p, r, truth)
        if name == "product":
            expected |= {"log_a_given_b": np.log(p[truth]), "log_b_given_a": np.log(r[truth])}
        found = dataclasses.asdict(measure(construct(name, table), truth))
        assert found == pytest.approx(expected, abs=1e-5, rel=1e-5), name


def from_logits(a_table, b_table, a_alone, b_alone):
    """What the references read, from logits as the model gives them: [a, b] twice, [a] and [b]."""
    a_log_z, b_log_z = a_table.logsumexp(0), b_table.logsumexp(1)
    return SimpleNamespace(
        a_table=a_table - a_log_z[None, :],
        b_table=b_table - b_log_z[:, None],
        a_alone=a_alone.log_softmax(0),
        b_alone=b_alone.log_softmax(0),
        a_log_z=a_log_z,
        b_log_z=b_log_z,
    )


def test_the_best_pair_has_rank_one_and_the_worst_the_last():
    joint = construct("ag", reference.draw(5, 4, 2.0, seed=0))
    q = whole(joint)
    order = [np.unravel_index(i, q.shape) for i in np.argsort(-q, axis=None)]
    assert [measure(joint, tuple(map(int, cell))).rank for cell in order] == list(range(1, 21))


def test_a_joint_of_compatible_conditionals_is_no_distance_away():
    truth = torch.rand(6, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = measure(construct("ag", reference.of_joint(truth / truth.sum())), (1, 2))
    assert [found.a_kl, found.g_kl, found.reverse_kl, found.jsd] == pytest.approx([0] * 4, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(CONSTRUCTIONS))
def test_single_precision_is_good_to_five_digits(name):
    """Tables large enough for the fast solvers, whose sums run in single precision."""
    conditionals = reference.draw(400, 350, 2.0, seed=5, dtype=torch.float32)
    joint = construct(name, conditionals)
    p, r, _, _ = reference.dense(conditionals)
    expected = brute_force(whole(joint), p, r, (11, 7))
    if name == "product":
        expected |= {"log_a_given_b": np.log(p[11, 7]), "log_b_given_a": np.log(r[11, 7])}
    found = dataclasses.asdict(measure(joint, (11, 7)))
    log_q = joint.log_block(slice(None), slice(None)).float()
    level = log_q[11, 7].double()
    level += metrics.TIES * torch.finfo(torch.float32).eps * max(1.0, abs(float(level)))
    assert found.pop("rank") == 1 + int((log_q > level.float()).sum())  # likelier by more than rounding
    expected.pop("rank")
    assert found == pytest.approx(expected, abs=1e-5, rel=1e-5)


@pytest.mark.parametrize("spread", [1.0, 40.0])
def test_both_ways_to_the_marginals_agree_where_both_can_be_gone(spread):
    joint = construct("r2l", reference.draw(30, 40, spread, seed=2))
    found = metrics.marginals_of(joint)
    assert all(torch.isfinite(m).all() for m in found)
    for ours, theirs in zip(found, joint.log_marginals, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=0)


def test_peaked_tables_leave_every_metric_finite():
    conditionals = reference.draw(60, 50, 40.0, seed=2, dtype=torch.float32)
    for name in CONSTRUCTIONS:
        found = dataclasses.asdict(measure(construct(name, conditionals), (0, 0)))
        assert np.isfinite(list(found.values())).all(), name
        assert found["jsd"] <= np.log(2) + 1e-9


@pytest.mark.parametrize("name", list(CONSTRUCTIONS))
@pytest.mark.parametrize(
    ("rows", "columns", "dtype", "close"),
    [
        ([1, 3, 1, 2], [2, 1, 4, 1, 1], torch.float64, 1e-9),
        ([1, 3] * 200, [2, 1, 4, 1, 1] * 70, torch.float32, 2e-5),
    ],
    ids=["plain", "compiled"],
)
def test_rows_that_stand_for_several_tokens_count_so_often(name, rows, columns, dtype, close):
    """Tables in which tokens are repeated, beside the same tables with one row or column for each group."""
    small = reference.draw(len(rows), len(columns), 1.5, seed=6, dtype=dtype)
    full, lumped, (a_at, b_at) = reference.repeat(small, rows, columns)
    assert (lumped.probabilities is not None) == (dtype == torch.float32)
    expected = dataclasses.asdict(measure(construct(name, full), (4, 7)))
    joint = construct(name, lumped)
    found = dataclasses.asdict(measure(joint, (int(a_at[4]), int(b_at[7]))))
    assert found.pop("rank") == pytest.approx(expected.pop("rank"), rel=1e-3)
    assert found == pytest.approx(expected, abs=close, rel=close)
    assert incompatibility(lumped) == pytest.approx(incompatibility(full), abs=close, rel=close)
    total = torch.tensor(rows, dtype=torch.float64) @ marginals_of(joint).a.exp()
    assert float(total) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("name", list(CONSTRUCTIONS))
def test_the_compiled_sums_are_those_of_the_plain_twin(name):
    _, lumped, _ = reference.repeat(
        reference.draw(400, 350, 3.0, seed=2, dtype=torch.float32), [1, 3] * 200, [2, 1, 4, 1, 1] * 70
    )
    joint = construct(name, lumped)
    marginals = marginals_of(joint)
    level = float(joint.log_block(slice(3, 4), slice(5, 6)))
    fast = metrics.divergences_of(joint, marginals, level)
    plain = metrics.divergences_in_logs(joint, marginals, level)
    assert fast == pytest.approx(plain, rel=1e-5, abs=1e-2)  # sums over 1,530 contexts


def test_conditionals_of_one_joint_are_compatible_and_others_are_not():
    truth = torch.rand(6, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert incompatibility(reference.of_joint(truth / truth.sum())) == pytest.approx(0, abs=1e-12)
    conditionals = reference.draw(6, 7, 1.0, seed=0)
    log_c = (conditionals.a_table - conditionals.b_table).numpy()
    interaction = log_c + log_c.mean() - log_c.mean(1, keepdims=True) - log_c.mean(0, keepdims=True)
    assert incompatibility(conditionals) == pytest.approx((interaction**2).mean(), abs=1e-12)
    assert incompatibility(conditionals) > 0.5
