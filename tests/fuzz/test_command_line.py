"""The command line: whatever is typed, an exit code of 0, 1 or 2, and no traceback.

In this process, with the standard streams caught; a line that is refused goes to standard error, alone.
"""

import contextlib
import io
import json
import sys
from pathlib import Path

import pytest
import typer
from fuzz_values import braced, masked, mostly, odd_texts, sound_texts, texts
from harness import attempt, cases, examine
from hypothesis import given
from hypothesis import strategies as st

from unmask import RunError, UsageError
from unmask.cli import app, main

ODD = (
    "",
    "0",
    "-1",
    "1.5",
    "nan",
    "1e400",
    "auto",
    "all",
    "words",
    "\x00",
    "x=y",
    "order=ba",
    "man",
    "שלום",
    "9" * 5000,
    "-",
    "--",
    "\ud800",
)
GOOD_OPTIONS = {
    "--method": ("ag", "product", "chain", "l2r"),
    "--candidates": ("1", "2", "4"),
    "--support": ("6", "words"),
    "--top": ("1", "3"),
    "--seed": ("0", "7"),
    "--include": ("man", "dog"),
    "--targets": ("man,dog", "is"),
    "--json": (),
    "--truncate": (),
    "--memory": ("1GB",),
    "--completion": ("plain",),
}
QUICK = ("--candidates", "2", "--support", "6")
BOTH = sound_texts(("[MASK]",), 2)
SOUND = {
    "fill": masked,
    "score": braced,
    "sample": BOTH,
    "compare": BOTH,
    "explain": BOTH,
    "models": None,
    "cite": None,
}


def _parameters() -> dict[str, list[str]]:
    """Every command with all its options."""
    found: dict[str, list[str]] = {}

    def walk(command, path: tuple[str, ...]) -> None:
        for name, inner in getattr(command, "commands", {}).items():
            walk(inner, (*path, name))
        if not hasattr(command, "commands"):
            found[" ".join(path)] = [p.opts[0] for p in command.params if p.param_type_name == "option"]

    walk(typer.main.get_command(app), ())
    return found


PARAMETERS = _parameters()
NOT_STARTED = ("serve",)  # it would answer until it is stopped
TAKES_NOTHING = ("--json", "--truncate", "--allow-pickle", "--words", "--pieces", "--energy")


@st.composite
def sensible(draw: st.DrawFn, bert: str) -> list[str]:
    """Draw a command that is as it should be, but for one thing in some cases."""
    command = draw(st.sampled_from(sorted(SOUND)))
    if SOUND[command] is None:
        return [command, *draw(st.lists(st.sampled_from(["ag", "--json", "hcb", "x"]), max_size=2))]
    line = [command, draw(mostly(SOUND[command], odd_texts)), "--model", bert, *QUICK]
    for option in draw(
        st.lists(st.sampled_from([o for o in GOOD_OPTIONS if o in PARAMETERS[command]]), max_size=2)
    ):
        line += [option, *([draw(st.sampled_from(GOOD_OPTIONS[option]))] if GOOD_OPTIONS[option] else [])]
    if draw(st.integers(0, 2)) == 0:
        option = draw(st.sampled_from(PARAMETERS[command]))
        line += [
            option,
            *([] if option in TAKES_NOTHING else [draw(mostly(st.sampled_from(ODD), odd_texts))]),
        ]
    return line


@st.composite
def anything_typed(draw: st.DrawFn, bert: str) -> list[str]:
    """Draw any command with any of its options, at most three, and words that mean nothing.

    The model is a tiny one: what the embedded one says of seventy blanks takes a minute of honest work.
    """
    command = draw(st.sampled_from([name for name in PARAMETERS if name not in NOT_STARTED]))
    line = command.split() + draw(st.lists(st.sampled_from(ODD) | texts, max_size=2))
    for option in draw(
        st.lists(st.sampled_from([*PARAMETERS[command], "--colour", "-q", "--help"]), max_size=3)
    ):
        line += [option, *draw(st.lists(st.sampled_from(ODD), max_size=1))]
    return [*line, "--model", bert] if "--model" in PARAMETERS[command] else line


def run(line: list[str]) -> None:
    """Run a command as the installed script does, and raise what it says if it refuses."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    before = sys.argv
    sys.argv = ["unmask", *line]
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            pytest.raises(SystemExit) as stop,
        ):
            main()
    finally:
        sys.argv = before
    code, told = stop.value.code or 0, err.buffer.getvalue().decode()
    assert code in (0, 1, 2), f"exit code {code}"
    assert "Traceback" not in told, told
    assert "should not have" not in told, told  # what nobody foresaw
    if code:
        assert out.buffer.getvalue() == b"", "a refusal on standard output"
        last = told.splitlines()[-1]
        assert last.startswith("unmask: "), told
        examine(last)
        raise (UsageError if code == 2 else RunError)(last)
    if "--json" in line and "--help" not in line:
        json.loads(out.buffer.getvalue())


@cases(110)
@given(data=st.data())
def test_sensible_commands(checkpoint, data: st.DataObject, tmp_path_factory) -> None:
    line = data.draw(sensible(str(checkpoint("bert"))))
    with contextlib.chdir(_empty(tmp_path_factory)):
        attempt("command line", " ".join(line)[:400], lambda: run(line))


@cases(80)
@given(data=st.data())
def test_whatever_is_typed(checkpoint, data: st.DataObject, tmp_path_factory) -> None:
    line = data.draw(anything_typed(str(checkpoint("bert"))))
    with contextlib.chdir(_empty(tmp_path_factory)):
        attempt("command line", " ".join(line)[:400], lambda: run(line))


def _empty(factory: pytest.TempPathFactory) -> Path:
    return factory.mktemp("here")
