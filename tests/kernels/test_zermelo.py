"""The compiled round of the published iteration against its plain twin, and against the definition."""

import numpy as np
import pytest
import torch

import reference
from unmask import construct
from unmask.kernels.zermelo import round_of


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_round_does_what_the_equation_says(threads):
    conditionals = reference.draw(7, 11, 2.0, seed=3)
    p, r, q_a, q_b = reference.dense(conditionals)
    q = (p + r) / (1 / q_a[:, None] + 1 / q_b[None, :])
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        a, b = round_of(p, r, q_a, q_b)
    finally:
        torch.set_num_threads(before)
    np.testing.assert_allclose(a, q.sum(1), rtol=1e-12)
    np.testing.assert_allclose(b, q.sum(0), rtol=1e-12)


def test_compiled_and_plain_rounds_give_the_same_joint(monkeypatch):
    conditionals = reference.draw(60, 50, 2.0, seed=3)
    assert conditionals.probabilities is None  # small tables are solved by plain code
    plain = construct("ag-published", conditionals).log_block(slice(None), slice(None))
    monkeypatch.setattr("unmask.tables.pair_conditionals.SMALL_TABLE", 1)
    again = reference.draw(60, 50, 2.0, seed=3)
    assert again.probabilities is not None
    compiled = construct("ag-published", again).log_block(slice(None), slice(None))
    torch.testing.assert_close(compiled, plain, atol=1e-9, rtol=0)


def test_a_round_on_a_lumped_table_is_one_on_the_repeated_table():
    rows, columns = [1, 4, 1, 2, 1, 30, 1], [3, 1, 1, 1, 7]
    repeated, lumped, (a_at, b_at) = reference.repeat(reference.draw(7, 5, 2.0, seed=3), rows, columns)
    p, r, q_a, q_b = reference.dense(lumped)
    a, b = round_of(p, r, q_a, q_b, np.array(rows, dtype=float), np.array(columns, dtype=float))
    whole_a, whole_b = round_of(*reference.dense(repeated))
    np.testing.assert_allclose(a[a_at], whole_a, rtol=1e-12)
    np.testing.assert_allclose(b[b_at], whole_b, rtol=1e-12)
