"""`unmask explain`: why the joint answer differs from the independent one, on one text."""

from __future__ import annotations

import math
from typing import Any

from unmask.cli import options as o
from unmask.cli.query_options import query_options
from unmask.cli.terminal import Bar, basis, percent, present, print_table, say
from unmask.errors import UsageError
from unmask.inference.query import SPECS, Query
from unmask.values import plural


@query_options(*[name for name in SPECS if name != "targets"])
def explain(
    source: o.ModelOptions,
    json: o.Json = False,
    **query: Any,
) -> None:
    """Fill two blanks jointly and show what independent answers miss."""
    question, bar = Query(**query), Bar()
    if question.method == "product":
        raise UsageError("product is what the joint is compared with: name another --method")
    mlm = source.open(bar)
    from unmask import api
    from unmask.joints.pair import PairJoint
    from unmask.serialize import explain_answer

    joint = api.fill(question, mlm=mlm, progress=bar)
    if not isinstance(joint, PairJoint):
        count = plural(joint.blanks, "blank")
        raise UsageError(f"expected a text with two blanks to explain, got {count}: use unmask fill")
    present(explain_answer(joint, mlm), json, show)


def show(answer: dict[str, Any]) -> None:
    """Print the two answers side by side, and the model's own verdict on them."""
    independent, joint = answer["independent"], answer["joint"]
    rows = [
        ["each blank by itself", independent["text"], percent(independent["log_prob"])],
        ["both blanks jointly", joint["text"], percent(joint["log_prob"])],
    ]
    print_table("the likeliest filling", ["", "text", f"probability ({answer['method']})"], rows, numbers={2})
    if independent["ids"] == joint["ids"]:
        say("The two agree: the best token of each blank also goes with the best of the other.")
    else:
        for line in _verdict(independent, joint):
            say(line)
    gain = answer["mutual_information"]
    say(f"The mutual information of the blanks is {gain:.2f} nats; independent predictions take it to be 0.")
    say(basis(answer))


def _verdict(independent: dict[str, Any], joint: dict[str, Any]) -> list[str]:
    """Say which token the model takes back once it sees the other, and how much better the joint is."""
    first, second = independent["tokens"]
    changes = [
        (first, independent["first_alone"], independent["first_given_second"], second, "second"),
        (second, independent["second_alone"], independent["second_given_first"], first, "first"),
    ]
    token, alone, given, other, where = min(changes, key=lambda change: change[2] - change[1])
    times = math.exp(joint["model_log_score"] - independent["model_log_score"])
    shown = f"{times:,.0f}" if times >= 10 else f"{times:.2g}"
    return [
        f"With both blanks masked, the model gives '{token}' {percent(alone)}; "
        f"with '{other}' in the {where} blank, {percent(given)}.",
        f"The model's own p(a|b) p(b|a) is {shown} times higher for the joint answer.",
    ]
