"""What a full disk or a kill leaves behind: told in one line, and made anew by the same command."""

import json
import resource
import shutil
import signal
from contextlib import contextmanager
from dataclasses import replace

import pytest
from refusing import refusal

from unmask.errors import RunError, UsageError
from unmask.runs.checkpoints import last_checkpoint, whole_checkpoints
from unmask.training import train


@contextmanager
def largest_file(size):
    """Have the system refuse larger files, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_disk_that_fills_up_under_the_optimizer_state(settings, tmp_path):
    out, short = tmp_path / "run", replace(settings, max_steps=2)
    train(short, out)
    weights = (out / "checkpoint-2" / "model.safetensors").stat().st_size
    state = (out / "checkpoint-2" / "optimizer.pt").stat().st_size
    assert weights < (weights + state) // 2 < state
    with largest_file((weights + state) // 2):
        refusal(RunError, "the disk is full", settings, out)
        assert whole_checkpoints(out) == [str(out / "checkpoint-2")]
    train(settings, out)
    assert last_checkpoint(out) == str(out / "checkpoint-4")


@pytest.mark.parametrize(
    ("name", "cut"),
    [("optimizer.pt", True), ("optimizer.pt", False), ("rng_state.pth", True), ("model.safetensors", True)],
)
def test_a_file_of_a_checkpoint_that_was_harmed_is_named(settings, tmp_path, name, cut):
    out = tmp_path / "run"
    train(replace(settings, max_steps=2), out)
    harmed = out / "checkpoint-2" / name
    whole = harmed.read_bytes()
    middle = len(whole) // 2
    changed = bytes([whole[middle] ^ 1])
    harmed.write_bytes(whole[:middle] if cut else whole[:middle] + changed + whole[middle + 1 :])
    refusal(RunError, f"{name} is damaged", settings, out)
    harmed.write_bytes(whole)
    train(settings, out)
    assert last_checkpoint(out) == str(out / "checkpoint-4")


def test_a_disk_that_fills_up_under_the_tokenizer(settings, tmp_path):
    out = tmp_path / "run"
    with largest_file(1500):
        refusal(RunError, "the disk is full", settings, out)
    assert not (out / "tokenizer").exists()
    assert train(settings, out).model.exists()
    assert not (out / "tokenizer.partial").exists()


@pytest.mark.parametrize("torn", ["tokenizer/tokenizer.json", "tokens/toy/about.json"])
@pytest.mark.parametrize("left", [0, 60])
def test_a_file_torn_before_the_first_step_is_made_anew(settings, tmp_path, torn, left):
    out = tmp_path / "run"
    refusal(UsageError, "text for one batch", replace(settings, batch_size=4000), out)
    whole = (out / torn).read_bytes()
    (out / torn).write_bytes(whole[:left])
    refusal(UsageError, "text for one batch", replace(settings, batch_size=4000), out)
    assert json.loads((out / torn).read_text()).keys() == json.loads(whole).keys()


def test_a_lost_vocabulary_of_checkpoints_is_not_learned_anew(settings, tmp_path):
    out = tmp_path / "run"
    train(replace(settings, max_steps=2), out)
    shutil.rmtree(out / "tokenizer")
    refusal(RunError, "restore the directory", settings, out)
