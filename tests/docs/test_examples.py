"""What README.md and the pages print is what the code prints."""

import doctest
import importlib.util
import shlex
import sys
from pathlib import Path

import pytest
import typer

from unmask.cli import app

DOCS = Path(__file__).parents[2] / "docs"


def _module(name):
    spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


examples = _module("examples")
PAGES = [p for p in examples.pages() if p.is_file()]


def _name(path):
    return str(path.relative_to(examples.ROOT))


def _sessions():
    for path in PAGES:
        page = path.read_text(encoding="utf-8")
        session = examples.python_session(page, _name(path))
        if session.examples:
            yield pytest.param(session, id=_name(path))


def _commands():
    for path in PAGES:
        page = path.read_text(encoding="utf-8")
        lines, shown = page.splitlines(), examples.files(page)
        for call in examples.calls(page):
            want = "\n".join(lines[call.start : call.stop])
            yield pytest.param(call.command, want, shown, id=f"{_name(path)}:{call.line + 1}")


def _snippets():
    for path in PAGES:
        for snippet in examples.snippets(path.read_text(encoding="utf-8")):
            yield pytest.param(snippet, id=f"{_name(path)}: {snippet}")


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("examples")


@pytest.mark.parametrize("session", _sessions())
def test_python_examples_print_what_the_page_says(session):
    runner = doctest.DocTestRunner(examples.Checker(), verbose=False, optionflags=examples.DOCTEST_FLAGS)
    report = []
    failed = runner.run(session, out=report.append).failed
    assert not failed, "".join(report)


@pytest.mark.parametrize(("command", "want", "shown"), _commands())
def test_commands_print_what_the_page_says(command, want, shown, directory):
    reason = examples.why_not(command)
    if reason:
        pytest.skip(reason)
    got = examples.run(command, directory, shown)
    assert examples.same(want, got), f"$ {command}\n{got}\n\nnew weights? python docs/refresh.py"


@pytest.mark.parametrize("snippet", _snippets())
def test_commands_that_are_not_run_have_options_that_exist(snippet):
    command = typer.main.get_command(app)
    words = shlex.split(snippet)[1:]
    while words and hasattr(command, "commands"):
        assert words[0] in command.commands, f"there is no command '{words[0]}' in: {snippet}"
        command = command.commands[words.pop(0)]
    known = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
    unknown = [word for word in words if word.startswith("-") and len(word) > 1 and word not in known]
    assert not unknown, f"unknown options in: {snippet}"


def test_the_pages_have_examples_of_all_kinds():
    assert len(list(_sessions())) >= 8
    assert len(list(_commands())) >= 6
    assert len(list(_snippets())) >= 20


@pytest.mark.parametrize(
    ("want", "got", "agree"),
    [
        ("0.123 nats", "0.124 nats", True),
        ("0.123 nats", "0.125 nats", False),
        ("-0.123", "0.123", False),
        ("4.2e-04 %", "4.3e-04 %", True),
        ("4.2e-04 %", "4.2e-05 %", False),
        ('"gradient_norm": 3.96e-08', '"gradient_norm": 1.2e-09', True),
        ("78 tokens", "79 tokens", False),
        ("man  is ──── a", "man is ── a", True),
        ("man is", "man was", False),
        ("one", "one two", False),
        ('{"log_prob": -1.7660280243425754}', '{"log_prob": -1.7660280244990001}', True),
        ('{"log_prob": -1.7660280243425754}', '{"log_prob": -1.7670280244990001}', False),
    ],
)
def test_outputs_are_compared_word_by_word_up_to_the_last_digit(want, got, agree):
    assert examples.same(want, got) is agree


def test_a_session_keeps_the_line_numbers_of_its_page():
    session = examples.python_session("words\n\n```python\n>>> 1 + 1\n2\n```\nmore\n", "page")
    (example,) = session.examples
    assert (example.lineno, example.want) == (3, "2\n")


def test_commands_are_found_with_their_output():
    page = "```console\n$ unmask fill \\\n    'a ___'\nout\n$ pip install x\n$ unmask models\n```\n"
    found = list(examples.calls(page))
    assert [c.command for c in found] == ["unmask fill 'a ___'", "unmask models"]
    assert [(c.start, c.stop) for c in found] == [(3, 4), (6, 6)]


def test_refresh_renews_stale_output_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "examples", examples)
    refresh = _module("refresh")
    page = "# Page\n\n```console\n$ unmask fill 'no blank' --model tiny/bert\nstale\n```\n\nprose\n"
    renewed = refresh.renew_commands(page, tmp_path, "page")
    assert "stale" not in renewed
    assert "the text has no blank" in renewed
    assert renewed.startswith("# Page\n\n```console\n$ unmask fill")
    assert renewed.endswith("```\n\nprose\n")
    session = "```python\n>>> x = 1\n>>> x + 1\n3\n>>> x\n1\n```\n"
    assert refresh.renew_session(session, "page") == session.replace("3\n", "2\n")
