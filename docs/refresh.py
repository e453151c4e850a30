"""Rewrite the printed output of every example that rests on the embedded model's weights, with the real one.

    python docs/refresh.py            rewrite README.md and the pages
    python docs/refresh.py --figures  and draw docs/figures anew

Renewed are all `$ unmask ...` commands in console blocks, and the `>>>` examples of the pages that load the
embedded model. Examples on tables written out in a page are left alone: no weights enter them, and if they
fail, the code is wrong or the page is.
"""

from __future__ import annotations

import doctest
import runpy
import sys
import tempfile
from pathlib import Path

import examples


def refresh(path: Path, directory: Path) -> bool:
    """Renew the examples of one page; returns whether anything changed."""
    before = path.read_text(encoding="utf-8")
    page = renew_commands(before, directory, path.name)
    if examples.rests_on_weights(page):
        page = renew_session(page, path.name)
    if page == before:
        return False
    path.write_text(page, encoding="utf-8")
    return True


def renew_commands(page: str, directory: Path, name: str) -> str:
    """Return the page with new output under each command."""
    lines = page.splitlines()
    shown = examples.files(page)
    for call in reversed(list(examples.calls(page))):
        reason = examples.why_not(call.command)
        if reason:
            print(f"{name}:{call.line + 1}: left as it is, {reason}: {call.command}")
            continue
        got = examples.run(call.command, directory, shown)
        if not examples.same("\n".join(lines[call.start : call.stop]), got):
            gap = [""] if call.stop < len(lines) and lines[call.stop].startswith("$ ") else []
            lines[call.start : call.stop] = [*got.splitlines(), *gap]
    return "\n".join(lines) + "\n"


def renew_session(page: str, name: str) -> str:
    """Return the page with new output under each `>>>` example that no longer prints what it did."""
    session = examples.python_session(page, name)
    if not session.examples:
        return page
    lines = page.splitlines()
    changes: list[tuple[int, int, list[str]]] = []

    class Runner(doctest.DocTestRunner):
        def report_failure(self, out, test, example, got):  # noqa: ARG002
            first = example.lineno + len(example.source.splitlines())
            new = got.splitlines()
            if example.exc_msg:  # of a traceback the pages show the first line and the last
                new = [new[0], new[-1]]
            changes.append((first, first + len(example.want.splitlines()), new))

        def report_unexpected_exception(self, out, test, example, exc_info):  # noqa: ARG002
            raise RuntimeError(f"{name}:{example.lineno + 1}: {example.source}") from exc_info[1]

    Runner(examples.Checker(), verbose=False, optionflags=examples.DOCTEST_FLAGS).run(
        session, out=lambda _: None
    )
    for first, stop, got in reversed(changes):
        lines[first:stop] = got
    return "\n".join(lines) + "\n"


def main() -> None:
    """Renew all pages, and the figures if that is asked for."""
    if not examples.EMBEDDED.is_file():
        raise SystemExit(f"no embedded model in {examples.EMBEDDED.parent}: nothing to renew with")
    with tempfile.TemporaryDirectory() as directory:
        for path in examples.pages():
            if refresh(path, Path(directory)):
                print(f"renewed {path.relative_to(examples.ROOT)}")
    if "--figures" in sys.argv:
        for script in sorted((examples.DOCS / "figures").glob("*.py")):
            runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main()
