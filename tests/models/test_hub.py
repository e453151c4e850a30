"""Without a network a hub name is refused soon, or opened from what was downloaded before."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from unmask.models.hub import reachable

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def closed() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def test_a_server_that_takes_a_connection_is_within_reach(listening: int) -> None:
    assert reachable(f"http://127.0.0.1:{listening}")


def test_one_that_refuses_it_or_has_no_address_is_not(closed: int) -> None:
    assert not reachable(f"http://127.0.0.1:{closed}")
    assert not reachable("https://nowhere.invalid")


def test_a_slow_look_up_of_the_name_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: time.sleep(3) or [])
    begun = time.monotonic()
    assert not reachable("https://huggingface.co", patience=0.2)
    assert time.monotonic() - begun < 2


@pytest.mark.parametrize("form", ["http://127.0.0.1:{}", "127.0.0.1:{}"])
def test_behind_a_proxy_the_proxy_is_asked(
    monkeypatch: pytest.MonkeyPatch, listening: int, closed: int, form: str
) -> None:
    monkeypatch.setenv("https_proxy", form.format(listening))
    assert reachable("https://nowhere.invalid")
    monkeypatch.setenv("https_proxy", form.format(closed))
    assert not reachable("https://nowhere.invalid")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert reachable(f"https://127.0.0.1:{listening}")


def load(name: str, closed: int, home: Path) -> subprocess.CompletedProcess[str]:
    """Open a hub name in a process of its own, in which the hub is switched on and out of reach."""
    environment = {name: value for name, value in os.environ.items() if "OFFLINE" not in name}
    environment |= {"HF_ENDPOINT": f"http://127.0.0.1:{closed}", "HF_HOME": str(home)}
    command = "import sys; sys.argv = ['unmask', 'fill', 'a [MASK]', '-m'"
    command += f", {name!r}]; from unmask.cli import main; main()"
    return subprocess.run([sys.executable, "-c", command], env=environment, capture_output=True, text=True)


def test_a_name_that_was_never_downloaded_is_refused_in_one_line(closed: int, tmp_path: Path) -> None:
    done = load("nobody/has-this", closed, tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        f"unmask: 'nobody/has-this' is no directory here, the hub (http://127.0.0.1:{closed}) is out of "
        f"reach, and nothing was downloaded from it under that name before: check the network, or give a "
        f"directory\n"
    )


def test_one_that_was_downloaded_is_opened(
    closed: int, tmp_path: Path, checkpoint: Callable[[str], Path]
) -> None:
    kept = tmp_path / "hub" / "models--somebody--bert"
    shutil.copytree(checkpoint("bert"), kept / "snapshots" / "abc")
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text("abc")
    done = load("somebody/bert", closed, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "the model's answer for one blank" in done.stdout
