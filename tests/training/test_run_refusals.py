"""Bad input to a run: one clear line, an exit code, nothing overwritten and nothing lost."""

import json
import os
import shutil
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from refusing import refusal
from transformers import AutoConfig, AutoModelForCausalLM
from typer.testing import CliRunner

from unmask.cli import train as command
from unmask.errors import RunError, UsageError
from unmask.runs.checkpoints import check_disk_space, last_checkpoint
from unmask.runs.run import Run
from unmask.training import train
from unmask.training.run import TRAINING


def claim(out, settings):
    """Claim a directory as a run does, and resume it with these settings."""
    with Run.in_directory(TRAINING, out, settings.to_dict()) as run:
        run.update_settings(settings.to_dict())


def test_a_corpus_smaller_than_a_batch(settings, tmp_path):
    refusal(UsageError, "text for one batch", replace(settings, batch_size=4000), tmp_path / "run")


def test_an_empty_and_a_binary_corpus(settings, tmp_path):
    for content, message in ((b"", "empty"), (b"\0\1\2", "binary")):
        path = tmp_path / "bad.txt"
        path.write_bytes(content)
        refusal(UsageError, message, replace(settings, corpora=(str(path),)), tmp_path / f"run-{message}")


def test_a_missing_corpus_is_named_before_a_missing_vocabulary(settings, tmp_path):
    missing = str(tmp_path / "missing.txt")
    for changes in ({"corpora": (f"a={missing}",)}, {"eval_corpora": (f"b={missing}",)}):
        refusal(UsageError, "missing.txt", replace(settings, vocab_size=0, **changes), tmp_path / "run")


def test_a_vocabulary_larger_than_the_corpus_supports(settings, tmp_path):
    refusal(UsageError, "ask for fewer tokens", replace(settings, vocab_size=50_000), tmp_path / "run")


def test_a_fresh_model_without_tokenizer_or_vocabulary(settings, tmp_path):
    refusal(UsageError, "needs a vocabulary", replace(settings, vocab_size=0), tmp_path / "run")


@pytest.mark.parametrize("content", ['{"colour": "blue"}', "[1, 2]"])
def test_settings_of_something_else_are_left_as_they_are(settings, tmp_path, content):
    out = tmp_path / "home"
    (out / "tokenizer").mkdir(parents=True)
    (out / "tokenizer" / "mine.txt").write_text("mine")
    (out / "settings.json").write_text(content)
    refusal(UsageError, "holds no training run", settings, out)
    assert (out / "settings.json").read_text() == content
    assert (out / "tokenizer" / "mine.txt").exists()


def test_fewer_steps_than_were_done_are_refused(settings, tmp_path):
    train(settings, tmp_path / "run")
    before = (tmp_path / "run" / "settings.json").read_bytes()
    refusal(UsageError, "is at step 4 already", replace(settings, max_steps=2), tmp_path / "run")
    assert (tmp_path / "run" / "settings.json").read_bytes() == before


def test_a_vocabulary_is_learned_anew_from_a_text_that_changed_before_the_first_step(settings, tmp_path):
    out = tmp_path / "run"
    refusal(UsageError, "text for one batch", replace(settings, batch_size=4000), out)
    before = (out / "tokenizer" / "tokenizer.json").read_text()
    with (tmp_path / "toy.txt").open("a") as text:
        text.write("\n\n" + "\n\n".join(["quux frobnicate the zyzzyva"] * 400))
    refusal(UsageError, "text for one batch", replace(settings, batch_size=4000), out)
    assert (out / "tokenizer" / "tokenizer.json").read_text() != before


def test_evaluation_text_that_changes_is_refused_too(settings, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("\n\n".join(["the jax sees the vax in the house"] * 40))
    held = replace(settings, eval_corpora=(f"other={other}",))
    train(held, tmp_path / "run")
    other.write_text("\n\n".join(["the vax sees the jax in the house"] * 40))
    refusal(UsageError, "other.txt has changed", replace(held, max_steps=8), tmp_path / "run")


def test_a_tokenizer_larger_than_the_checkpoint_is_refused(settings, tmp_path):
    train(settings, tmp_path / "small")
    larger = train(replace(settings, vocab_size=170), tmp_path / "large").model
    (tmp_path / "small" / "model" / "tokenizer.json").unlink()
    mixed = replace(
        settings, init_from=str(tmp_path / "small" / "model"), tokenizer=str(larger), vocab_size=0
    )
    refusal(UsageError, "the tokenizer has .* tokens, and .* embeds", mixed, tmp_path / "mixed")


def test_another_vocabulary_than_the_checkpoints_is_refused_and_its_own_is_not(settings, tmp_path):
    first = train(settings, tmp_path / "first").model
    text = (tmp_path / "toy.txt").read_text().translate(str.maketrans("jnv", "kmw"))
    (tmp_path / "other.txt").write_text(text)
    other = replace(settings, corpora=(f"other={tmp_path / 'other.txt'}",), vocab_size=140)
    tokenizer = train(other, tmp_path / "other").model
    further = replace(settings, init_from=str(first), tokenizer=str(tokenizer), vocab_size=0)
    refusal(UsageError, "expected the vocabulary of .*first/model, got another", further, tmp_path / "mixed")
    cut = replace(further, vocab_size=100)
    refusal(UsageError, "expected the vocabulary of", cut, tmp_path / "cut")
    train(replace(further, tokenizer=str(tmp_path / "first" / "tokenizer")), tmp_path / "further")


def test_an_embedded_models_tokenizer_is_found_by_its_name(settings, tmp_path):
    result = train(replace(settings, tokenizer="english", vocab_size=0, max_steps=2), tmp_path / "run")
    assert json.loads((result.model / "config.json").read_text())["vocab_size"] == 8192


def test_a_missing_tokenizer_is_named(settings, tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("englisch", str(tmp_path / "nowhere"), str(tmp_path / "empty")):
        missing = replace(settings, tokenizer=name, vocab_size=0)
        refusal(UsageError, f"{name}: expected a tokenizer", missing, tmp_path / "run")


def test_a_checkpoint_without_a_tokenizer_says_so(settings, tmp_path):
    checkpoint = train(replace(settings, max_steps=2), tmp_path / "first").model
    for path in checkpoint.glob("tokenizer*"):
        path.unlink()
    refusal(
        UsageError,
        "first/model: expected a tokenizer, found none",
        replace(settings, init_from=str(checkpoint), vocab_size=0),
        tmp_path / "run",
    )


def test_layers_of_a_fresh_model_are_refused(settings, tmp_path):
    for start in (settings.init_from, "bert-tiny"):
        refusal(
            UsageError, "a fresh model", replace(settings, init_from=start, layers=(0,)), tmp_path / "run"
        )


def test_text_that_is_trained_on_is_not_evaluated_on_under_another_name(settings, tmp_path):
    shutil.copy(tmp_path / "toy.txt", tmp_path / "copy.txt")
    (tmp_path / "link.txt").symlink_to(tmp_path / "toy.txt")
    for name in ("toy.txt", "copy.txt", "link.txt"):
        held = replace(settings, eval_corpora=(f"other={tmp_path / name}",))
        refusal(
            UsageError, f"{name} is evaluated on as 'other' and trained on as 'toy'", held, tmp_path / "run"
        )


def test_another_spelling_of_a_path_is_the_same_run(settings, tmp_path, monkeypatch):
    claim(tmp_path / "run", settings)
    monkeypatch.chdir(tmp_path)
    names = [corpus.rpartition("=") for corpus in settings.corpora]
    spelled = tuple(name + equals + os.path.relpath(file) for name, equals, file in names)
    assert spelled != settings.corpora
    claim(tmp_path / "run", replace(settings, corpora=spelled))
    odd = Path("a=b.txt")
    odd.write_text("text")
    claim(tmp_path / "odd", replace(settings, corpora=(str(odd.resolve()),)))
    (tmp_path / "odd" / "checkpoint-2").mkdir()
    claim(tmp_path / "odd", replace(settings, corpora=(str(odd),)))


def test_more_steps_are_the_same_run(settings, tmp_path):
    claim(tmp_path / "run", settings)
    claim(tmp_path / "run", replace(settings, max_steps=100, decay_steps=50))
    assert json.loads((tmp_path / "run" / "settings.json").read_text())["settings"]["max_steps"] == 100


def test_a_checkpoint_cut_short_is_passed_over(tmp_path):
    for step, state in ((5, '{"global_step": 5}'), (10, '{"global_st'), (15, None)):
        path = tmp_path / f"checkpoint-{step}"
        path.mkdir()
        if state is not None:
            (path / "trainer_state.json").write_text(state)
    assert last_checkpoint(tmp_path) == str(tmp_path / "checkpoint-5")
    assert last_checkpoint(tmp_path / "none") is None


def test_a_disk_without_room_is_told_before_the_first_step(settings, tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(100, 99, 1))
    refusal(RunError, "make room", settings, tmp_path / "run")


def test_checkpoints_that_are_there_need_no_room(tmp_path, monkeypatch):
    for step in (5, 10):
        (tmp_path / f"checkpoint-{step}").mkdir()
        (tmp_path / f"checkpoint-{step}" / "trainer_state.json").write_text(f'{{"global_step": {step}}}')
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(100, 99, 15_000))
    check_disk_space(tmp_path, parameters=1000)  # 12,000 bytes each
    with pytest.raises(RunError, match="make room"):
        check_disk_space(tmp_path, parameters=1000, kept=3)


def test_a_disk_that_fills_up_is_one_line_and_the_run_can_go_on(settings, tmp_path, monkeypatch):
    out = tmp_path / "run"
    from unmask.training import run as module

    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_result", full)
    refusal(RunError, "the disk is full", settings, out)
    assert last_checkpoint(out) == str(out / "checkpoint-4")
    monkeypatch.undo()
    assert (train(settings, out).model / "model.safetensors").exists()


def test_a_causal_checkpoint(settings, tmp_path):
    config = AutoConfig.for_model("gpt2", vocab_size=30, n_embd=16, n_layer=1, n_head=2)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path / "causal")
    refusal(
        UsageError,
        "masked language model",
        replace(settings, init_from=str(tmp_path / "causal")),
        tmp_path / "run",
    )


def test_a_penalty_on_texts_too_short_for_two_positions(settings, tmp_path):
    path = tmp_path / "short.txt"
    path.write_text("\n\n".join(["jax", "nax", "vax", "the"] * 100))
    short = replace(
        settings,
        corpora=(f"short={path}",),
        vocab_size=22,
        compatibility=1.0,
        compatibility_nearest=4,
        packing=False,
    )
    refusal(UsageError, "too short", short, tmp_path / "run")


def test_a_penalty_goes_on_past_a_batch_of_short_texts(settings, tmp_path):
    """One word each but for some: batches without two positions cost nothing, and end nothing."""
    path = tmp_path / "mixed.txt"
    lines = ["the old jax sees a vax in the house"] * 20 + ["jax", "nax", "vax", "the"] * 20
    path.write_text("\n\n".join(lines))
    mixed = replace(
        settings,
        corpora=(f"mixed={path}",),
        vocab_size=40,
        compatibility=1.0,
        compatibility_nearest=4,
        packing=False,
        batch_size=2,
        max_steps=12,
    )
    history = train(mixed, tmp_path / "run").history
    assert max(entry["step"] for entry in history) == 12


def test_evaluation_text_of_a_trained_name_is_refused(settings, tmp_path):
    name = settings.corpora[0].partition("=")[0]
    other = tmp_path / "other.txt"
    other.write_text("another text\n")
    refusal(
        UsageError,
        "two corpora are called",
        replace(settings, eval_corpora=(f"{name}={other}",)),
        tmp_path / "run",
    )


def test_after_a_refusal_the_corrected_command_runs(settings, tmp_path):
    out = tmp_path / "run"
    refusal(UsageError, "ask for fewer", replace(settings, vocab_size=90_000), out)
    train(replace(settings, max_steps=2), out)


def test_a_corpus_that_changed_between_two_attempts_is_refused(settings, tmp_path):
    out = tmp_path / "run"
    short = replace(settings, max_steps=2, save_steps=2)
    train(short, out)
    path = Path(settings.corpora[0].partition("=")[2])
    path.write_text(path.read_text() + "\n\none more document\n")
    before = (out / "settings.json").read_bytes()
    refusal(UsageError, "has changed since", replace(short, max_steps=4), out)
    assert (out / "settings.json").read_bytes() == before


@pytest.mark.parametrize(
    "content", [None, "{}", '{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}', "{nothing"]
)
def test_a_start_that_is_no_masked_model_is_one_line(settings, tmp_path, content):
    start = tmp_path / "start"
    start.mkdir()
    if content is not None:
        (start / "config.json").write_text(content)
    refusal(UsageError, "expected a", replace(settings, init_from=str(start)), tmp_path / "run")
    if content is not None:
        file = replace(settings, init_from=str(start / "config.json"))
        refusal(UsageError, "expected a", file, tmp_path / "other")


def test_the_embedded_model_can_be_started_from(settings, tmp_path):
    result = train(
        replace(settings, init_from="english", vocab_size=0, max_steps=2, batch_size=2), tmp_path / "run"
    )
    assert json.loads((result.model / "config.json").read_text())["vocab_size"] == 8192


def test_a_batch_that_the_processes_cannot_share(settings, tmp_path):
    refusal(
        UsageError,
        "choose a multiple of 3",
        replace(settings, gradient_accumulation_steps=3),
        tmp_path / "run",
    )


def test_an_unknown_start(settings, tmp_path):
    refusal(UsageError, "expected a preset", replace(settings, init_from="bert-enormous"), tmp_path / "run")


def test_a_loss_that_is_lost_stops_the_run(settings, tmp_path):
    wild = replace(settings, encoder_lr=1e30, head_lr=1e30, max_grad_norm=0.0, logging_steps=1)
    refusal(RunError, "lower encoder_lr", wild, tmp_path / "run")


def test_the_command_trains_and_its_options_override_the_file(settings, tmp_path):
    app = typer.Typer()
    app.callback()(lambda: None)
    app.command()(command.train)
    path = tmp_path / "settings.toml"
    path.write_text(
        f'init_from = "{settings.init_from}"\nvocab_size = 150\nmax_length = 32\n'
        "eval_one_in = 10\nbatch_size = 2\n"
    )
    asked = f"train --out {tmp_path / 'run'} --corpus {settings.corpora[0]} --settings {path} --max-steps 2"
    answer = CliRunner().invoke(
        app, [*asked.split(), "--warmup-steps", "0", "--decay-steps", "1", "--batch-size", "4"]
    )
    assert answer.exit_code == 0, answer.output
    assert "| toy |" in answer.stdout
    assert json.loads((tmp_path / "run" / "settings.json").read_text())["settings"]["max_steps"] == 2
