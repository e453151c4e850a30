"""The benchmarks' baseline computes what the library computes, so that the two may be compared."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import reference
from unmask import construct
from unmask.joints.metrics import average_kl

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import machine
import published


@pytest.fixture
def drawn():
    generator = torch.Generator().manual_seed(1)
    logits = published.Logits(
        *(2 * torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in [(9, 7)] * 2),
        *(2 * torch.randn(n, generator=generator, dtype=torch.float64) for n in (9, 7)),
    )
    table = reference.PairConditionals.from_logits(
        logits.a_given_b, logits.b_given_a, logits.a_alone, logits.b_alone
    )
    return logits, table


@pytest.mark.parametrize("method", ["product", "mrf-logit", "mrf-prob", "hcb", "ag-published"])
def test_every_published_scheme_is_one_of_the_constructions(drawn, method):
    logits, table = drawn
    expected = construct(method, table)
    log_q = published.joints(logits)[method]
    torch.testing.assert_close(log_q, expected.log_block(slice(None), slice(None)), atol=1e-9, rtol=0)
    found = published.metrics(logits, published.joints(logits), (4, 2))[method]
    assert found["log_prob"] == pytest.approx(float(expected.log_prob([4, 2])))
    assert found["a_kl"] == pytest.approx(average_kl(expected))
    if method != "product":
        given = expected.conditional(0, {1: 2})
        assert found["log_a_given_b"] == pytest.approx(float(given.log_prob(4)))


def test_the_baseline_asks_the_model_what_the_library_asks_it(mlm_of, plain_model):
    mlm, model = mlm_of("bert"), plain_model("bert")
    ids = [mlm.tokenizer.mask_token_id if i in (1, 3) else 5 for i in range(6)]
    tokens = torch.arange(5, 12)
    logits = published.ask(model, ids, (1, 3), tokens, batch=3)
    filled = torch.tensor(ids)
    filled[3] = 9  # the fifth of the tokens, at B: a column of A's table
    torch.testing.assert_close(
        logits.a_given_b[:, 4], mlm.logits(filled[None], 1)[0, tokens], atol=1e-4, rtol=0
    )
    filled = torch.tensor(ids)
    filled[1] = 6
    torch.testing.assert_close(logits.b_given_a[1], mlm.logits(filled[None], 3)[0, tokens], atol=1e-4, rtol=0)


def test_peak_memory_is_what_a_block_takes_beyond_what_was_held():
    """In a process of its own: the memory of one that has run other tests is reclaimed at any moment."""
    program = """
import machine, torch
held = torch.ones(2**22)
with machine.Peak() as peak:
    torch.ones(2**24)  # 64 MiB, given back at once
with machine.Peak() as idle:
    pass
assert float(held[0]) == 1
print(peak.bytes, idle.bytes)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(machine.__file__).parent, capture_output=True, text=True
    )
    peak, idle = map(int, done.stdout.split())
    assert 60e6 < peak < 200e6
    assert idle < 30e6
