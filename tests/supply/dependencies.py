"""What `make` installs: the pins in constraints.txt, and the licences in docs/reference/licences.md.

`make pins` writes both from the packages that are installed here; a test tells when they are out of date.
"""

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
CONSTRAINTS = ROOT / "constraints.txt"
LICENCES = ROOT / "docs" / "reference" / "licences.md"
INSTALLED_BY_MAKE = ("dev", "docs")
BUILD = ("setuptools",)
"""What builds the package itself, and those that come as sources; `make` hands the pins on to it."""

HEAD = """\
# The versions that `make` installs, its build backend included; `make pins` renews them from what is
# installed. torch is the release whose CPU build is small and quick to install. pyproject.toml keeps the
# honest ranges for everyone else.
"""
PAGE = """\
# Licences of dependencies

This page lists every package that `make` installs, with the licence that its metadata states. unmask
itself is under Apache-2.0 and ships none of them. `pip install unmask` brings the packages marked as
core; the others belong to extras, tests and documentation. `make pins` renews the page.

| package | version | core | licence |
|---|---|---|---|
"""


def installed(*extras: str) -> dict[str, Distribution]:
    """Return unmask's dependencies with these extras, and theirs, by name."""
    found: dict[str, Distribution] = {}
    waiting = list(_required("unmask", frozenset(extras)))
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        name, wanted = waiting.pop()
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        if name != "unmask":
            try:
                found[name] = distribution(name)
            except PackageNotFoundError:
                continue  # it belongs to another platform, or is not installed here
        waiting += _required(name, wanted)
    return dict(sorted(found.items()))


def _required(name: str, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    if name == "unmask":  # what is installed may be older than the file
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        lines = [
            *project["dependencies"],
            *(one for e in extras for one in project["optional-dependencies"][e]),
        ]
    else:
        lines = requires(name) or []
    for line in lines:
        needed = Requirement(line)
        if needed.marker is None or any(needed.marker.evaluate({"extra": e}) for e in ("", *extras)):
            yield canonicalize_name(needed.name), frozenset(needed.extras)


def public(package: Distribution) -> str:
    """Return a version without its build, as 2.13.0 of 2.13.0+cpu."""
    return Version(package.version).public


def pins() -> str:
    """Return constraints.txt as it should be."""
    found = installed(*INSTALLED_BY_MAKE) | {name: distribution(name) for name in BUILD}
    lines = [f"{name}=={public(package)}" for name, package in sorted(found.items())]
    return HEAD + "\n".join(lines) + "\n"


def licences() -> str:
    """Return the page of licences as it should be."""
    core = installed()
    rows = [
        f"| {name} | {public(package)} | {'yes' if name in core else ''} | {licence(package)} |"
        for name, package in installed(*INSTALLED_BY_MAKE).items()
    ]
    return PAGE + "\n".join(rows) + "\n"


def licence(package: Distribution) -> str:
    """Return the licence that a package's metadata states: an expression, classifiers, or its first line."""
    about = package.metadata
    if about.get("License-Expression"):
        return str(about["License-Expression"])
    classified = [
        line.split(" :: ")[-1] for line in about.get_all("Classifier", []) if line.startswith("License")
    ]
    told = [name for name in classified if name not in ("OSI Approved", "DFSG approved")]
    first = next(iter((about.get("License") or "").strip().splitlines()), "")
    return re.sub(r"\s*\|\s*", " or ", "; ".join(told) or first[:80] or "not stated")


if __name__ == "__main__":
    CONSTRAINTS.write_text(pins())
    LICENCES.write_text(licences())
