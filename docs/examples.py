"""The examples of README.md and of the pages: found, run and compared.

Two kinds are run: `>>>` in python blocks, by doctest, a page being one session; and `$ unmask ...` in console
blocks, in this process, through the command line's own entry. `$ cat FILE` shows a file, which is written for
the commands of the page. `tests/docs` checks that what is printed there is what comes out; `docs/refresh.py`
rewrites it where it rests on the weights of the embedded model. Other commands of the pages, in bash blocks,
are not run; their options are checked to exist.

Numbers with a point may differ by one unit of their last printed digit, because sums run in another order on
another machine, and what is as small as a rounding error is not compared; everything else is, word by word.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import itertools
import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

DOCS = Path(__file__).parent
ROOT = DOCS.parent
EMBEDDED = ROOT / "src" / "unmask" / "models" / "english" / "config.json"
COMMANDS = ("fill", "score", "sample", "compare", "explain", "models", "cite")
DOCTEST_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
PRETTY = ["|", "python", "-m", "json.tool"]
FENCE = re.compile(r"^(`{3,})\s*\{?([\w-]*)")
NEGLIGIBLE = 5e-7  # the tolerance of the solvers
sys.path.append(str(ROOT / "tests"))  # where tiny.py is, which some examples import
DECIMAL = re.compile(r"-?\d[\d,]*\.\d+(?:e[+-]?\d+)?", re.ASCII)


@dataclass(frozen=True)
class Block:
    """A fenced block: its lines are `lines[start:stop]` of the page."""

    language: str
    start: int
    stop: int


@dataclass(frozen=True)
class Call:
    """One command in a console block, with the lines of the page that hold what it prints."""

    command: str
    line: int
    start: int
    stop: int


def pages() -> list[Path]:
    """Return README.md and every page of the documentation."""
    found = (p for p in sorted(DOCS.rglob("*.md")) if "_build" not in p.parts)
    return [ROOT / "README.md", *found]


def blocks(lines: list[str]) -> Iterator[Block]:
    """Find the fenced blocks of a page."""
    opened: tuple[str, str, int] | None = None
    for i, line in enumerate(lines):
        match = FENCE.match(line)
        if opened is None and match:
            opened = (match.group(1), match.group(2), i + 1)
        elif opened is not None and line.rstrip() == opened[0]:
            yield Block(opened[1], opened[2], i)
            opened = None


def rests_on_weights(page: str) -> bool:
    """Whether the Python examples of a page print what the embedded model says."""
    marks = ("unmask.load()", "docs/refresh.py", ">>> joint = unmask.fill(", "unmask.score(texts")
    return any(mark in page for mark in marks)


def python_session(page: str, name: str) -> doctest.DocTest:
    """Return the `>>>` examples of a page; whatever is no python block is blanked, and line numbers stay."""
    lines = page.splitlines()
    kept = [""] * len(lines)
    for block in blocks(lines):
        if block.language in ("python", "pycon"):
            kept[block.start : block.stop] = lines[block.start : block.stop]
    return doctest.DocTestParser().get_doctest("\n".join(kept), {}, name, name, 0)


def calls(page: str) -> Iterator[Call]:
    """Find the `unmask` commands of a page's console blocks."""
    return (call for call in _console(page) if call.command.startswith("unmask "))


def files(page: str) -> dict[str, str]:
    """Return the files that a page shows by `$ cat NAME`."""
    lines = page.splitlines()
    return {
        call.command.removeprefix("cat "): "\n".join(lines[call.start : call.stop]) + "\n"
        for call in _console(page)
        if call.command.startswith("cat ")
    }


def snippets(page: str) -> Iterator[str]:
    """Find the `unmask` commands of a page's bash blocks, one line each, without pipes and comments."""
    lines = page.splitlines()
    for block in blocks(lines):
        if block.language != "bash":
            continue
        text = "\n".join(lines[block.start : block.stop]).replace("\\\n", " ")
        for line in text.splitlines():
            for part in line.split("|"):
                found = re.search(r"(?:^|\s)unmask(?:\)\"|\b)\s(.*)", part.strip())
                if found and not part.strip().startswith("#"):
                    yield "unmask " + re.split(r"\s(?:#|>)\s", found.group(1) + " ")[0].strip()


def _console(page: str) -> Iterator[Call]:
    lines = page.splitlines()
    for block in blocks(lines):
        if block.language != "console":
            continue
        starts = [i for i in range(block.start, block.stop) if lines[i].startswith("$ ")]
        for i, stop in zip(starts, [*starts[1:], block.stop], strict=False):
            first = i + 1
            command = lines[i][2:]
            while command.endswith("\\"):
                command = command[:-1] + lines[first].strip()
                first += 1
            yield Call(command, i, first, stop)


def model_of(argv: list[str]) -> str:
    """Return the model that a command names."""
    argv = argv[: argv.index("|")] if "|" in argv else argv
    for flag, value in itertools.pairwise(argv):
        if flag in ("-m", "--model"):
            return value
    return "english"


def why_not(command: str) -> str | None:
    """Say why a command can't be run here, or None."""
    argv = shlex.split(command)
    if argv[1] not in COMMANDS and not argv[1].startswith("-"):
        return f"'unmask {argv[1]}' takes too long for an example that is checked"
    if argv[1] in ("cite", "models") and EMBEDDED.is_file():
        return None
    model = model_of(argv)
    if argv[1] == "cite" or model.startswith("tiny/") or (ROOT / model).is_dir():
        return None
    if model == "english":
        return None if EMBEDDED.is_file() else "the embedded model is not there yet"
    return f"the model '{model}' is not here"


def run(command: str, directory: Path, shown: Mapping[str, str] | None = None) -> str:
    """Run a command in this process from a directory, and return what it prints on both streams.

    The files that its page shows are written there. A model named `tiny/bert` and the like is made there with
    random weights, by `tests/tiny.py`.
    """
    from unmask.cli import main

    for name, text in (shown or {}).items():
        (directory / name).write_text(text, encoding="utf-8")
    argv = shlex.split(command)
    pretty = argv[-len(PRETTY) :] == PRETTY
    argv = argv[: -len(PRETTY)] if pretty else argv
    if (ROOT / model_of(argv)).is_dir():
        directory = ROOT
    _make_tiny(model_of(argv), directory)
    printed = io.StringIO()
    with (
        contextlib.chdir(directory),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        contextlib.suppress(SystemExit),
        mock.patch.object(sys, "argv", argv),
        mock.patch.dict(os.environ, {"HF_HUB_OFFLINE": "1"}),
    ):
        main()
    text = printed.getvalue()
    if pretty:
        text = json.dumps(json.loads(text), indent=4, ensure_ascii=False)
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def _make_tiny(model: str, directory: Path) -> None:
    if not model.startswith("tiny/") or (directory / model).exists():
        return
    from tiny import save_tiny

    with contextlib.redirect_stderr(io.StringIO()):
        save_tiny(model.removeprefix("tiny/"), directory / model)


def same(want: str, got: str) -> bool:
    """Whether two outputs say the same: the same words, and decimals that agree in all but the last digit."""
    ours, theirs = (re.sub(r"─+", "─", text).split() for text in (want, got))
    return len(ours) == len(theirs) and all(map(_same_word, ours, theirs))


def _same_word(want: str, got: str) -> bool:
    if want == got:
        return True
    pairs = list(zip(DECIMAL.findall(want), DECIMAL.findall(got), strict=False))
    return DECIMAL.sub("#", want) == DECIMAL.sub("#", got) and all(abs(_gap(*pair)) <= 1.01 for pair in pairs)


def _gap(want: str, got: str) -> float:
    """Return the distance of two decimals in units of the last printed digit."""
    if max(abs(_value(want)), abs(_value(got))) < NEGLIGIBLE:
        return 0.0
    mantissa, _, exponent = want.partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    unit = max(unit, 1e-4 * abs(_value(want)))  # full-length floats, as JSON prints them
    return (_value(want) - _value(got)) / unit


def _value(decimal: str) -> float:
    return float(decimal.replace(",", ""))


class Checker(doctest.OutputChecker):
    """doctest's own comparison, and beside it the one that forgives the last digit."""

    def check_output(self, want: str, got: str, flags: int) -> bool:
        return super().check_output(want, got, flags) or same(want, got)
