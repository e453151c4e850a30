"""The recipe of the embedded model's pair head: from Wikipedia, novels and SNLI into the package.

    python recipes/pair_head.py --data ../shared/data --work RUN

A killed run is resumed by the same command. Texts are seen once: fresh ones teach more than a second look,
after which a head knows its texts better than others. Takes about half an hour on two cores.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from english import PACKAGE, write_sentences
from english import sentences as read_sentences

from unmask.cli.terminal import Bar
from unmask.models.pair_head import FILE
from unmask.runs.kept_memory import keep_freed_memory
from unmask.training.distill import DistillSettings, distill

CARD = "PAIR_HEAD.md"


def main() -> None:
    """Distil the head, or resume, and copy it beside the model."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--data", type=Path, required=True, help="The directory with corpus/ and snli/.")
    options.add_argument("--work", type=Path, required=True, help="Where the run is kept.")
    options.add_argument("--texts", type=int, default=150_000)
    options.add_argument("--epochs", type=float, default=1.0)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument(
        "--init-from",
        default="",
        help="The head of the model before it was trained on, if there is one.",
    )
    given = options.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    sentences = given.work / "snli.txt"
    snli = given.data / "snli"
    write_sentences(snli / "train-20k.tsv.gz", sentences, set(read_sentences(snli / "dev.tsv")))
    corpus = given.data / "corpus"
    settings = DistillSettings(
        corpora=(
            f"wikipedia={corpus / 'wikipedia.txt.gz'}",
            f"novels={corpus / 'novels.txt.gz'}",
            f"snli={sentences}",
        ),
        texts=given.texts,
        epochs=given.epochs,
        bf16=True,
        eval_steps=500,
        seed=given.seed,
        init_from=given.init_from,
    )
    keep_freed_memory()
    made = distill(settings, given.work / "head", progress=Bar())
    shutil.copyfile(made.head, PACKAGE / FILE)
    shutil.copyfile(made.head.with_name("README.md"), PACKAGE / CARD)


if __name__ == "__main__":
    main()
