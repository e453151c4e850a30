"""`unmask models`: the models that come with the package."""

from __future__ import annotations

from dataclasses import asdict

from unmask.cli import options as o
from unmask.cli.terminal import print_json, print_table, say
from unmask.memory import show_bytes


def models(json: o.Json = False) -> None:
    """List the embedded models; any Hugging Face checkpoint with an MLM head works beside them."""
    from unmask.models.embedded import embedded

    found = embedded()
    if json:
        print_json({"models": [{**asdict(m), "directory": str(m.directory)} for m in found]})
        return
    rows = [
        [
            m.name,
            m.architecture,
            f"{m.vocabulary:,}",
            f"{m.window}",
            show_bytes(m.bytes),
            m.licence,
            m.summary,
        ]
        for m in found
    ]
    columns = ["name", "type", "vocabulary", "window", "size", "licence", ""]
    print_table("embedded models", columns, rows, numbers={2, 3, 4})
    say("Any checkpoint with an MLM head works too: --model DIRECTORY or --model HUB/NAME.")
