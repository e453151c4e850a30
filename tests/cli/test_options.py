"""What the options of all commands have in common."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unmask.cli.options import with_local_cluster

Run = Callable[..., Any]


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (["--ray"], ["--ray", "local"]),
        (["--ray", "--workers", "2"], ["--ray", "local", "--workers", "2"]),
        (["texts.txt", "--ray", "-o", "v.npy"], ["texts.txt", "--ray", "local", "-o", "v.npy"]),
        (["--ray", "-", "-o", "v.npy"], ["--ray", "local", "-", "-o", "v.npy"]),
        (["--ray", "auto"], ["--ray", "auto"]),
        (["--ray", "host:6379", "--json"], ["--ray", "host:6379", "--json"]),
        (["--ray=host:6379", "--json"], ["--ray=host:6379", "--json"]),
        (["--", "--ray"], ["--", "--ray"]),
        ([], []),
    ],
)
def test_ray_without_an_address_is_a_local_cluster(given: list[str], read: list[str]) -> None:
    assert with_local_cluster(given) == read


def test_a_bare_ray_gives_the_vectors_of_one_process(run: Run, bert: str, tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("the old man walks.\na dog is here.\n")
    here = run("embed", texts, "-m", bert, "-o", tmp_path / "here.npy")
    spread = run("embed", texts, "-m", bert, "-o", tmp_path / "spread.npy", "--ray")
    assert (here.code, spread.code) == (0, 0), spread.err
    np.testing.assert_allclose(np.load(tmp_path / "spread.npy"), np.load(tmp_path / "here.npy"), atol=1e-6)


@pytest.mark.parametrize("command", ["evaluate", "embed", "score"])
def test_help_shows_that_the_address_may_be_left_out(run: Run, command: str) -> None:
    assert "--ray [ADDRESS]" in run(command, "--help").out
