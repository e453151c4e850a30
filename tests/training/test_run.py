"""The run as a whole: it learns, it survives a kill to the last digit, and two processes do what one does."""

import json
import math
import os
import random
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import toy
from transformers import AutoModelForMaskedLM, AutoTokenizer

from tiny import ARCHITECTURES, WORDS
from unmask.models.parameters import DROPOUTS
from unmask.runs.denormals import without_denormals
from unmask.training import Settings, train
from unmask.training.forward import PACKABLE

SCRIPT = Path(__file__).parent / "run_settings.py"
TINY = {"model_type": "bert", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}


def write_settings(home, tokenizer, **changes):
    """A few steps of a very small model with dropout, checkpoints often.

    The tokenizer is given: the trainers break ties between pairs in no fixed order.
    """
    home.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(home / "tokenizer")
    toy.write_corpus(home / "toy.txt", documents=200)
    config = home / "config.json"
    config.write_text(json.dumps({**TINY, "intermediate_size": 64}))
    values = {
        "corpora": [f"toy={home / 'toy.txt'}"],
        "init_from": str(config),
        "tokenizer": str(home / "tokenizer"),
        "max_length": 48,
        "eval_one_in": 10,
        "max_steps": 24,
        "warmup_steps": 4,
        "decay_steps": 12,
        "batch_size": 4,
        "dropout": 0.1,
        "compatibility": 0.1,
        "save_steps": 5,
        "eval_steps": 8,
        "eval_rows": 20,
        "logging_steps": 3,
        **changes,
    }
    path = home / "settings.toml"
    path.write_text("\n".join(f"{name} = {json.dumps(value)}" for name, value in values.items()))
    return path


def environment():
    return {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def run(settings, out, *launcher):
    command = [sys.executable, *launcher, str(SCRIPT), str(settings), str(out)]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)


def results(out):
    return json.loads((out / "model" / "results.json").read_text())


def losses(out):
    """Every logged loss and evaluation number by its step, without clock times."""
    kept = {}
    for entry in results(out)["history"]:
        kept.update(
            {(entry["step"], name): entry[name] for name in entry if name.endswith(("loss", "accuracy"))}
        )
    return {key: value for key, value in kept.items() if key[1] != "train_loss"}


def test_two_processes_follow_the_curve_of_one(tmp_path, toy_tokenizer):
    """Without chance inside the model only the order of float32 sums differs: 1e-4 of the loss."""
    settings = write_settings(tmp_path / "text", toy_tokenizer, dropout=0.0, compatibility=0.0)
    alone, together = tmp_path / "alone", tmp_path / "together"
    assert run(settings, alone).returncode == 0
    launcher = ("-m", "accelerate.commands.launch", "--cpu", "--num_processes", "2", "--num_machines", "1")
    both = run(settings, together, *launcher)
    assert both.returncode == 0, both.stderr
    expected, found = losses(alone), losses(together)
    assert set(found) == set(expected)
    for key, value in expected.items():
        if key[1].endswith("loss"):
            assert found[key] == pytest.approx(value, rel=1e-4), key


def test_bfloat16_follows_the_curve_of_single_precision_and_keeps_single_weights(tmp_path, toy_tokenizer):
    plain, short = (
        write_settings(tmp_path / name, toy_tokenizer, dropout=0.0, compatibility=0.0, bf16=name == "short")
        for name in ("plain", "short")
    )
    for settings, out in ((plain, tmp_path / "plain-run"), (short, tmp_path / "short-run")):
        done = run(settings, out)
        assert done.returncode == 0, done.stderr
    expected, found = losses(tmp_path / "plain-run"), losses(tmp_path / "short-run")
    assert found != expected
    for key, value in expected.items():
        if key[1].endswith("loss"):
            assert found[key] == pytest.approx(value, rel=0.01), key
    weights = AutoModelForMaskedLM.from_pretrained(tmp_path / "short-run" / "model").state_dict()
    assert {weight.dtype for weight in weights.values() if weight.is_floating_point()} == {torch.float32}


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A tiny BERT from scratch on the toy language, with next-sentence prediction."""
    home = tmp_path_factory.mktemp("learned")
    toy.write_corpus(home / "toy.txt", documents=2000)
    settings = Settings(
        corpora=(f"toy={home / 'toy.txt'}",),
        init_from="bert-tiny",
        vocab_size=170,
        max_length=40,
        next_sentence=True,
        eval_one_in=20,
        max_steps=300,
        warmup_steps=20,
        decay_steps=150,
        batch_size=32,
        encoder_lr=2e-3,
        head_lr=2e-3,
        eval_steps=150,
        eval_rows=128,
        save_steps=300,
        licence="mit",
        data_licences={"toy": "made here"},
    )
    begun = time.process_time()  # of this process alone: a busy machine does not count
    result = train(settings, home / "run")
    return settings, result, time.process_time() - begun


def test_a_tiny_bert_learns_the_toy_language_and_its_next_sentences(learned):
    _, result, _ = learned
    score = result.scores["toy"]
    assert score.loss < 0.8  # 0.40 is the entropy of the language; the unigram's loss is 2.9
    assert score.next_sentence > 0.9


def test_it_takes_less_than_a_minute(learned):
    assert learned[2] < 60


def test_the_result_is_an_ordinary_checkpoint_with_a_card_and_a_curve(learned):
    _, result, _ = learned
    model = AutoModelForMaskedLM.from_pretrained(result.model)
    tokenizer = AutoTokenizer.from_pretrained(result.model)
    inputs = tokenizer("the jax nax vax the nax . the jaz [MASK] vax the naz .", return_tensors="pt")
    logits = model(**inputs).logits[0, inputs["input_ids"][0] == tokenizer.mask_token_id]
    assert tokenizer.convert_ids_to_tokens(logits.argmax(-1))[0] in ("nax", "naz")
    card = (result.model / "README.md").read_text()
    for part in ("license: mit", "made here", "next sentence accuracy", f"{result.scores['toy'].loss:.3f}"):
        assert part in card
    assert (result.model / "loss.png").read_bytes().startswith(b"\x89PNG")


def test_a_finished_run_can_be_taken_further(learned, tmp_path):
    from dataclasses import replace

    settings, result, _ = learned
    longer = replace(settings, max_steps=303, decay_steps=3)
    again = train(longer, result.model.parent)
    assert (result.model.parent / "checkpoint-303").is_dir()
    assert max(entry["step"] for entry in again.history) == 303
    assert again.history[: len(result.history) - 2] == result.history[: len(result.history) - 2]


@pytest.mark.parametrize("kind", sorted(ARCHITECTURES))
def test_every_architecture_can_be_trained_further(kind, tmp_path, checkpoint):
    letters = [*"ACDEFGHIKLMNPQRSTVWY"] if kind == "esm" else [f"{word} " for word in WORDS]
    generator = random.Random(0)
    lines = ["".join(generator.choices(letters, k=20)) for _ in range(40)]
    (tmp_path / "text.txt").write_text("\n\n".join(lines))
    settings = Settings(
        corpora=(f"text={tmp_path / 'text.txt'}",),
        init_from=str(checkpoint(kind)),
        max_steps=2,
        batch_size=2,
        max_length=32,
        eval_one_in=10,
        packing=kind in PACKABLE,
    )
    result = train(settings, tmp_path / "run")
    assert math.isfinite(result.scores["text"].loss)
    before, after = (
        AutoModelForMaskedLM.from_pretrained(place).get_input_embeddings().weight
        for place in (checkpoint(kind), result.model)
    )
    assert not torch.equal(before, after)
    ours, theirs = (
        json.loads((place / "config.json").read_text()) for place in (result.model, checkpoint(kind))
    )
    assert [ours.get(name) for name in DROPOUTS] == [theirs.get(name) for name in DROPOUTS]


def test_each_of_several_objectives_is_told_and_a_resumption_raises_no_alarm(tmp_path, toy_tokenizer, capfd):
    toy_tokenizer.save_pretrained(tmp_path / "tokenizer")
    settings = Settings(
        corpora=(f"toy={toy.write_corpus(tmp_path / 'toy.txt')}",),
        tokenizer=str(tmp_path / "tokenizer"),
        max_steps=4,
        batch_size=4,
        max_length=32,
        save_steps=2,
        logging_steps=2,
        next_sentence=True,
        compatibility=0.5,
    )
    result = train(settings, tmp_path / "run")
    logged = [entry for entry in result.history if "loss" in entry]
    assert len(logged) == 2
    for entry in logged:
        parts = entry["mlm_part"] + entry["next_sentence_part"] + 0.5 * entry["incompatibility_part"]
        assert parts == pytest.approx(entry["loss"], abs=1e-3)
    assert "(mlm " in capfd.readouterr().err
    train(replace(settings, max_steps=6), tmp_path / "run")
    assert "missing keys" not in capfd.readouterr().err


def test_denormal_numbers_are_back_after_a_run():
    tiny = torch.tensor(1e-40)
    with without_denormals():
        assert float(tiny * 1) == 0
    assert float(tiny * 1) > 0
