"""A campaign's process leaves its tally behind."""

from pathlib import Path

from harness import TALLY, tally


def pytest_sessionfinish() -> None:
    if TALLY:
        tally.write(Path(TALLY))
