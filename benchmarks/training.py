"""Training throughput: unmask against a plain Trainer, same model, same rows, same machine, same run.

The baseline is `transformers.Trainer` as its examples use it: `DataCollatorForLanguageModeling`, and the
model's own loss over logits at every position. Both see rows of 128 tokens without padding, so that packing
gives neither an advantage. Prints tokens a second and their ratio.

    python benchmarks/training.py [--rows 16] [--rate 0.15] [--steps 12]
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import tempfile
import time
from pathlib import Path

import torch
import transformers
from transformers import (
    AutoConfig,
    AutoModelForMaskedLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

import unmask
from unmask.training import Settings
from unmask.training.materials import first_model, gather
from unmask.training.run import _trainer

ENGLISH = Path(unmask.__file__).parent / "models" / "english"
LENGTH = 128


class Clock(TrainerCallback):
    """The seconds of every step after the first two."""

    def __init__(self):
        self.marks = []

    def on_step_end(self, *_, **__):
        self.marks.append(time.perf_counter())

    def rate(self, tokens):
        steps = [later - earlier for earlier, later in zip(self.marks[1:], self.marks[2:], strict=False)]
        return tokens / statistics.median(steps)


def write_text(path, tokenizer, tokens):
    """Random whole words of the vocabulary: the speed does not depend on what they say."""
    chance = random.Random(0)
    words = [word for word in tokenizer.get_vocab() if word.isalpha() and len(word) > 3]
    documents = (" ".join(chance.choices(words, k=1000)) for _ in range(tokens // 1000))
    path.write_text("\n\n".join(documents))


def settings(home, rows, rate, steps, optimizer):
    config = home / "config.json"
    config.write_text((ENGLISH / "config.json").read_text())
    return Settings(
        corpora=(f"text={home / 'text.txt'}",),
        hold_out=0,
        start=str(config),
        tokenizer=str(ENGLISH),
        max_length=LENGTH,
        rate=rate,
        batch=rows,
        steps=steps,
        warmup=1,
        decay=1,
        save_every=10_000,
        log_every=10_000,
        optimizer=optimizer,
    )


def ours(home, rows, rate, steps, optimizer):
    wanted = settings(home, rows, rate, steps, optimizer)
    materials = gather(wanted, home / "run")
    trainer = _trainer(wanted, home / "run", first_model(wanted, materials), materials, courteous=False)
    clock = Clock()
    trainer.add_callback(clock)
    trainer.train()
    return clock.rate(rows * LENGTH)


def plain(home, rows, rate, steps):
    wanted = settings(home, rows, rate, steps, "adamw")
    materials = gather(wanted, home / "run")
    source = materials.rows.sources[0]
    texts = [{"input_ids": source.row(number, 1).ids.tolist()} for number in range(rows * steps)]
    tokenizer = AutoTokenizer.from_pretrained(ENGLISH)
    clock = Clock()
    trainer = Trainer(
        model=AutoModelForMaskedLM.from_config(AutoConfig.from_pretrained(ENGLISH), dtype=torch.float32),
        args=TrainingArguments(
            output_dir=str(home / "plain"),
            max_steps=steps,
            per_device_train_batch_size=rows,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            dataloader_pin_memory=False,
        ),
        train_dataset=texts,
        data_collator=DataCollatorForLanguageModeling(tokenizer, mlm_probability=rate),
        callbacks=[clock],
    )
    trainer.train()
    return clock.rate(rows * LENGTH)


def measure(rows=16, rate=0.15, steps=12):
    """Tokens a second of both, and the ratios."""
    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        write_text(home / "text.txt", AutoTokenizer.from_pretrained(ENGLISH), 2 * rows * LENGTH * steps)
        found = {
            "plain Trainer": plain(home, rows, rate, steps),
            "unmask": ours(home, rows, rate, steps, "adamw"),
            "unmask, muon": ours(home, rows, rate, steps, "muon"),
        }
    base = found["plain Trainer"]
    return {
        "machine": f"{platform.processor() or platform.machine()}, {torch.get_num_threads()} threads",
        "rows": rows,
        "rate": rate,
        "tokens_per_second": {name: round(value) for name, value in found.items()},
        "ratio": {name: round(value / base, 2) for name, value in found.items()},
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--rate", type=float, default=0.15)
    parser.add_argument("--steps", type=int, default=12)
    print(json.dumps(measure(**vars(parser.parse_args())), indent=1))
