"""What the options of all commands have in common."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from unmask.cli import app
from unmask.cli.options import with_local_cluster

Run = Callable[..., Any]


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (["--ray"], ["--ray", "local"]),
        (["--ray", "--workers", "2"], ["--ray", "local", "--workers", "2"]),
        (["texts.txt", "--ray", "-o", "v.npy"], ["texts.txt", "--ray", "local", "-o", "v.npy"]),
        (["--ray", "-", "-o", "v.npy"], ["--ray", "local", "-", "-o", "v.npy"]),
        (["--ray", __file__, "-o", "v.npy"], ["--ray", "local", __file__, "-o", "v.npy"]),
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
    np.testing.assert_allclose(np.load(tmp_path / "spread.npy"), np.load(tmp_path / "here.npy"), atol=1e-5)


def commands(group: Any, path: str = "unmask") -> Iterator[tuple[str, Any]]:
    """Every command with its name, those of groups included."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def test_the_options_of_many_blanks_are_told_where_they_apply() -> None:
    for name, command in commands(typer.main.get_command(app)):
        told = {option.name: getattr(option, "help", "") or "" for option in command.params}
        if "method" in told and not name.startswith(("unmask benchmark", "unmask mutants")):
            assert "for three or more blanks also grid, chain or tree" in told["method"], name
        if "options" in told:
            assert "three or more blanks: order, block, beam, pairs" in told["options"], name
        assert "a side" not in told.get("candidates", ""), name


def test_a_short_flag_stands_for_the_same_option_in_every_command() -> None:
    meant: dict[str, dict[str, str]] = {}
    for name, command in commands(typer.main.get_command(app)):
        for option in command.params:
            for flag in option.opts[1:]:
                meant.setdefault(flag, {})[name] = option.opts[0]
    assert len(meant) >= 6
    for flag, by_command in meant.items():
        assert len(set(by_command.values())) == 1, (flag, by_command)


def test_what_has_a_short_flag_has_it_in_every_command() -> None:
    flags: dict[str, dict[str, str]] = {}
    for name, command in commands(typer.main.get_command(app)):
        for option in command.params:
            if option.opts[0].startswith("--"):
                flags.setdefault(option.opts[0], {})[name] = " ".join(option.opts[1:])
    for option, by_command in flags.items():
        assert len(set(by_command.values())) == 1, (option, by_command)


@pytest.mark.parametrize("command", ["evaluate", "embed", "score"])
def test_help_shows_that_the_address_may_be_left_out(run: Run, command: str) -> None:
    assert "--ray [ADDRESS]" in run(command, "--help").out
