"""The figures of docs/background/reliability.md, which three commands measure.

    make fuzz      odd calls of every public surface (tests/fuzz/campaign.py)
    make torture   kills of every kind of run (tests/runs/torture.py)
    make siege     the server under siege (benchmarks/siege.py)

Each keeps its figures in docs/figures/reliability.json and renews its table of the page.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pages import markdown, renew

DOCS = Path(__file__).parents[1] / "docs"
RESULTS = DOCS / "figures" / "reliability.json"
PAGE = DOCS / "background" / "reliability.md"


def keep(part: str, figures: dict[str, Any], results: Path = RESULTS) -> None:
    """Put the figures of one command into the file, with the date; those of the page renew the page, too."""
    found = json.loads(results.read_text(encoding="utf-8")) if results.exists() else {}
    found[part] = {"date": datetime.now(UTC).date().isoformat()} | figures
    results.write_text(json.dumps(dict(sorted(found.items())), indent=1) + "\n", encoding="utf-8")
    if results == RESULTS:
        renew(PAGE, "reliability", tables(found))


def tables(found: dict[str, Any]) -> dict[str, str]:
    """Return the tables of what was measured, by name."""
    makers = {"fuzz": _fuzz, "torture": _torture, "siege": _siege}
    return {name: make(found[name]) for name, make in makers.items() if name in found}


def _fuzz(found: dict[str, Any]) -> str:
    rows = [
        [name, f"{row['answers']:,}", f"{row['refusals']:,}", f"{row['slowest_seconds']:.1f} s"]
        for name, row in found["surfaces"].items()
    ]
    total = [f"{found['answers']:,}", f"{found['refusals']:,}", f"{found['slowest_seconds']:.1f} s"]
    told = (
        f"{found['cases']:,} cases, {found['date']}: {found['finds']} exceptions of others, unclear lines or "
        f"hangs."
    )
    heads = ["surface", "answers", "refusals in one line", "slowest call"]
    return f"{told}\n\n{markdown(heads, [*rows, ['all', *total]])}"


def _torture(found: dict[str, Any]) -> str:
    names = ("kills", "torn", "lost", "twice", "different")
    rows = [[kind, *(str(row[name]) for name in names)] for kind, row in found["kinds"].items()]
    total = [f"**{found[name]}**" for name in names]
    heads = ["run", "kills", "records torn", "lost", "twice", "other result"]
    return f"{found['date']}, {found['seconds']} s.\n\n{markdown(heads, [*rows, ['**all**', *total]])}"


def _siege(found: dict[str, Any]) -> str:
    statuses = found["statuses"]
    before, first, after = found["question_seconds_before_first_after"]
    low, high = found["memory_mb"]
    answers = [
        f"{client}: {', '.join(f'{count:,} × {status}' for status, count in counts.items())}"
        for client, counts in statuses.items()
    ]
    rows = [
        ["clients", f"{found['clients']}, for {found['seconds']:g} s"],
        ["statuses", "; ".join(answers)],
        ["different questions held against the library", f"{found['questions_checked']:,}"],
        ["wrong answers", str(found["wrong"])],
        ["5xx but 503", str(found["other_5xx"])],
        [
            "largest memory, middle and last third",
            f"{low:,} and {high:,} MB ({found['memory_growth']:.3f} times)",
        ],
        ["of which caches", " and ".join(f"{held:,}" for held in found["caches_mb"]) + " MB"],
        ["a question before; the first afterwards; later ones", f"{before:.2f}, {first:.2f}, {after:.2f} s"],
    ]
    return f"{found['date']}, {found['machine']}.\n\n{markdown(['what', 'measured'], rows, left=2)}"
