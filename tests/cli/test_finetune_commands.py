"""`unmask finetune` from the command line: learn, predict, evaluate, and say no in one line."""

import json

import pytest

import task_toy as toy


@pytest.fixture(scope="module")
def models(tmp_path_factory, checkpoint):
    """A model of each kind, made by the library; the commands are the same thing in other words."""
    from unmask.tasks import finetune

    home = tmp_path_factory.mktemp("models")
    return {
        task: finetune(
            toy.settings(home / task, checkpoint("bert"), task, epochs=2), home / f"{task}-run"
        ).model
        for task in ("classify", "pairs", "tag")
    }


def test_a_model_is_learned_and_put_to_work(tmp_path, checkpoint, run):
    data = toy.write(tmp_path, "classify")
    made = run(
        *(
            "finetune",
            "classify",
            "--train",
            data,
            "--dev",
            data,
            "-o",
            tmp_path / "run",
            "--fresh",
            "--json",
        ),
        *("-m", checkpoint("bert"), "--epochs", 6, "--batch-size", 8, "--lr", 3e-3, "--dropout", 0),
    )
    answer = json.loads(made.out)
    assert answer["dev"]["overall"]["accuracy"] > 0.9
    assert "step 41/41" in made.err
    new = tmp_path / "new.jsonl"
    new.write_text('{"text": "the old dog walks"}\n{"text": "a red bank is"}\n')
    said = run("finetune", "predict", answer["model"], new)
    lines = [json.loads(line) for line in said.out.splitlines()]
    assert [line["label"] for line in lines] == ["animal", "thing"]
    scored = json.loads(run("finetune", "evaluate", answer["model"], data, "--json").out)
    assert scored["overall"] == answer["dev"]["overall"]
    table = run("finetune", "evaluate", answer["model"], data).out
    assert f"accuracy {scored['overall']['accuracy']:.4f}" in table


@pytest.mark.parametrize(
    ("task", "keys"), [("pairs", {"texts", "label", "probabilities"}), ("tag", {"words", "tags", "entities"})]
)
def test_predictions_are_json_lines(models, task, keys, run):
    data = next((models[task].parent.parent / task).iterdir())
    said = run("finetune", "predict", models[task], data)
    lines = [json.loads(line) for line in said.out.splitlines()]
    assert lines
    assert all(set(line) == keys for line in lines)


def refused(outcome, message):
    assert outcome.code == 2
    assert message in outcome.line


def test_unknown_labels_at_evaluation_are_named_with_their_line(tmp_path, models, run):
    (tmp_path / "e.tsv").write_text("text\tlabel\nthe dog\tanimal\nthe dog\tbeast\n")
    refused(
        run("finetune", "evaluate", models["classify"], tmp_path / "e.tsv"),
        "line 3: the label 'beast' was not",
    )
    (tmp_path / "e.conll").write_text("the\tO\ndog\tB-PER\n")
    refused(
        run("finetune", "evaluate", models["tag"], tmp_path / "e.conll"),
        "line 2: the label 'B-PER' ('dog') was not",
    )


def test_broken_tags_at_evaluation_are_named_or_mended(tmp_path, models, run):
    (tmp_path / "e.conll").write_text("the\tO\ndog\tI-ANI\n\ncasino\tB-LOC\n")
    refused(
        run("finetune", "evaluate", models["tag"], tmp_path / "e.conll"),
        "line 2: 'I-ANI' ('dog') breaks the scheme bio",
    )
    mended = run("finetune", "evaluate", models["tag"], tmp_path / "e.conll", "--repair", "--json")
    assert json.loads(mended.out)["notes"] == [
        f"{tmp_path / 'e.conll'}: repaired 1 sentence that broke the scheme bio"
    ]


def test_long_texts_are_counted(tmp_path, models, run):
    (tmp_path / "e.tsv").write_text(f"text\tlabel\n{'the dog ' * 60}\tanimal\n")
    told = run("finetune", "evaluate", models["classify"], tmp_path / "e.tsv")
    line = "1 texts are longer than max_length and were cut at the end"
    assert line in told.err
    predicted = run("finetune", "predict", models["classify"], tmp_path / "e.tsv")
    assert line in predicted.err
    assert json.loads(predicted.out)["label"] in ("animal", "thing", "place")
    for command in ("predict", "evaluate"):
        refused(
            run("finetune", command, models["classify"], tmp_path / "e.tsv", "--long", "refuse"),
            "e.tsv, line 2: longer than max_length, which is 64 tokens: --long split or truncate mends that",
        )
    split = run("finetune", "predict", models["classify"], tmp_path / "e.tsv", "--long", "split")
    assert "were split into pieces" in split.err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file is empty"),
        ("text\tlabel\nthe dog\tx\na cat\tx\n", "every example has the label 'x'"),
        ("words\tclass\nthe dog\tx\n", "there is no column 'label'"),
    ],
)
def test_files_that_can_not_be_learned_from_leave_nothing_behind(tmp_path, bert, run, content, message):
    (tmp_path / "t.tsv").write_text(content)
    outcome = run("finetune", "classify", "--train", tmp_path / "t.tsv", "-o", tmp_path / "run", "-m", bert)
    refused(outcome, message)
    assert not (tmp_path / "run").exists()


def test_an_empty_file_or_a_missing_column_at_prediction_is_refused(tmp_path, models, run):
    (tmp_path / "n.jsonl").write_text("")
    refused(run("finetune", "predict", models["classify"], tmp_path / "n.jsonl"), "the file is empty")
    (tmp_path / "n.tsv").write_text("premise\nthe dog\n")
    refused(
        run("finetune", "predict", models["pairs"], tmp_path / "n.tsv"),
        "line 2: there is no column 'hypothesis', only premise: mend the file, or name the column with "
        "--second",
    )
    refused(run("finetune", "predict", tmp_path, tmp_path / "n.tsv"), "holds no task.json")


def test_the_texts_of_a_pair_keep_their_places_whatever_the_order_of_the_columns(tmp_path, bert, run):
    rows = [{"question": "the dog is", "answer": "a cat was", "label": label} for label in "xy"]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "dev.csv").write_text("answer,label,question\na cat was,x,the dog is\n")
    run(
        *("finetune", "pairs", "--train", tmp_path / "t.jsonl", "--dev", tmp_path / "dev.csv", "-m", bert),
        *("-o", tmp_path / "run", "--epochs", 1),
    )
    (tmp_path / "n.csv").write_text("answer,question\na cat was,the dog is\n")
    said = run("finetune", "predict", tmp_path / "run" / "model", tmp_path / "n.csv")
    assert json.loads(said.out)["texts"] == ["the dog is", "a cat was"]
    (tmp_path / "o.csv").write_text("id,reply,asked\n7,a cat was,the dog is\n")
    refused(
        run("finetune", "predict", tmp_path / "run" / "model", tmp_path / "o.csv"), "no column 'question'"
    )
    named = ("--text", "asked", "--second", "reply")
    said = run("finetune", "predict", tmp_path / "run" / "model", tmp_path / "o.csv", *named)
    assert json.loads(said.out)["texts"] == ["the dog is", "a cat was"]


def test_the_entities_of_the_file_are_the_truth_even_where_the_tagger_merges_neighbours(tmp_path, bert, run):
    (tmp_path / "t.conll").write_text("the\tO\ndog\tB-X\ncat\tB-X\n\na\tO\ncat\tB-X\n")
    (tmp_path / "dev.conll").write_text(
        "the\tO\ndog\tB-X\ncat\tB-X\n\u200d\tO\n" + "the\tO\n" * 9 + "cat\tB-X\n", encoding="utf-8"
    )
    command = (
        *("finetune", "tag", "--train", tmp_path / "t.conll", "--dev", tmp_path / "dev.conll", "-m", bert),
        *("-o", tmp_path / "run", "--to-scheme", "io", "--max-length", 8, "--epochs", 1, "--json"),
    )
    refused(run(*command, "--long", "refuse"), "dev.conll, line 1: longer than max_length, which is 8 tokens")
    made = run(*command)  # the refusal is not in its way
    answer = json.loads(made.out)
    assert answer["dev"]["by_label"]["X"]["support"] == 3
    assert answer["notes"][-2:] == [
        "1 development texts are longer than max_length and were split into pieces",
        "of 1 word in development texts the tokenizer leaves nothing to tag",
    ]
    scored = json.loads(run("finetune", "evaluate", answer["model"], tmp_path / "dev.conll", "--json").out)
    assert scored["by_label"] == answer["dev"]["by_label"]
    assert scored["overall"] == answer["dev"]["overall"]
