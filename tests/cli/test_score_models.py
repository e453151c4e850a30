"""`unmask score FILE` with masked and causal models: which score it takes, and bits per byte."""

import json
import math
from pathlib import Path

import pytest

from tiny import save_causal

TEXTS = ["the old man is at the casino.", "a dog"]


@pytest.fixture(scope="module")
def causal(tmp_path_factory):
    return str(save_causal(tmp_path_factory.mktemp("causal")))


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(TEXTS) + "\n")
    return path


def scores(outcome):
    assert outcome.code == 0, outcome.err
    return [json.loads(line)["scores"] for line in outcome.out.splitlines()]


def test_a_masked_model_is_scored_by_pll_unless_told_otherwise(run, bert, lines):
    assert all(set(found) == {"pll"} for found in scores(run("score", lines, "-m", bert, "--json")))
    with_lengths = run("score", lines, "-m", bert, "--json", "--lengths", "uniform:20")
    assert all(set(found) == {"chain"} for found in scores(with_lengths))


def test_masked_and_causal_models_stand_in_bits_per_byte(run, bert, causal, lines):
    for model in (bert, causal):
        command = ("score", lines, "-m", model, *(["--scores", "chain"] if model == bert else []))
        found = scores(run(*command, "--json"))
        bits = 0.0
        for text, score in zip(TEXTS, found, strict=True):
            size = len(text.encode())
            assert score["chain"]["bits_per_byte"] == pytest.approx(
                -score["chain"]["log_prob"] / math.log(2) / size
            )
            bits += score["chain"]["bits_per_byte"] * size
        shown = run(*command).err.split("bits per byte: chain ")[1]
        assert float(shown) == pytest.approx(bits / sum(len(text) for text in TEXTS), abs=1e-3)


def test_orders_average_the_chain(run, bert, lines):
    one, four = (
        scores(run("score", lines, "-m", bert, "--scores", "chain", "--json", "--orders", n)) for n in (1, 4)
    )
    assert one != four
    assert scores(run("score", lines, "-m", bert, "--json", "--orders", 4)) == four


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--scores", "pll", "--orders", "2"], "orders"),
        (["--orders", "1000"], "orders"),
        (["--orders", "0"], "orders"),
    ],
)
def test_orders_that_cannot_be_are_one_line(options, said, run, bert, lines):
    outcome = run("score", lines, "-m", bert, *options)
    assert outcome.code == 2
    assert said in outcome.err


def test_a_causal_model_is_refused_where_a_masked_one_is_needed(run, causal, lines):
    for command in (
        ("score", lines, "-m", causal, "--scores", "pll"),
        ("score", lines, "-m", causal, "--orders", "2"),
        ("score", "The {man}", "-m", causal),
        ("fill", "The [MASK]", "-m", causal),
    ):
        outcome = run(*command)
        assert outcome.code == 2, command
        assert "Traceback" not in outcome.err
