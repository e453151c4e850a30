"""Beside the steps: progress lines that say what matters."""

from types import SimpleNamespace

import pytest

from unmask.errors import RunError
from unmask.runs.step_lines import StepLines, spent
from unmask.training.callbacks import ProgressLines
from unmask.training.settings import Settings


@pytest.fixture
def state():
    return SimpleNamespace(
        global_step=0, is_world_process_zero=True, compute_steps=lambda *_: None, log_history=[]
    )


def test_a_line_tells_step_loss_rate_and_time_left(state, capsys):
    progress = ProgressLines(Settings(max_steps=100, batch_size=2, max_length=50))
    progress.on_train_begin(None, state, None)
    progress.begun -= 10  # ten seconds ago
    state.global_step = 20
    progress.on_log(None, state, None, logs={"loss": 3.25})
    progress.on_log(None, state, None, logs={"eval_wiki_loss": 3.5, "eval_wiki_accuracy": 0.4})
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("step 20/100  loss 3.2500  2")
    assert first.endswith("0:00:40 left")
    assert second == "step 20/100  eval loss: wiki 3.5000"


def test_the_time_of_all_attempts_is_kept_with_the_logs(state):
    state.log_history = [
        {"loss": 1.0, "seconds": 100.0},
        {"loss": 0.9},
    ]  # one was killed
    progress = ProgressLines(Settings())
    progress.on_train_begin(None, state, None)
    progress.begun -= 10
    state.log_history.append({"loss": 0.8})
    progress.on_log(None, state, None, logs={"loss": 0.8})
    assert spent(state.log_history) == pytest.approx(110, abs=1)
    assert spent([]) == 0


def test_the_lines_of_a_task_tell_examples_and_scores(state, capsys):
    lines = StepLines(steps=50, units=8, unit="examples", remedy="lower --rate")
    lines.on_train_begin(None, state, None)
    lines.begun -= 10
    state.global_step = 10
    lines.on_log(None, state, None, logs={"loss": 0.5})
    lines.on_log(None, state, None, logs={"eval_accuracy": 0.75, "eval_macro_f1": 0.5})
    assert capsys.readouterr().err.splitlines() == [
        "step 10/50  loss 0.5000  8 examples/s  0:00:40 left",
        "step 10/50  accuracy 0.7500  macro_f1 0.5000",
    ]
    with pytest.raises(RunError, match="the loss became inf at step 10: lower --rate; the last checkpoint"):
        lines.on_log(None, state, None, logs={"loss": float("inf")})


def test_another_process_writes_nothing(state, capsys):
    state.is_world_process_zero = False
    ProgressLines(Settings()).on_log(None, state, None, logs={"loss": 1.0, "eval_wiki_loss": 3.5})
    assert capsys.readouterr().err == ""


def test_a_loss_that_is_no_number_stops_the_run(state):
    with pytest.raises(RunError, match="lower encoder_lr"):
        ProgressLines(Settings()).on_log(None, state, None, logs={"loss": float("nan")})


def test_every_checkpoint_is_logged_so_that_no_mean_spans_a_resumption(state):
    progress = ProgressLines(Settings(save_steps=5))
    control = SimpleNamespace(should_log=False)
    state.global_step = 4
    progress.on_step_end(None, state, control)
    assert not control.should_log
    state.global_step = 5
    progress.on_step_end(None, state, control)
    assert control.should_log
