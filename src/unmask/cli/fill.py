"""`unmask fill`: the likeliest fillings of a text's blanks, jointly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from unmask.cli import options as o
from unmask.cli.compare import compare_all
from unmask.cli.query_options import query_options
from unmask.cli.terminal import Bar, basis, percent, present, print_table, say
from unmask.errors import UsageError
from unmask.inference.query import DEFAULTS, SPECS, Query

Words = Annotated[bool, typer.Option("--words", help="Each blank holds a whole word of one to three tokens.")]
Pieces = Annotated[
    int, typer.Option("--pieces", min=1, max=3, help="The most tokens of a word, with --words.")
]


@query_options(*SPECS)
def fill(
    ctx: typer.Context,
    source: o.ModelOptions,
    top: o.Top = 10,
    words: Words = False,
    pieces: Pieces = 3,
    json: o.Json = False,
    **query: Any,
) -> None:
    """Fill the blanks of a text jointly: one, two, or many."""
    if not words:
        o.refuse_given(ctx, ("pieces",), "is for whole words: give --words too, or leave it out")
    if query["method"] == "all":
        if words:
            raise UsageError(
                "--method all compares constructions, and --words has its own rule: leave out one"
            )
        if query["options"]:
            raise UsageError("--option is for one construction, and --method all takes them all: choose one")
        every = Query(**query | {"method": DEFAULTS["method"]})
        compare_all(every, source.open(Bar()), top, json)
        return
    if words:
        o.refuse_given(
            ctx,
            set(SPECS) - {"text", "truncate"},
            "has no effect with --words, which always uses the chain of single tokens: leave it out",
        )
        present(words_of(Query(**query), source.open(Bar()), top, pieces), json, show_words)
        return
    question, bar = Query(**query), Bar()
    mlm = source.open(bar)
    from unmask import api
    from unmask.serialize import fill_answer

    present(fill_answer(api.fill(question, mlm=mlm, progress=bar), mlm, top), json, show)


def words_of(query: Query, mlm: Any, top: int, pieces: int) -> dict[str, Any]:
    """Return the likeliest words of a text's blanks."""
    from unmask.inference.words import fill_words
    from unmask.serialize import words_answer
    from unmask.text.cloze import parse_blanks

    cloze = parse_blanks(query.text, mlm.vocabulary, mlm.window, truncate=query.truncate)
    return words_answer(fill_words(mlm, cloze, top=top, most_tokens=pieces, progress=Bar()), mlm)


def show_words(answer: dict[str, Any]) -> None:
    """Print words and their pieces."""
    blanks = len(answer["blank_positions"])
    title = f"words of 1 to {len(answer['prior'])} tokens in {blanks} blank{'s' if blanks > 1 else ''}"
    print_fillings(title, answer["fillings"], "+".join)
    say(f"{answer['model']}: the chain of single tokens, {answer['passes']:,} forward passes")


def print_fillings(title: str, fillings: list[dict[str, Any]], join: Callable[[Any], str]) -> None:
    """Print fillings as a table; `join` writes what one blank holds."""
    rows = [
        [
            str(i),
            percent(f["log_prob"]),
            f"{f['log_prob']:.3f}",
            "  ".join(map(join, f["tokens"])),
            f["text"],
        ]
        for i, f in enumerate(fillings, 1)
    ]
    columns, numbers = ["", "probability", "log", "tokens", "text"], {0, 1, 2}
    if any("unrestricted_log_prob" in filling for filling in fillings):
        columns.insert(3, "among all tokens")
        numbers.add(3)
        for row, filling in zip(rows, fillings, strict=True):
            row.insert(3, percent(filling["unrestricted_log_prob"]))
    print_table(title, columns, rows, numbers=numbers)


def show(answer: dict[str, Any]) -> None:
    """Print the fillings as a table."""
    blanks = len(answer["blank_positions"])
    title = (
        f"{answer['method']}: the joint of {blanks} blanks"
        if blanks > 1
        else "the model's answer for one blank"
    )
    if "targets_log_prob" in answer:
        title += ", among the targets"
    print_fillings(title, answer["fillings"], str)
    if answer["entropy"] is None:
        say(basis(answer))
        return
    line = f"entropy {answer['entropy']:.3f} nats"
    if blanks > 1:
        line += f", mutual information {answer['mutual_information']:.3f} nats"
    if answer["mass_outside_candidates"] is not None and answer["candidates"] != 0:
        line += f", {100 * answer['mass_outside_candidates']:.1f} % of the joint outside the candidates"
    if answer.get("targets_log_prob") is not None:
        line += f"; the targets hold {percent(answer['targets_log_prob'])} of the joint over all tokens"
    say(line)
    say(basis(answer))
