"""Fine-tuning as a whole: it learns, survives a kill, stops early, and others can open what it writes."""

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForTokenClassification, pipeline

import task_toy as toy
from tiny import ARCHITECTURES
from unmask.errors import RunError, UsageError
from unmask.models.checkpoint import open_with_head
from unmask.tasks import Settings, TunedModel, finetune
from unmask.tasks import report as task_report
from unmask.tasks.encoding import IGNORED
from unmask.tasks.examples import gather
from unmask.tasks.files import Example
from unmask.tasks.loop import TaskTrainer, exhausted, order_of_epochs
from unmask.tasks.predict import kind_of
from unmask.tasks.run import class_weights
from unmask.training import report as training_report

SCRIPT = Path(__file__).parent / "run_settings.py"


@pytest.fixture(scope="module")
def learned(tmp_path_factory, checkpoint):
    """A tiny BERT fine-tuned for each task."""
    home = tmp_path_factory.mktemp("learned")
    epochs = {"classify": 6, "pairs": 24, "tag": 40}
    return {
        task: finetune(
            toy.settings(home / task, checkpoint("bert"), task, pretrained=False, epochs=n, licence="mit"),
            home / f"{task}-run",
        )
        for task, n in epochs.items()
    }


@pytest.mark.parametrize(("task", "metric"), [("classify", "accuracy"), ("pairs", "accuracy"), ("tag", "f1")])
def test_each_task_is_learned(learned, task, metric):
    assert learned[task].scores.overall[metric] > 0.95


@pytest.mark.parametrize("task", ["classify", "pairs", "tag"])
def test_the_written_model_scores_what_the_run_says(learned, task):
    result = learned[task]
    tuned = TunedModel.load(result.model, device="cpu")
    data = next((result.model.parent.parent / task).iterdir())
    scores, notes = tuned.evaluate_file(data)
    assert scores == result.scores
    assert json.loads((result.model / "results.json").read_text())["dev"] == scores.record()
    assert all("longer" not in note for note in notes)
    card = (result.model / "README.md").read_text()
    for part in ("license: mit", data.name, "fresh weights", f"{next(iter(scores.overall.values())):.3f}"):
        assert part in card
    assert (result.model / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_predictions_hold_labels_and_probabilities_or_tags_and_entities(learned):
    tuned = TunedModel.load(learned["classify"].model, device="cpu")
    (answer,) = tuned.answers([Example(1, ("the old dog walks",), "a label that is not looked at")])
    assert answer["label"] == "animal"
    assert sum(answer["probabilities"].values()) == pytest.approx(1)
    assert max(answer["probabilities"], key=answer["probabilities"].get) == "animal"
    tagger = TunedModel.load(learned["tag"].model, device="cpu")
    data = next((learned["tag"].model.parent.parent / "tag").iterdir())
    first = next(tagger.predict_file(data)[0])
    found = [" ".join(entity["words"]) for entity in first["entities"]]
    assert len(first["tags"]) == len(first["words"])
    assert all(set(name.split()) & {*toy.ANIMALS, *toy.PLACES} for name in found)
    assert found


def test_the_written_model_is_an_ordinary_checkpoint(learned):
    """transformers' own pipeline agrees with the answers."""
    tuned = TunedModel.load(learned["classify"].model, device="cpu")
    theirs = pipeline("text-classification", str(learned["classify"].model), device="cpu")
    for text in ("the old dog walks", "a red bank is", "the casino is"):
        (ours,) = tuned.answers([Example(1, (text,), None)])
        (answer,) = theirs(text)
        assert answer["label"] == ours["label"]
        assert answer["score"] == pytest.approx(ours["probabilities"][ours["label"]], abs=1e-5)
    labels = AutoModelForTokenClassification.from_pretrained(learned["tag"].model).config.id2label
    assert set(labels.values()) == {"O", "B-ANI", "I-ANI", "B-LOC", "I-LOC"}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_can_be_fine_tuned(tmp_path, architecture, checkpoint):
    path = tmp_path / "few.conll"
    words = ["MKT", "AYI", "AKQR"] if architecture == "esm" else ["the", "playing", "dog"]
    path.write_text(
        "\n".join(f"{w}\t{t}" for w, t in zip(words * 2, ["O", "B-X", "I-X"] * 2, strict=True))
        + "\n\n"
        + f"{words[0]}\tO\n"
    )
    settings = Settings(
        task="tag",
        train=str(path),
        dev=str(path),
        model=str(checkpoint(architecture)),
        epochs=2,
        batch_size=2,
    )
    result = finetune(settings, tmp_path / "run")
    tuned = TunedModel.load(result.model, device="cpu")
    assert tuned.evaluate_file(path)[0] == result.scores
    texts = tmp_path / "few.csv"
    texts.write_text(f"text,label\n{words[0]} {words[1]},a\n{words[2]},b\n")
    run = finetune(replace(settings, task="classify", train=str(texts), dev=str(texts)), tmp_path / "texts")
    assert TunedModel.load(run.model, device="cpu").evaluate_file(texts)[0] == run.scores


@pytest.fixture
def one_thread():
    """Sums depend on how threads share them out: here as in `environment`."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def environment():
    return {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


@pytest.mark.usefixtures("one_thread")
def test_two_processes_learn_what_one_learns(tmp_path, checkpoint):
    settings = toy.settings(tmp_path / "data", checkpoint("bert"), epochs=3, pretrained=False)
    (tmp_path / "settings.json").write_text(json.dumps(asdict(settings)))
    alone = finetune(settings, tmp_path / "one")
    launcher = ("-m", "accelerate.commands.launch", "--cpu", "--num_processes", "2", "--num_machines", "1")
    command = [sys.executable, *launcher, str(SCRIPT), str(tmp_path / "settings.json"), str(tmp_path / "two")]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    losses = [line for line in done.stderr.splitlines() if line.startswith("step 21/21  loss")]
    assert len(losses) == 1  # one of the two reports
    results = json.loads((tmp_path / "two" / "model" / "results.json").read_text())
    assert results["dev"]["overall"] == pytest.approx(alone.scores.overall, abs=0.05)
    one, two = (
        TunedModel.load(tmp_path / name / "model", device="cpu").model.state_dict() for name in ("one", "two")
    )
    for name, weight in one.items():
        torch.testing.assert_close(weight, two[name], atol=1e-3, rtol=1e-2)


@pytest.mark.parametrize(
    ("task", "head"), [("tag", ("classifier",)), ("classify", ("classifier", "bert.pooler.dense"))]
)
def test_a_head_rate_moves_the_head_alone(tmp_path, checkpoint, task, head):
    """With hardly any rate of its own the body stays, while the head learns; weight decay stays as it was."""
    options = {"lr": 1e-12, "epochs": 2, "dropout": 0.0}
    runs = []
    for name, more in (("slow", {}), ("fast", {"head_lr": 1e-2})):
        settings = toy.settings(tmp_path / name, checkpoint("bert"), task, **options, **more)
        runs.append(TunedModel.load(finetune(settings, tmp_path / f"{name}-run").model).model.state_dict())
    slow, fast = runs
    moved = {name for name in slow if not torch.allclose(slow[name], fast[name], atol=1e-6)}
    assert moved == {f"{part}.{kind}" for part in head for kind in ("weight", "bias")}


def test_a_run_without_progress_stops_early_and_keeps_the_best(tmp_path, checkpoint):
    settings = toy.settings(
        tmp_path / "data", checkpoint("bert"), epochs=30, patience=2, lr=1e-9, eval_steps=2
    )
    result = finetune(settings, tmp_path / "run")
    evaluations = [entry for entry in result.history if "eval_accuracy" in entry]
    assert len(evaluations) == 3
    assert max(entry["step"] for entry in result.history) == 6
    (tmp_path / "run" / "model").rename(tmp_path / "first")  # as if killed before the result was written
    again = finetune(settings, tmp_path / "run")
    assert again.scores == result.scores
    assert max(entry["step"] for entry in again.history) == 6
    one, other = (TunedModel.load(path).model.state_dict() for path in (tmp_path / "first", again.model))
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    ("scores", "patience", "over"),
    [
        ([1, 2, 3], 1, False),
        ([3, 2], 1, True),
        ([3, 2, 4], 2, False),
        ([3, 3, 3], 2, True),
        ([3, 2], 0, False),
    ],
)
def test_patience_counts_evaluations_since_the_best(scores, patience, over):
    assert exhausted([{"eval_f1": score} for score in scores], "f1", patience) is over


def test_balanced_weights_give_every_class_the_same_sum(tmp_path, checkpoint):
    path = tmp_path / "t.tsv"
    path.write_text("text\tlabel\n" + "a dog\tmany\n" * 9 + "the cat\tfew\n")
    examples = gather(Settings(task="classify", train=str(path), dev=str(path)))
    weights = class_weights(examples, examples.labels)
    assert examples.labels == ["few", "many"]
    assert weights.tolist() == pytest.approx([10 / 2, 10 / 18])

    class Fixed(torch.nn.Module):
        def forward(self, logits):
            return type("Output", (), {"logits": logits})

    logits = torch.tensor([[0.3, -0.2], [1.0, 0.5], [0.0, 2.0]])
    labels = torch.tensor([0, 1, IGNORED])
    trainer = object.__new__(TaskTrainer)
    trainer.weights = weights
    loss = trainer.compute_loss(Fixed(), {"logits": logits, "labels": labels})
    each = -logits.log_softmax(-1)[torch.arange(2), labels[:2]]
    assert loss.item() == pytest.approx(
        ((weights[labels[:2]] * each).sum() / weights[labels[:2]].sum()).item()
    )


def test_every_row_is_learned_once_per_epoch_in_batches_of_like_lengths():
    import numpy as np

    lengths = np.array([3, 50, 4, 52, 5, 51, 6, 49, 7])
    order = order_of_epochs(lengths, 4, 1, 0)
    assert sorted(order) == list(range(9))
    batches = [lengths[order[:4]], lengths[order[4:8]]]
    assert {batch.max() < 10 for batch in batches} == {True, False} or any(b.min() > 8 for b in batches)
    several = order_of_epochs(lengths, 4, 3, 0)
    assert np.bincount(several).tolist() == [3] * 9
    assert several.tolist() == order_of_epochs(lengths, 4, 3, 0).tolist()
    assert sorted(order_of_epochs(lengths, 20, 2, 0)) == sorted([*range(9), *range(9)])  # less than a batch


def test_a_directory_of_another_run_is_refused_and_nothing_is_left_by_bad_files(tmp_path, checkpoint):
    settings = toy.settings(tmp_path / "data", checkpoint("bert"), epochs=1)
    finetune(settings, tmp_path / "run")
    with pytest.raises(UsageError, match=r"lr was 0\.003, now 0\.1"):
        finetune(replace(settings, lr=0.1), tmp_path / "run")
    with pytest.raises(UsageError, match=r"absent\.tsv does not exist"):
        finetune(replace(settings, train=str(tmp_path / "absent.tsv")), tmp_path / "new")
    assert not (tmp_path / "new").exists()
    with pytest.raises(RunError, match="the loss became"):
        finetune(replace(settings, lr=1e30), tmp_path / "lost")


def test_what_is_no_fine_tuned_model_is_refused(tmp_path, checkpoint):
    with pytest.raises(UsageError, match=r"holds no task\.json"):
        TunedModel.load(checkpoint("bert"))
    (tmp_path / "task.json").write_text("{")
    with pytest.raises(RunError, match="is damaged"):
        TunedModel.load(tmp_path)


def test_curves_start_at_the_first_step_and_at_no_loss(tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    starts = []
    monkeypatch.setattr(
        Figure,
        "savefig",
        lambda self, *_, **__: starts.append((self.axes[0].get_xlim()[0], self.axes[0].get_ylim()[0])),
    )
    tuned = [{"step": 50, "loss": 0.9}, {"step": 100, "loss": 0.8}, {"step": 100, "eval_accuracy": 0.7}]
    task_report.draw_curve(tuned, "accuracy", tmp_path / "curve.png")
    trained = [{"step": 100, "loss": 5.0}, {"step": 200, "loss": 4.0}, {"step": 200, "eval_wiki_loss": 4.5}]
    training_report.draw_curves(trained, tmp_path / "curves.png")
    assert starts == [(0, 0), (0, 0)]


@pytest.mark.parametrize("task", ["classify", "tag"])
def test_predictions_without_transformers_are_those_with_it(task, tmp_path, checkpoint):
    """A fine-tuned BERT is read by code of our own, which takes no seconds to import."""
    settings = toy.settings(tmp_path / "data", checkpoint("bert"), task, epochs=1)
    made = finetune(settings, tmp_path / "run").model
    light = TunedModel.load(made, device="cpu")
    assert type(light.model).__name__ == "LightTunedBert"
    model, tokenizer, _ = open_with_head(made, kind_of(task), {})
    full = TunedModel(model.eval(), tokenizer, light.record, device="cpu")
    examples, _ = light.predict_file(Path(settings.train))
    others, _ = full.predict_file(Path(settings.train))
    for one, other in zip(examples, others, strict=True):
        if task == "tag":
            assert one == other
        else:
            assert one["probabilities"] == pytest.approx(other["probabilities"], abs=1e-5)
    script = "import sys; from unmask.cli import main; sys.argv = ['unmask', *sys.argv[1:]]\n"
    script += "try:\n    main()\nfinally:\n    print('transformers' in sys.modules, file=sys.stderr)"
    command = [sys.executable, "-c", script, "finetune", "predict", str(made), settings.train]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert len(done.stdout.splitlines()) > 10
    assert done.stderr.splitlines()[-1] == "False"
