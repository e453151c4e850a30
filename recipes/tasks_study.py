"""The results of docs/background/results-tasks.md: does the joint help tasks? Nothing is trained.

    python recipes/tasks_study.py --data ../shared/data --work RUNS [--only entities sentiment rte]
    python recipes/tasks_study.py --tables                                       rewrite the page only

*entities*: named entities of two to four tokens (Wikigold, WNUT-17) are blanked out and filled by independent
answers, the chain from left to right, the chain of `ag` pairs, the tree, and the tree from one pass by the
pair head. None of them knows the truth beforehand: each is a distribution over all fillings.

*sentiment*, *rte*: a label is a phrase of two tokens in a prompt (`tasks_prompts.py`); its score is the
probability of the phrase under independent answers, `l2r`, `r2l`, `ag`, and `ag` from one pass.

Methods are compared on the same examples: differences have paired intervals by bootstrap. A killed run is
resumed. Numbers go to docs/figures/tasks_study.json as they come.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from command import ROOT, parser_of, show
from pages import markdown
from provenance import MADE, read, shown, stamp, write
from tasks_entities import METHODS as FILLERS
from tasks_entities import Filler, entity_tasks
from tasks_prompts import METHODS as SCORERS
from tasks_prompts import PROMPTS, PromptScorer, auc, margins, prompt_tasks

import unmask
from unmask.cli.terminal import Ticker
from unmask.evaluation.intervals import LEVEL, RESAMPLES, SEED, Estimate, intervals
from unmask.evaluation.intervals import shown as with_interval
from unmask.evaluation.keyed_tasks import Record, run_tasks
from unmask.models.digests import weights_digest
from unmask.runs.settings_record import RunKind

RESULTS = ROOT / "docs" / "figures" / "tasks_study.json"
PAGE = ROOT / "docs" / "background" / "results-tasks.md"
FIGURE = """```{figure} ../figures/tasks_study.svg
:alt: Gains over independent answers: log-probability and recall of names, AUC of labels, with intervals.
:width: 100%
```"""
"""What `python docs/figures/tasks_study.py` draws."""
KIND = RunKind("study of tasks")
PARTS = ("entities", *PROMPTS)
TITLES = {"sentiment": "SST", "rte": "RTE"}
BASE = "independent"
CHANCE = 0.5
Numbers = dict[str, float]


def measure(part: str, options: argparse.Namespace, mlm: unmask.MaskedLM) -> dict[str, Any]:
    """Ask every method about the examples of one part, or resume."""
    tasks, left = (
        entity_tasks(mlm, options.data, options.entities)
        if part == "entities"
        else prompt_tasks(part, mlm, options.data, options.examples)
    )

    def make_worker() -> Any:
        known = unmask.load(device="cpu")  # on a cluster each worker loads it
        return Filler(known) if part == "entities" else PromptScorer(known, part)

    settings = {"model": mlm.name, "weights": weights_digest(mlm.name), "part": part}
    records = run_tasks(
        KIND,
        tasks,
        make_worker,
        settings,
        batch=4,
        out=options.work / f"{part}.jsonl",
        ray=options.ray,
        progress=Ticker("examples"),
        stage="examples",
    )
    summarise = entity_summary if part == "entities" else partial(prompt_summary, part)
    return summarise(records) | {"left_out": left}


def entity_summary(records: Sequence[Record]) -> dict[str, Any]:
    """Return recalls and log-probabilities by the number of tokens, and gains over independent answers."""
    found = {}
    for blanks in ("all", *sorted({r["blanks"] for r in records})):
        here = [r for r in records if blanks in ("all", r["blanks"])]
        ranks = [[r["answers"][m]["rank"] for m in FILLERS] for r in here]
        log_q = np.array([[r["answers"][m]["log_prob"] for m in FILLERS] for r in here])
        numbers = {"log_prob": log_q}
        for k in (1, 10):
            hits = [[float(n is not None and n <= k) for n in row] for row in ranks]
            numbers[f"recall@{k}"] = np.array(hits)
        found[str(blanks)] = {"examples": len(here)} | {
            name: _compared(values, tuple(FILLERS)) for name, values in numbers.items()
        }
    return {"blanks": found}


def prompt_summary(part: str, records: Sequence[Record]) -> dict[str, Any]:
    """Return the accuracy and the AUC of every prompt and set of labels by method."""
    found: dict[str, Any] = {}
    for prompt in PROMPTS[part].texts:
        here = [r for r in records if r["prompt"] == prompt]
        truth = np.array([r["label"] == PROMPTS[part].positive for r in here])
        for name, labels in PROMPTS[part].labels.items():
            scores = np.array([[margins(r["scores"][m], labels) for m in SCORERS] for r in here])
            right = ((scores > 0) == truth[:, None]).astype(float)
            found.setdefault(prompt, {})[name] = {
                "examples": len(here),
                "accuracy": _compared(right, tuple(SCORERS)),
                "auc": _compared_auc(scores, truth, tuple(SCORERS)),
            }
    return {"prompts": found}


def _compared(values: Any, names: tuple[str, ...]) -> dict[str, dict[str, Numbers]]:
    """Return the mean of each column [examples, methods] and its difference from the base, paired."""
    base = names.index(BASE)
    both = intervals(np.concatenate([values, values - values[:, [base]]], axis=1))
    return _named(names, both.mean, both.low, both.high)


def _compared_auc(scores: Any, truth: Any, names: tuple[str, ...]) -> dict[str, dict[str, Numbers]]:
    """Return the area under the ROC curve of each column and its difference from the base, paired."""
    rng, base = np.random.default_rng(SEED), names.index(BASE)

    def of(rows: Any) -> Any:
        each = np.array([auc(scores[rows, i], truth[rows]) for i in range(len(names))])
        return np.concatenate([each, each - each[base]])

    places = [np.flatnonzero(truth == which) for which in (True, False)]
    # by class, so that a resample has both
    drawn = [of(np.concatenate([rng.choice(p, len(p)) for p in places])) for _ in range(RESAMPLES)]
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return _named(names, of(np.arange(len(truth))), low, high)


def _named(names: tuple[str, ...], value: Any, low: Any, high: Any) -> dict[str, dict[str, Numbers]]:
    numbers = zip(value, low, high, strict=True)
    ends = [{"value": float(v), "low": float(a), "high": float(b)} for v, a, b in numbers]
    return {name: {"value": ends[i], "gain": ends[i + len(names)]} for i, name in enumerate(names)}


def tables(found: dict[str, Any]) -> dict[str, str]:
    """Return what the page shows, from the parts that there are."""
    made = {}
    if "entities" in found:
        made["entities"] = entity_table(found["entities"]["blanks"])
        made["entities-answer"] = _answer(
            {"log-probability": found["entities"]["blanks"]["all"]["log_prob"]}
            | {"recall@1": found["entities"]["blanks"]["all"]["recall@1"]},
            FILLERS,
        )
    for part in (part for part in PROMPTS if part in found):
        made[part] = prompt_table(part, found[part]["prompts"])
        sets = [
            (f"“{prompt}”, {labels}", said["auc"])
            for prompt, by in found[part]["prompts"].items()
            for labels, said in by.items()
        ]
        made[f"{part}-answer"] = _answer(dict(sets), SCORERS)
    sources = [
        f"{part}: {shown(found.get(MADE, {}).get(part))}, {sum(found[part]['left_out'].values()):,} left out"
        for part in PARTS
        if part in found
    ]
    if all(part in found for part in PARTS):
        made["figure"] = FIGURE
        made["answer"] = f"{names_answer(found)}\n{labels_answer(found)}"
    if sources:
        made["source"] = f"`python recipes/tasks_study.py`. {'; '.join(sources)}."
    return made


def entity_table(found: dict[str, Any]) -> str:
    """Return a row for each number of tokens and method."""
    rows = []
    for blanks, said in found.items():
        for method, label in FILLERS.items():
            cells = [f"{100 * said[f'recall@{k}'][method]['value']['value']:.1f}" for k in (1, 10)]
            cells.append(f"{said['log_prob'][method]['value']['value']:.2f}")
            for name, scale, digits in (("recall@1", 100, 1), ("log_prob", 1, 2)):
                gain = Estimate(**said[name][method]["gain"])
                cells.append("" if method == BASE else with_interval(gain, scale, digits))
            rows.append([f"{blanks} × {said['examples']:,}", label, *cells])
    heads = ["tokens × entities", "method", "recall@1, %", "@10", "log-prob."]
    return markdown([*heads, "gain in recall@1", "in log-prob."], rows, left=2)


def prompt_table(part: str, found: dict[str, Any]) -> str:
    """Return a row for each prompt, set of labels and method."""
    rows = []
    for prompt, by in found.items():
        for labels, said in by.items():
            for method, label in SCORERS.items():
                accuracy, area = said["accuracy"][method], said["auc"][method]
                cells = [f"{100 * accuracy['value']['value']:.1f}", f"{area['value']['value']:.3f}"]
                gains = ((accuracy["gain"], 100, 1), (area["gain"], 1, 3))
                cells += ["" if method == BASE else with_interval(Estimate(**g), s, d) for g, s, d in gains]
                rows.append([f"“{prompt}”, {labels}", label, *cells])
    examples = {said["examples"] for by in found.values() for said in by.values()}
    heads = ["prompt, labels", "method", "accuracy, %", "AUC", "gain in accuracy", "in AUC"]
    told = f"{' or '.join(f'{n:,}' for n in sorted(examples))} examples, positive: {PROMPTS[part].positive}."
    return f"{told}\n\n{markdown(heads, rows, left=2)}"


def names_answer(found: dict[str, Any]) -> str:
    """Say what the best method gives names over independent answers."""
    every = found["entities"]["blanks"]["all"]
    others = [method for method in FILLERS if method != BASE]
    likelier = max(others, key=lambda m: every["log_prob"][m]["gain"]["value"])
    found_first = max(others, key=lambda m: every["recall@1"][m]["value"]["value"])
    gain = with_interval(Estimate(**every["log_prob"][likelier]["gain"]), 1, 2)
    best, base = (100 * every["recall@1"][m]["value"]["value"] for m in (found_first, BASE))
    return (
        f"- **Names.** By the best method ({FILLERS[likelier]}) the true name is {gain} nats likelier than "
        f"by independent answers. Right at the first try are {best:.1f} % ({FILLERS[found_first]}) instead "
        f"of {base:.1f} %."
    )


def labels_answer(found: dict[str, Any]) -> str:
    """Say in how many cases a joint tells labels better than independent answers, and by how much."""
    counts, accuracies = [], []
    above = 0
    gains = {True: [0.0], False: [0.0]}
    for part in PROMPTS:
        clear = []
        for by in found[part]["prompts"].values():
            for labels, said in by.items():
                ours = [said["auc"][method] for method in SCORERS if method != BASE]
                told = [numbers["gain"] for numbers in ours]
                better = [numbers["value"]["value"] for numbers in ours if numbers["gain"]["low"] > 0]
                clear.append(bool(better))
                above += max(better, default=0.0) > CHANCE
                gains[same_words(labels)].append(max(gain["value"] for gain in told))
                accuracies += [100 * numbers["value"]["value"] for numbers in said["accuracy"].values()]
        counts.append(f"{sum(clear)} of {len(clear)} ({TITLES[part]})")
    return (
        f"- **Labels.** In {' and '.join(counts)} pairs of prompt and labels one of the joints has a larger "
        f"AUC than independent answers, clear of zero: by up to {max(gains[True]):.2f} where both labels are "
        f"made of the same words, by up to {max(gains[False]):.2f} elsewhere. In {above} of them that AUC is "
        f"above {CHANCE}, which is chance. Accuracies stay near it, {min(accuracies):.0f} to "
        f"{max(accuracies):.0f} %, by every method."
    )


def same_words(labels: str) -> bool:
    """Whether both labels are made of the same words, as in `very good, not bad / very bad, not good`."""
    one, other = (sorted(label.replace(",", "").split()) for label in labels.split(" / "))
    return one == other


def _answer(measures: dict[str, dict[str, dict[str, Numbers]]], labels: dict[str, str]) -> str:
    """Say for each measure which methods are better or worse than independent answers, clear of zero."""
    lines = []
    for name, said in measures.items():
        better = [labels[m] for m in labels if m != BASE and said[m]["gain"]["low"] > 0]
        worse = [labels[m] for m in labels if m != BASE and said[m]["gain"]["high"] < 0]
        both = ((better, "better"), (worse, "worse"))
        told = [f"{', '.join(which)} {verb}" for which, verb in both if which]
        lines.append(f"- {name}: {'; '.join(told) or 'no method differs'}.")
    return "Against independent answers, clear of zero:\n\n" + "\n".join(lines)


def main() -> None:
    """Do the parts that are asked for, and rewrite the page."""
    parser = parser_of(__doc__, "tasks_study", PARTS)
    parser.add_argument("--entities", type=int, default=150, help="of each number of tokens and file")
    parser.add_argument("--examples", type=int, default=400, help="texts of each task with a prompt")
    options = parser.parse_args()
    out = options.out or RESULTS
    options.work.mkdir(parents=True, exist_ok=True)
    for part in () if options.tables else options.only:
        made = stamp(pair_head=True)
        found = measure(part, options, unmask.load(device="cpu"))
        write(out, read(out) | {part: found}, {part: made})
    show(tables(read(out)), [PAGE], "tasks_study", options.out)


if __name__ == "__main__":
    main()
