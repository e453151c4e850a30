"""`unmask compare`: every construction side by side for one text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unmask.cli import options as o
from unmask.cli.query_options import query_options
from unmask.cli.terminal import Bar, basis, percent, present, print_table, say
from unmask.inference.query import Query

if TYPE_CHECKING:
    from unmask.models.masked_lm import MaskedLM


@query_options("text", "candidates", "completion", "support", "include", "targets", "seed", "truncate")
def compare(
    source: o.ModelOptions,
    top: o.Top = 3,
    json: o.Json = False,
    **query: Any,
) -> None:
    """Show what every construction makes of one text with two blanks."""
    compare_all(Query(**query), source.open(Bar()), top, json)


def compare_all(query: Query, mlm: MaskedLM, top: int, json: bool) -> None:
    """Make every construction's joint and print them side by side."""
    from unmask import api
    from unmask.serialize import compare_answer

    answer = compare_answer(api.compare(query, mlm=mlm, progress=Bar()), mlm, top, Bar())
    present(answer, json, show)


def show(answer: dict[str, Any]) -> None:
    """Print one row a construction."""
    rows = []
    for name, row in answer["methods"].items():
        fillings = ", ".join(f"{' '.join(f['tokens'])} ({percent(f['log_prob'])})" for f in row["fillings"])
        numbers = (row["entropy"], row["mutual_information"], row["kl_from_product"], row["average_kl"])
        rows.append([name, *(f"{n:.3f}" for n in numbers), fillings])
    columns = ["method", "entropy", "mutual inf.", "KL from product", "A-KL", "top fillings"]
    print_table("constructions of the joint, in nats", columns, rows, numbers={1, 2, 3, 4})
    say(
        "KL from product: disagreement with the independent answer. "
        "A-KL: distance of the joint's conditionals from the model's."
    )
    among_targets = any("unrestricted_log_prob" in f for f in answer["methods"]["product"]["fillings"])
    over = "all" if among_targets else " × ".join(f"{size:,}" for size in answer["support_sizes"])
    say(
        f"incompatibility of the model's conditionals over {over} tokens: {answer['incompatibility']:.3f} "
        f"(0 if they came from one joint, larger is worse)"
    )
    say(basis(answer))
