"""Every benchmark can be imported: what it needs of the package is still there."""

import importlib
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(HERE))
BENCHMARKS = sorted(path.stem for path in HERE.glob("*.py"))


@pytest.mark.parametrize("name", BENCHMARKS)
def test_it_finds_what_it_imports(name):
    assert importlib.import_module(name).__doc__
