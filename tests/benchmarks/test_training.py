"""The throughput benchmark prints a row for each way and precision, and nothing that a trainer says."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

pytestmark = pytest.mark.training


def test_it_prints_a_row_for_each_way(monkeypatch, capsys):
    import training

    monkeypatch.setattr(sys, "argv", ["training.py", "--rows", "2", "--steps", "4", "--rounds", "1"])
    training.main()
    lines = [line for line in capsys.readouterr().out.splitlines() if line]
    assert lines[0] == "## Training throughput"
    ways = [
        f"| {way} | {precision}" for precision in training.PRECISIONS for way in ("plain Trainer", "unmask")
    ]
    assert [" | ".join(line.split(" | ")[:2]) for line in lines[-4:]] == ways
    assert "{" not in "".join(lines)
