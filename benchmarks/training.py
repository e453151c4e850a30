"""Training throughput: unmask against a plain Trainer, same model, same rows, same machine, same run.

The baseline is `transformers.Trainer` as its examples use it: `DataCollatorForLanguageModeling`, and the
model's own loss over logits at every position. Both see rows of 128 tokens without padding, so that packing
gives neither an advantage. Freed memory is kept, as `unmask train` does, for both. The ways take turns, and
the best of a way's rounds counts (a round is told by its median step).

    python benchmarks/training.py [--rows 16] [--rate 0.15] [--steps 8] [--rounds 2]
"""

from __future__ import annotations

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
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

import unmask
from machine import describe, parser, table
from unmask.runs.denormals import without_denormals
from unmask.runs.kept_memory import keep_freed_memory
from unmask.training import Settings
from unmask.training.prepare_data import initial_model, prepare_data
from unmask.training.run import _trainer

ENGLISH = Path(unmask.__file__).parent / "models" / "english"
LENGTH = 128
PLAIN, OURS = "plain Trainer", "unmask"
PRECISIONS = {"single precision": False, "bfloat16": True}
TARGETS = {(OURS, "single precision"): "≥ 1.3"}


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


def settings(home, rows, rate, steps, bf16):
    config = home / "config.json"
    config.write_text((ENGLISH / "config.json").read_text())
    return Settings(
        corpora=(f"text={home / 'text.txt'}",),
        eval_one_in=0,
        init_from=str(config),
        tokenizer=str(ENGLISH),
        max_length=LENGTH,
        mlm_probability=rate,
        batch_size=rows,
        max_steps=steps,
        warmup_steps=1,
        decay_steps=1,
        save_steps=10_000,
        logging_steps=10_000,
        bf16=bf16,
    )


def ours(home, rows, rate, steps, bf16):
    wanted = settings(home, rows, rate, steps, bf16)
    data = prepare_data(wanted, home / "run")
    trainer = _trainer(wanted, home / "run", initial_model(wanted, data), data)
    clock = Clock()
    trainer.add_callback(clock)
    with without_denormals():
        trainer.train()
    return clock.rate(rows * LENGTH)


def plain(home, rows, rate, steps, bf16):
    wanted = settings(home, rows, rate, steps, bf16)
    data = prepare_data(wanted, home / "run")
    source = data.rows.sources[0]
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
            bf16=bf16,
            use_cpu=not torch.accelerator.is_available(),
        ),
        train_dataset=texts,
        data_collator=DataCollatorForLanguageModeling(tokenizer, mlm_probability=rate),
        callbacks=[clock],
    )
    trainer.remove_callback(PrinterCallback)  # what is printed goes on the page
    trainer.train()
    return clock.rate(rows * LENGTH)


def measure(rows, rate, steps, rounds):
    """Tokens per second of each way and precision, the best of some rounds in which they take turns."""
    keep_freed_memory()
    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        write_text(home / "text.txt", AutoTokenizer.from_pretrained(ENGLISH), 2 * rows * LENGTH * steps)
        ways = {PLAIN: plain, OURS: ours}
        found = {(way, precision): 0.0 for precision in PRECISIONS for way in ways}
        for _ in range(rounds):
            for way, precision in found:
                speed = ways[way](home, rows, rate, steps, PRECISIONS[precision])
                found[way, precision] = max(found[way, precision], speed)
    return found


def main():
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=16)
    options.add_argument("--rate", type=float, default=0.15)
    options.add_argument("--steps", type=int, default=8)
    options.add_argument("--rounds", type=int, default=2)
    given = options.parse_args()
    rows = f"{given.rows} rows of {LENGTH} tokens, {given.rate:.0%} predicted"
    print(f"## Training throughput\n\n{describe()}; {rows}\n")
    found = measure(**vars(given))
    rows = [
        (*way, f"{speed:,.0f}", f"{speed / found[PLAIN, way[1]]:.2f}", TARGETS.get(way, ""))
        for way, speed in found.items()
    ]
    print(table(("way", "precision", "tokens/s", "ratio", "target"), rows))


if __name__ == "__main__":
    main()
