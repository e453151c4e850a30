"""The harness, as installed, scores masked language models by their chains."""

import json
import math
import sys
from types import SimpleNamespace

import pytest

pytest.importorskip("lm_eval", reason="lm-evaluation-harness is not here: pip install 'unmask[lm-eval]'")

from lm_eval.evaluator import simple_evaluate
from lm_eval.tasks import TaskManager

import unmask
import unmask.integrations.lm_eval as integration
from tiny import save_causal
from unmask.errors import UsageError
from unmask.evaluation.benchmarks.blimp import run_blimp
from unmask.evaluation.score_file import ScoreSettings
from unmask.integrations.lm_eval import UnmaskLM

PAIRS = [
    ("The cats are sleeping.", "The cats is sleeping."),
    ("The dog barks at the man.", "The dog bark at the man."),
    ("These boys play in the park.", "These boy play in the park."),
    ("She has eaten the apple.", "She has ate the apple."),
    ("The women are walking to work.", "The women is walking to work."),
    ("He gave himself a book.", "He gave herself a book."),
    ("A child is holding two balls.", "A child is holding two ball."),
    ("The man who sings is old.", "The man who sing is old."),
]
TASK = """
task: pairs
dataset_path: json
dataset_kwargs: {{data_files: {data}, cache_dir: {cache}}}
output_type: multiple_choice
validation_split: train
doc_to_text: ""
doc_to_target: 0
doc_to_choice: "{{{{[sentence_good, sentence_bad]}}}}"
num_fewshot: 0
metric_list:
  - metric: acc
"""


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    """A directory with pairs as BLiMP has them, and the harness's task that reads them."""
    root = tmp_path_factory.mktemp("task")
    fields = {"UID": "agreement", "linguistics_term": "agreement"}
    lines = [json.dumps({"sentence_good": good, "sentence_bad": bad, **fields}) for good, bad in PAIRS]
    (root / "pairs.jsonl").write_text("\n".join(lines), encoding="utf-8")
    text = TASK.format(data=root / "pairs.jsonl", cache=root / "cache")
    (root / "pairs.yaml").write_text(text, encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def model():
    return UnmaskLM("english", device="cpu")


def ask(*requests):
    return [SimpleNamespace(args=request) for request in requests]


@pytest.mark.parametrize("metric", ["chain", "pll"])
def test_the_harness_gives_the_accuracy_of_benchmark_blimp(metric, task):
    found = simple_evaluate(
        model="unmask",
        model_args=f"pretrained=english,metric={metric}",
        tasks=["pairs"],
        task_manager=TaskManager(include_path=str(task), include_defaults=False),
        device="cpu",
        bootstrap_iters=0,
    )
    ours = run_blimp(task, ScoreSettings(scores=(metric,), device="cpu"))
    assert found["results"]["pairs"]["acc,none"] == pytest.approx(ours["accuracy"]["all"][metric]["value"])
    (share,) = {len(samples) for samples in found["samples"].values()}
    assert share == len(PAIRS)


def test_a_likelihood_is_the_chain_given_its_context(model):
    requests = [("", "The cats are sleeping."), ("The cats are", " sleeping."), ("The", " cats")]
    found = model.loglikelihood(ask(*requests), disable_tqdm=True)
    for (context, text), (log_prob, greedy) in zip(requests, found, strict=True):
        rows = unmask.score_sentences(text, "chain", prefix=context, mlm=model.lm, per="token")
        assert log_prob == pytest.approx(math.fsum(row.log_prob for row in rows), abs=1e-4)
        assert greedy == all(row.rank == 1 for row in rows)
    (best,) = unmask.fill("The man is at the [MASK]", mlm=model.lm, support="all").top(1)
    greedy = [("The man is at the", f" {best.tokens[0]}"), ("The man is at the", " xylophone"), ("", "")]
    answers = model.loglikelihood(ask(*greedy), disable_tqdm=True)
    assert [answer[1] for answer in answers] == [True, False, True]
    assert answers[0][0] == pytest.approx(best.log_prob, abs=1e-4)
    assert answers[2][0] == 0


def test_long_contexts_lose_their_beginning_and_long_texts_are_cut(checkpoint):
    model = UnmaskLM(str(checkpoint("bert")), device="cpu")
    room = model.lm.window - 2
    words = ["the", "old", "man", "is", "at", "the", "casino"] * 20
    whole = model.loglikelihood(ask((" ".join(words), " dog")), disable_tqdm=True)
    kept = model.loglikelihood(ask((" ".join(words[1 - room :]), " dog")), disable_tqdm=True)
    assert whole[0][0] == pytest.approx(kept[0][0], abs=1e-5)
    with pytest.raises(UsageError, match="window"):
        model.loglikelihood(ask(("", " ".join(words))), disable_tqdm=True)
    rolled = model.loglikelihood_rolling(ask((" ".join(words),), ("a dog",), ("",)), disable_tqdm=True)
    first, *rest = [words[:room], *(words[n : n + room // 2] for n in range(room, len(words), room // 2))]
    expected = unmask.score_sentences(" ".join(first), "chain", mlm=model.lm)[0].log_prob
    done = len(first)
    for part in rest:
        before = words[done + len(part) - room : done]
        rows = unmask.score_sentences(" ".join(part), "chain", prefix=" ".join(before), mlm=model.lm)
        expected += rows[0].log_prob
        done += len(part)
    assert done == len(words)
    assert rolled[0] == pytest.approx(expected, abs=1e-3)
    assert rolled[1] == pytest.approx(unmask.score_sentences("a dog", "chain", mlm=model.lm)[0].log_prob)
    assert rolled[2] == 0


def test_a_causal_checkpoint_stands_beside(tmp_path):
    model = UnmaskLM(str(save_causal(tmp_path)), device="cpu")
    ((log_prob, _),) = model.loglikelihood(ask(("The old man", " is")), disable_tqdm=True)
    rows = unmask.score_sentences("is", "chain", prefix="The old man", mlm=model.lm)
    assert log_prob == pytest.approx(rows[0].log_prob, abs=1e-5)


def test_bad_input_is_refused_in_one_line(checkpoint):
    bert = str(checkpoint("bert"))
    for options, said in (
        ({"metric": "bleu"}, "unknown score"),
        ({"orders": 0}, "orders"),
        ({"precision": "half"}, "no argument 'precision'"),
    ):
        with pytest.raises(UsageError, match=said):
            UnmaskLM(bert, **options)
    model = UnmaskLM(bert, metric="pll", device="cpu")
    with pytest.raises(UsageError, match="distribution"):
        model.loglikelihood_rolling(ask(("a dog",)))
    with pytest.raises(UsageError, match="does not write"):
        model.generate_until(ask(("a dog", {})))


def test_the_command_line_knows_the_model(task, monkeypatch, capsys):
    """It gets as far as the model's own refusal, in one line and with the code of misuse."""
    command = ["lm_eval", "run", "--model", "unmask", "--include_path", str(task), "--tasks", "pairs"]
    monkeypatch.setattr(sys, "argv", [*command, "--model_args", "metric=bleu"])
    with pytest.raises(SystemExit) as left:
        integration.main()
    assert left.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("error: unknown score")
