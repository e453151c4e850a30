"""The results of docs/background/results-perplexity.md: bits per byte of sentences that no training saw.

    python recipes/bits_per_byte.py --data ../shared/data --work RUNS [--only snli ...] [--sentences 500]
    python recipes/bits_per_byte.py --tables                                     rewrite the pages only

By `chain`, by `ag-chain`, and by the average of the chain over 2, 4 and 8 orders. These are distributions
over the sequences of N tokens for a given N (`unmask.inference.sentence_scores`, `orders`). With the
distribution of N, log P(N) + log q_N(t), they are distributions over sequences of any length; P(N) is counted
in the other half of the sentences.

Bits per byte are sums over sums: all bits of a data set, divided by all of its bytes. The bytes are those of
the text as the model's tokenizer normalises it: an uncased model is not asked for capitals or accents.
Intervals are bootstrapped over sentences, of the ratio's linear part.

A killed run is resumed. Numbers go to docs/figures/bits_per_byte.json as they come.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from command import ROOT, parser_of, show
from numpy.typing import NDArray
from pages import markdown
from provenance import MADE, read, shown, stamp, write
from scipy.special import logsumexp

import unmask
from unmask.cli.terminal import Ticker
from unmask.evaluation.intervals import Estimate, intervals
from unmask.evaluation.intervals import shown as with_interval
from unmask.evaluation.keyed_tasks import Record, Task, run_tasks
from unmask.evaluation.sentences import read_sentences
from unmask.inference.lengths import counted
from unmask.inference.scorable import TextReader
from unmask.inference.sentence_scores import SentenceScorer
from unmask.models.digests import weights_digest
from unmask.runs.settings_record import RunKind
from unmask.text.support import Support

RESULTS = ROOT / "docs" / "figures" / "bits_per_byte.json"
PAGES = [
    ROOT / "docs" / "background" / "results-perplexity.md",
    ROOT / "docs" / "how-to" / "compare-with-causal-models.md",
]
FIGURE = """```{figure} ../figures/bits_per_byte.svg
:alt: Bits per byte by the number of orders, and the gain of each method over the chain, on three data sets.
:width: 100%
```"""
"""What `python docs/figures/bits_per_byte.py` draws."""
KIND = RunKind("bits per byte of sentences")
DATA = {"snli": "SNLI dev", "xsum": "XSum", "wikipedia": "Wikipedia, held out"}
ORDERS = (1, 2, 4, 8)
"""The average over the first n of the most orders; one order is the chain."""
METHODS = {
    "chain": "`chain`",
    "ag-chain": "`ag-chain`",
    **{f"orders-{n}": f"the average over {n} orders" for n in ORDERS[1:]},
}
SHORTEST, LONGEST = 5, 40
"""Words of a sentence."""
LINES_AT_ONCE = 8
BIT = math.log(2)


def texts_of(name: str, data: Path) -> list[str]:
    """Return the distinct sentences of a data set, none of which was trained on."""
    if name == "wikipedia":
        from measure_losses import eval_documents

        from unmask.training.sentences import sentences

        paragraphs = [p for document in eval_documents(data)["wikipedia"] for p in document]
        found = [one for paragraph in paragraphs for one in sentences(paragraph)]
    else:
        file = data / {"snli": "snli/dev.tsv", "xsum": "xsum/summaries.txt"}[name]
        found = read_sentences(f"{name}={file}").texts
    return [text for text in dict.fromkeys(found) if SHORTEST <= len(text.split()) <= LONGEST]


def tasks_of(
    name: str, texts: Sequence[str], mlm: unmask.MaskedLM, count: int
) -> tuple[list[Task], dict[str, int]]:
    """Draw sentences; those that the model cannot spell, or read at once, are left out and counted."""
    read_text = TextReader(mlm, Support.everything(mlm.vocabulary))
    tasks: list[Task] = []
    left = {"unknown characters": 0, "longer than the window": 0}
    for text in random.Random(f"bits per byte {name}").sample(list(texts), len(texts)):
        found = read_text(text)
        if found.sentence is None or found.note is not None:
            left["longer than the window" if found.sentence is None else "unknown characters"] += 1
            continue
        tasks.append({"key": f"{name}:{len(tasks)}", "text": text})
        if len(tasks) == count:
            break
    return tasks, left


class Scorer:
    """Turns sentences into their log-probabilities, in nats, by every method."""

    def __init__(self, mlm: unmask.MaskedLM) -> None:
        support = Support.everything(mlm.vocabulary)
        self._read = TextReader(mlm, support)
        self._chains = SentenceScorer(mlm, ["chain", "ag-chain"], support=support, orders=max(ORDERS))

    def __call__(self, tasks: list[Task]) -> list[Record]:
        """Score some sentences."""
        sentences = [self._read(task["text"]).sentence for task in tasks]
        assert all(sentence is not None for sentence in sentences)
        found = self._chains([sentence for sentence in sentences if sentence is not None])
        return [
            task
            | {
                "tokens": len(chain.log_probs),
                "ag-chain": pairs.log_prob,
                "orders": list(chain.by_order),
            }
            for task, chain, pairs in zip(tasks, found["chain"], found["ag-chain"], strict=True)
        ]


def with_bytes(records: Sequence[Record], tokenizer: Any) -> list[Record]:
    """Add the bytes of each text as its tokenizer normalises it: no capitals for an uncased one."""
    known = tokenizer.backend_tokenizer.normalizer
    texts = [r["text"] if known is None else known.normalize_str(r["text"]) for r in records]
    return [r | {"bytes": len(text.encode())} for r, text in zip(records, texts, strict=True)]


def log_probs(record: Record) -> dict[str, float]:
    """Return a sentence's log-probability by every method, in nats."""
    averages = {n: float(logsumexp(record["orders"][:n]) - math.log(n)) for n in ORDERS}
    return {
        "chain": averages[1],
        "ag-chain": record["ag-chain"],
        **{f"orders-{n}": averages[n] for n in ORDERS[1:]},
    }


def length_log_probs(lengths: Sequence[int]) -> list[float]:
    """Return log P(N) of each sentence, counted in the half of the sentences that it is not in."""
    halves = [counted(lengths[(half + 1) % 2 :: 2]) for half in range(2)]
    return [halves[n % 2].log_prob(length) for n, length in enumerate(lengths)]


def ratio(amounts: NDArray[np.float64], sizes: NDArray[np.float64]) -> list[dict[str, float]]:
    """Return the sum of amounts [sentences, columns] per sum of sizes, with intervals.

    A ratio of sums is, to first order, the mean of (amount - ratio × size) / mean size about itself.
    """
    value = amounts.sum(0) / sizes.sum()
    mean, low, high = intervals((amounts - sizes[:, None] * value) / sizes.mean())
    return [
        {"value": float(v), "low": float(v + a - m), "high": float(v + b - m)}
        for v, m, a, b in zip(value, mean, low, high, strict=True)
    ]


def summary(records: Sequence[Record]) -> dict[str, Any]:
    """Return bits per byte and perplexity per token of a data set by every method, and gains over `chain`."""
    nats = np.array([[-log_probs(r)[m] for m in METHODS] for r in records])
    of_length = -np.array(length_log_probs([r["tokens"] for r in records]))
    sizes, tokens = (np.array([float(r[name]) for r in records]) for name in ("bytes", "tokens"))
    given_length = ratio(nats / BIT, sizes)
    any_length = ratio((nats + of_length[:, None]) / BIT, sizes)
    gains = ratio((nats[:, :1] - nats) / BIT, sizes)
    per_token = ratio(nats, tokens)
    return {
        "sentences": len(records),
        "bytes": int(sizes.sum()),
        "tokens": int(tokens.sum()),
        "methods": {
            method: {
                "bits_per_byte": given_length[i],
                "bits_per_byte_with_length": any_length[i],
                "gain": gains[i],
                "perplexity_per_token": {end: math.exp(v) for end, v in per_token[i].items()},
            }
            for i, method in enumerate(METHODS)
        },
    }


def measure(name: str, options: argparse.Namespace, mlm: unmask.MaskedLM) -> dict[str, Any]:
    """Score the sentences of a data set, or resume."""
    tasks, left = tasks_of(name, texts_of(name, options.data), mlm, options.sentences)
    settings = {"model": mlm.name, "weights": weights_digest(mlm.name), "orders": max(ORDERS)}
    records = run_tasks(
        KIND,
        tasks,
        lambda: Scorer(unmask.load(device="cpu")),
        settings,
        batch=LINES_AT_ONCE,
        out=options.work / f"{name}.jsonl",
        ray=options.ray,
        progress=Ticker("sentences"),
        stage="sentences",
    )
    return summary(with_bytes(records, mlm.tokenizer)) | {"left_out": left}


def tables(found: dict[str, Any]) -> dict[str, str]:
    """Return what the pages show, from the data sets that there are."""
    there = [name for name in DATA if name in found]
    if not there:
        return {}
    rows, gains = [], []
    for name in there:
        for method, label in METHODS.items():
            said = found[name]["methods"][method]
            numbers = [said[key] for key in ("bits_per_byte", "bits_per_byte_with_length")]
            cells = [with_interval(Estimate(**number), 1, 3) for number in numbers]
            cells.append("" if method == "chain" else with_interval(Estimate(**said["gain"]), 1, 3))
            cells.append(f"{said['perplexity_per_token']['value']:#.3g}".rstrip("."))
            rows.append([DATA[name], label, *cells])
        average = found[name]["methods"][f"orders-{ORDERS[-1]}"]["gain"]
        gains.append(f"{with_interval(Estimate(**average), 1, 3)} on {DATA[name]}")
    heads = [
        "sentences",
        "by",
        "bits per byte, N given",
        "with N",
        "gain over `chain`",
        "perplexity per token",
    ]
    return {
        "table": markdown(heads, rows, left=2),
        "answer": _answer(found, there),
        "orders": f"Over many sentences, {ORDERS[-1]} orders save the embedded model, in bits per byte: "
        f"{', '.join(gains)} ([all numbers](../background/results-perplexity.md)).",
        "figure": FIGURE,
        "source": _source(found, there),
    }


def _answer(found: dict[str, Any], there: Sequence[str]) -> str:
    """Say which method has the fewest bits on each data set, and whether that is more than chance."""
    lines = []
    for name in there:
        methods = found[name]["methods"]
        best = min(methods, key=lambda m: methods[m]["bits_per_byte"]["value"])
        gain = methods[best]["gain"]
        least = f"{methods[best]['bits_per_byte']['value']:.3f} bits per byte by {METHODS[best]}"
        if best == "chain":
            lines.append(f"- **{DATA[name]}**: {least}; nothing is better.")
        else:
            clear = "clear of chance" if gain["low"] > 0 else "not clear of chance"
            told = with_interval(Estimate(**gain), 1, 3)
            lines.append(f"- **{DATA[name]}**: {least}, {told} fewer than `chain`, {clear}.")
    return "\n".join(lines)


def _source(found: dict[str, Any], there: Sequence[str]) -> str:
    sizes = []
    for name in there:
        one, left = found[name], sum(found[name]["left_out"].values())
        sizes.append(
            f"{DATA[name]}: {one['sentences']:,} sentences, {one['tokens']:,} tokens, {one['bytes']:,} bytes "
            f"({left:,} left out; {shown(found.get(MADE, {}).get(name))})"
        )
    return f"`python recipes/bits_per_byte.py`. {'; '.join(sizes)}."


def main() -> None:
    """Do what is asked for, and rewrite the pages."""
    parser = parser_of(__doc__, "bits_per_byte", list(DATA))
    parser.add_argument("--sentences", type=int, default=500, help="of each data set")
    options = parser.parse_args()
    out = options.out or RESULTS
    options.work.mkdir(parents=True, exist_ok=True)
    for name in () if options.tables else options.only:
        made = stamp(pair_head=False)
        found = measure(name, options, unmask.load(device="cpu"))
        write(out, read(out) | {name: found}, {name: made})
    show(tables(read(out)), PAGES, "bits_per_byte", options.out)


if __name__ == "__main__":
    main()
