"""Running the command line inside the tests, where it is quick."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from unmask.cli import main


class Outcome(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def line(self) -> str:
        """The one line of an error message, without its end."""
        assert self.out == ""
        assert self.err.endswith("\n")
        assert self.err.count("\n") == 1
        assert self.err.startswith("unmask: ")
        assert "Traceback" not in self.err
        return self.err.removeprefix("unmask: ").rstrip("\n")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run `unmask` with arguments, as the installed script does."""

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["unmask", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        return Outcome(int(stop.value.code or 0), out, err)

    return run


@pytest.fixture(scope="session")
def bert(checkpoint: Callable[[str], Path]) -> str:
    """The directory of a sound model."""
    return str(checkpoint("bert"))
