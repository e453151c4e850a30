"""`unmask serve` from the command line: it starts, says where, ends cleanly, and refuses in one line."""

import os
import re
import signal
import socket
import subprocess
import sys
import time

import httpx
import pytest

from unmask.cli import main
from unmask.cli.serve import parse_models
from unmask.errors import UsageError

COMMAND = [sys.executable, "-c", "from unmask.cli import main; main()", "serve", "--port", "0"]


@pytest.fixture
def refused(capsys, monkeypatch):
    """Run the command in this process, and return its exit code and its line."""

    def run(*options: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["unmask", "serve", *options])
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capsys.readouterr()
        assert out == ""
        assert err.count("\n") == 1
        return end.value.code, err

    return run


def test_from_the_command_to_a_page_that_answers(settings):
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    source = settings().models["tiny"]
    with subprocess.Popen(
        [*COMMAND, "--model", f"tiny={source}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    ) as server:
        try:
            line = server.stdout.readline()
            (address,) = re.findall(r"http://127\.0\.0\.1:\d+", line)
            page = httpx.get(f"{address}/", timeout=60)
            assert "unmask explorer" in page.text
            answer = httpx.post(f"{address}/v1/fill", json={"text": "The [MASK] is."}, timeout=60)
            assert answer.json()["model"] == "tiny"
        finally:
            server.send_signal(signal.SIGINT)
            start = time.monotonic()
            out, err = server.communicate(timeout=30)
        assert time.monotonic() - start < 10
        assert server.returncode in (0, 130)
        assert "Traceback" not in out + err


def test_a_model_that_cant_be_loaded_ends_it_with_one_line(tmp_path):
    ended = subprocess.run(
        [*COMMAND, "--model", f"broken={tmp_path / 'nothing'}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode in (1, 2)
    assert "nothing" in ended.stderr
    assert ended.stderr.startswith("unmask: ")
    assert "Traceback" not in ended.stderr


def test_a_taken_port_is_told(refused):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, line = refused("--port", str(taken.getsockname()[1]))
    assert code == 1
    assert "choose another --port" in line


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--model", "=x"), "expected a model as NAME or NAME=DIRECTORY, got '=x'"),
        (("--model", "a", "--model", "a=b"), "two models are named 'a'"),
        (("--cache", "lots"), "expected an amount of memory such as 4GB"),
        (("--memory", "0"), "expected a positive amount of memory"),
        (("--workers", "0"), "--workers"),
        (("--port", "70000"), "--port"),
    ],
)
def test_a_usage_error_is_one_line(refused, options, line):
    code, said = refused(*options)
    assert code == 2
    assert line in said


def test_models_are_named_or_given_a_name():
    assert parse_models(["english", "mine=/some/where"]) == {"english": "english", "mine": "/some/where"}
    with pytest.raises(UsageError, match="NAME=DIRECTORY"):
        parse_models(["mine="])


def test_without_the_extra_it_says_what_to_install(refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "fastapi", None)
    code, line = refused()
    assert code == 1
    assert "pip install 'unmask[serve]'" in line
