"""`unmask sample`: texts drawn from a joint, or by Markov chains."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from unmask.cli import options as o
from unmask.cli.query_options import query_options
from unmask.cli.terminal import Bar, basis, percent, present, print_table, say
from unmask.errors import UsageError
from unmask.inference.query import SPECS, Query
from unmask.values import plural

Template = Annotated[
    str | None, typer.Argument(help="A text with blanks: [MASK], ___ or the model's own mask token.")
]
Named = Annotated[str | None, typer.Option("--template", help="The text with blanks, by name.")]
Length = Annotated[
    int | None, typer.Option("--length", help="Draw so many tokens instead of a text's blanks.")
]
Prefix = Annotated[str | None, typer.Option("--prefix", help="What stands before them, with --length.")]
Number = Annotated[
    int,
    typer.Option(
        "--number", "-n", min=1, help="How many fillings to draw (at least: Markov chains all draw as many)."
    ),
]
Sampler = Annotated[
    str, typer.Option("--sampler", help="joint or chain (exact), gibbs, block-gibbs or metropolis.")
]
Passes = Annotated[
    int | None,
    typer.Option(
        "--passes",
        help="Fill the blanks in so many forward passes: a share in each, joined by the pair head's tree.",
    ),
]
Chains = Annotated[int, typer.Option("--chains", help="Markov chains side by side.")]
BurnIn = Annotated[int, typer.Option("--burn-in", help="Sweeps before the first draw of a Markov chain.")]
Thin = Annotated[int, typer.Option("--thin", help="Sweeps between two draws of a Markov chain.")]
Energy = Annotated[
    str, typer.Option("--energy", help="The target of metropolis: mrf-prob (probabilities) or mrf-logit.")
]


MARKOV_OPTIONS = ("chains", "burn_in", "thin", "energy")
JOINT_OPTIONS = ("options", "completion", "include", "targets")
UNUSED = {
    "joint": MARKOV_OPTIONS,
    "chain": (*MARKOV_OPTIONS, "completion"),
    "gibbs": (*JOINT_OPTIONS, "energy", "method", "candidates"),
    "block-gibbs": (*JOINT_OPTIONS, "energy"),
    "metropolis": (*JOINT_OPTIONS, "method", "candidates"),
}
"""The options that mean nothing to a sampler."""
UNUSED_IN_PASSES = ("sampler", "method", "candidates", *MARKOV_OPTIONS, *JOINT_OPTIONS)
"""The options that mean nothing to `--passes`."""


@query_options(*[name for name in SPECS if name != "text"])
def sample(
    ctx: typer.Context,
    source: o.ModelOptions,
    text: Template = None,
    template: Named = None,
    length: Length = None,
    prefix: Prefix = None,
    number: Number = 10,
    sampler: Sampler = "joint",
    passes: Passes = None,
    chains: Chains = 4,
    burn_in: BurnIn = 50,
    thin: Thin = 10,
    energy: Energy = "mrf-prob",
    json: o.Json = False,
    **query: Any,
) -> None:
    """Draw texts: the blanks of a template, or so many tokens after a prefix."""
    if text is not None and template is not None:
        raise UsageError("the text is given twice, as an argument and as --template: leave one")
    if length is not None and length < 1:
        raise UsageError(f"expected to draw at least 1 token, got --length {length}")
    template = text if text is not None else template
    if passes is not None:
        if passes < 1:
            raise UsageError(f"expected at least 1 pass, got --passes {passes}")
        o.refuse_given(ctx, UNUSED_IN_PASSES, "has no effect with --passes: leave out one of them")
    if sampler not in UNUSED:
        raise UsageError(f"unknown sampler '{sampler}': expected one of {', '.join(UNUSED)}")
    o.refuse_given(
        ctx, UNUSED[sampler], f"has no effect with --sampler {sampler}: leave it out, or use another"
    )
    question, bar = _query(template, sampler, query), Bar()
    seed = question.seed
    mlm = source.open(bar)
    from unmask.inference import generation
    from unmask.inference.infer import infer
    from unmask.serialize import markov_chains_answer, passes_answer, sample_answer

    cloze = generation.cloze_of(mlm, template, length=length, prefix=prefix, truncate=question.truncate)
    if passes is not None:
        found = generation.sample_in_passes(mlm, cloze, question, passes=passes, number=number, progress=bar)
        present(passes_answer(found, mlm, seed), json, show)
        return
    if sampler in generation.MARKOV:
        run: dict[str, Any] = {"chains": chains, "burn_in": burn_in, "thin": thin, "energy": energy}
        draws = -(-number // max(1, chains))
        generated = generation.sample_by_markov_chain(
            mlm, cloze, sampler, question, draws=draws, progress=bar, **run
        )
        answer = markov_chains_answer(generated, mlm, sampler, {**run, "sampling_seed": seed})
        present(answer, json, show_chains)
        return
    present(sample_answer(infer(mlm, cloze, question, bar), mlm, number, seed), json, show)


def _query(template: str | None, sampler: str, given: dict[str, Any]) -> Query:
    """Return what is asked; the sampler `chain` joins its pairs by the method."""
    method, options = given["method"], given["options"]
    if sampler == "chain" and method not in ("ag", "chain"):
        if options.get("pairs", method) != method:
            raise UsageError(
                f"the chain's pairs are joined by --method {method} or by pairs={options['pairs']}: leave "
                f"out one of them"
            )
        options = options | {"pairs": method}
    return Query(
        template or "", **given | {"options": options, "method": "chain" if sampler == "chain" else method}
    )


def show(answer: dict[str, Any]) -> None:
    """Print the draws from a joint."""
    rows = [[percent(f["log_prob"]), "  ".join(f["tokens"]), f["text"]] for f in answer["samples"]]
    title = f"{plural(len(rows), 'sample')} from {answer['method']}, seed {answer['sampling_seed']}"
    print_table(title, ["probability", "tokens", "text"], rows, {0})
    say(basis(answer))


def show_chains(answer: dict[str, Any]) -> None:
    """Print the draws of Markov chains and how they fared."""
    rows = [[str(s["chain"]), f"{s['log_weight']:.3f}", s["text"]] for s in answer["samples"]]
    drawn, chains = plural(len(rows), "draw"), plural(answer["chains"], "chain")
    title = f"{drawn} by {answer['sampler']}, {chains}, seed {answer['sampling_seed']}"
    print_table(title, ["chain", "log-weight", "text"], rows, {0, 1})
    judged = [
        [name, _number(row["ess"]), "∞" if _stands_still(row) else _number(row["rhat"])]
        for name, row in answer["diagnostics"].items()
    ]
    title = f"have the chains settled? {answer['sweeps']} sweeps each after the burn-in"
    print_table(title, ["quantity", "effective sweeps", "R-hat"], judged, {1, 2})
    if answer["accept_rates"] is not None:
        say(
            "accepted: "
            + ", ".join(f"{100 * rate:.0f} %" for rate in answer["accept_rates"])
            + " of proposals"
        )
    say(f"{answer['model']}: {answer['passes']:,} forward passes")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _stands_still(row: dict[str, Any]) -> bool:
    """Whether R-hat is infinite: it is not told, and the chains have not settled."""
    return row["rhat"] is None and row["settled"] is False
