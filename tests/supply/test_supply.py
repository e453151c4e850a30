"""What is installed is what is pinned, its licences are listed, and no checkpoint runs code."""

import ast
import re
import tomllib
from pathlib import Path

import dependencies
import pytest
from packaging.requirements import Requirement

import unmask

SOURCES = sorted(Path(unmask.__file__).parent.rglob("*.py"))


def test_everything_that_make_installs_is_pinned_to_what_is_installed() -> None:
    assert dependencies.CONSTRAINTS.read_text() == dependencies.pins(), "run `make pins`"


def test_the_pins_are_within_the_ranges_of_the_package() -> None:
    pinned = dict(re.findall(r"^([\w.-]+)==(.+)$", dependencies.CONSTRAINTS.read_text(), re.MULTILINE))
    project = tomllib.loads((dependencies.ROOT / "pyproject.toml").read_text())["project"]
    lines = [
        *project["dependencies"],
        *(one for extra in project["optional-dependencies"].values() for one in extra),
    ]
    ranges = [Requirement(line) for line in lines]
    checked = [needed for needed in ranges if needed.name in pinned]
    assert len(checked) > 20
    assert [str(n) for n in checked if not n.specifier.contains(pinned[n.name], prereleases=True)] == []


def test_the_licences_are_listed() -> None:
    assert dependencies.LICENCES.read_text() == dependencies.licences(), "run `make pins`"
    assert "not stated" not in dependencies.LICENCES.read_text()


def _calls(path: Path) -> list[ast.Call]:
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]


def test_no_code_of_a_checkpoint_is_ever_trusted() -> None:
    """`trust_remote_code` is nowhere given as anything but False."""
    trusted = [
        path.name
        for path in SOURCES
        for call in _calls(path)
        for keyword in call.keywords
        if keyword.arg == "trust_remote_code" and getattr(keyword.value, "value", None) is not False
    ]
    assert trusted == []
    assert not any('"trust_remote_code"] = True' in path.read_text() for path in SOURCES)


@pytest.mark.parametrize("name", ["pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"])
def test_nothing_that_unpickles_is_imported(name: str) -> None:
    pattern = re.compile(rf"^\s*(import|from) {name}\b", re.MULTILINE)
    assert [path.name for path in SOURCES if pattern.search(path.read_text())] == []


def test_torch_loads_weights_only() -> None:
    """Whatever torch.load opens, and only by the name of --allow-pickle or from a run's own checkpoints."""
    loads = [
        (path.name, {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords})
        for path in SOURCES
        for call in _calls(path)
        if ast.unparse(call.func) == "torch.load"
    ]
    assert all(keywords.get("weights_only") == "True" for _, keywords in loads), loads
