"""Every kind of run, small: how to start one, what it has finished, and what it comes to in the end."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import toy
import toy_data

import task_toy

PACE = 0.03
"""Seconds that each piece of work takes at least, so that there is a middle to be killed in."""


@dataclass(frozen=True)
class RunKind:
    """One kind of run.

    Attributes:
        start: starts it, given a home for its inputs, a model and its place; `other` with another setting.
        place: the name of its place.
        records: the file of records, from the place; None for a run of checkpoints.
        result: what is the same in every run of the same settings.
        largest_file: bytes that a file may have on a full disk.
        held: the directory or file that one process at a time may hold, from the place.
    """

    start: Callable[[Path, str, Path, bool], Any]
    place: str
    records: Callable[[Path], Path] | None
    result: Callable[[Path], Any]
    largest_file: int
    held: Callable[[Path], Path] = lambda out: out

    def finished(self, out: Path) -> int:
        """How many pieces of work are on the disk."""
        if self.records is None:
            return len(list(out.glob("checkpoint-*/trainer_state.json")))
        path = self.records(out)
        return path.read_bytes().count(b"\n") if path.exists() else 0


def prepare(home: Path) -> None:
    """Write the inputs of every kind."""
    home.mkdir()
    toy_data.text_file(home / "sentences.txt")
    pairs = [
        {"sentence_good": text, "sentence_bad": f"the {text}", "UID": "u", "linguistics_term": "t"}
        for text in toy_data.SENTENCES
    ]
    (home / "blimp").mkdir()
    (home / "blimp" / "pairs.jsonl").write_text("\n".join(map(json.dumps, pairs)))
    toy.write_corpus(home / "corpus.txt", documents=60)
    task_toy.write(home / "task", "classify")


def evaluate(home: Path, model: str, out: Path, other: bool) -> None:
    from unmask.evaluation.run import evaluate as start
    from unmask.evaluation.settings import Settings

    data = f"text={home / 'sentences.txt'}"
    start(Settings(data=data, model=model, examples=None, methods=("product", "l2r"), seed=int(other)), out)


def score_file(home: Path, model: str, out: Path, other: bool) -> None:
    from unmask.evaluation import score_file as module

    module.LINES_AT_ONCE = 1
    settings = module.ScoreSettings(model=model, scores=("chain" if other else "pll",))
    for _ in module.score_file(home / "sentences.txt", settings, out=out):
        pass


def embed(home: Path, model: str, out: Path, other: bool) -> None:
    from unmask.embeddings import files

    files.TEXTS_A_CHUNK = 1
    wanted = files.Settings(str(home / "sentences.txt"), model, layers="1" if other else "last")
    files.embed_file(wanted, out)


def blimp(home: Path, model: str, out: Path, other: bool) -> None:
    from unmask.evaluation.benchmarks import blimp as module
    from unmask.evaluation.score_file import ScoreSettings

    module.PAIRS_AT_ONCE = 1
    module.run_blimp(
        home / "blimp", ScoreSettings(model=model, scores=("chain" if other else "pll",)), out=out
    )


def blanks(home: Path, model: str, out: Path, other: bool) -> None:
    from unmask.evaluation.benchmarks.blanks import BlanksSettings, run_blanks
    from unmask.models.masked_lm import MaskedLM

    methods = ("independent", "greedy")
    settings = BlanksSettings(blanks=(2,), sentences=6, methods=methods, candidates=4 + other)
    run_blanks(MaskedLM.load(model), [f"text={home / 'sentences.txt'}"], settings, out=out)


def train(home: Path, model: str, out: Path, other: bool) -> None:
    from unmask.training import Settings
    from unmask.training import train as start

    settings = Settings(
        corpora=(f"toy={home / 'corpus.txt'}",),
        init_from=model,
        max_length=32,
        eval_one_in=10,
        max_steps=6,
        batch_size=4,
        save_steps=2,
        eval_steps=3,
        eval_rows=4,
        dropout=0.1,
        compatibility=0.1,
        logging_steps=1,
        seed=int(other),
    )
    start(settings, out)


def distill(home: Path, model: str, out: Path, other: bool) -> None:
    from unmask.training import distill as module

    module.TEXTS_IN_A_PART = 20
    settings = module.DistillSettings(
        corpora=(f"toy={home / 'corpus.txt'}",),
        model=model,
        texts=80,
        eval_texts=40,
        max_length=16,
        width=16,
        epochs=1,
        eval_steps=2,
        seed=int(other),
    )
    module.distill(settings, out)


def finetune(home: Path, model: str, out: Path, other: bool) -> None:
    from unmask.tasks import finetune as start

    settings = task_toy.settings(home / "task", model, epochs=1, eval_steps=2, dropout=0.1)
    start(replace(settings, seed=int(other)), out)


def trained(out: Path) -> Any:
    """The weights and the scores of a trained model, without the times that they took."""
    results = json.loads((out / "model" / "results.json").read_text())
    scores = {name: found for name, found in results.items() if name != "history"}
    losses = {
        (entry["step"], name): value
        for entry in results["history"]
        for name, value in entry.items()
        if name == "loss" or name.startswith("eval_")
    }
    return (out / "model" / "model.safetensors").read_bytes(), scores, losses


KINDS = {
    "evaluate": RunKind(
        evaluate,
        "run",
        lambda out: out / "examples.jsonl",
        lambda out: (out / "summary.json").read_bytes(),
        4000,
    ),
    "score FILE": RunKind(score_file, "out.jsonl", lambda out: out, lambda out: out.read_text(), 1600),
    "embed": RunKind(
        embed,
        "out.npy",
        lambda out: out.with_name("out.npy.partial") / "records.jsonl",
        lambda out: (out.read_bytes(), out.with_name("out.npy.units.jsonl").read_text()),
        900,
        held=lambda out: out.with_name("out.npy.partial"),
    ),
    "benchmark blimp": RunKind(blimp, "out.jsonl", lambda out: out, lambda out: out.read_text(), 1200),
    "benchmark blanks": RunKind(blanks, "out.jsonl", lambda out: out, lambda out: out.read_text(), 1000),
    "distill": RunKind(
        distill,
        "run",
        lambda out: out / "parts.jsonl",
        lambda out: (out / "pair_head.safetensors").read_bytes(),
        20_000,
    ),
    "train": RunKind(train, "run", None, trained, 50_000),
    "finetune": RunKind(finetune, "run", None, trained, 50_000),
}


def slow_down() -> None:
    """Have each piece of work take a moment."""
    from transformers import Trainer

    from unmask.runs.records import Records

    append, step = Records.append, Trainer.training_step

    def slow_append(self: Records, record: dict[str, Any]) -> None:
        append(self, record)
        time.sleep(PACE)

    def slow_step(self: Any, *arguments: Any, **named: Any) -> Any:
        time.sleep(PACE)
        return step(self, *arguments, **named)

    Records.append, Trainer.training_step = slow_append, slow_step
