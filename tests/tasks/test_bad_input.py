"""Files that can't be learned from: one clear line each, with the place, and nothing left behind."""

import json
from dataclasses import replace

import pytest

from unmask.errors import UsageError
from unmask.tasks import Settings
from unmask.tasks.examples import gather
from unmask.tasks.files import Columns, read_examples, read_tagged

GOOD = "text\tlabel\nthe dog\tanimal\na house\tthing\n"
BROKEN = "the\tO\ndog\tI-X\n\na\tO\ncat\tB-X\n"


def settings(tmp_path, name, content, task="classify", **changes):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    return Settings(task=task, train=str(path), dev=str(path), **changes)


@pytest.mark.parametrize(
    ("name", "content", "task", "message"),
    [
        ("t.tsv", "", "classify", "the file is empty"),
        ("t.tsv", "text\tlabel\n", "classify", "the file is empty"),
        ("t.conll", "\n\n", "tag", "the file is empty"),
        ("t.jsonl", "", "pairs", "the file is empty"),
        (
            "t.tsv",
            "text\tclass\nthe dog\tanimal\n",
            "classify",
            "line 2: there is no column 'label', only text, class",
        ),
        ("t.tsv", "review\tid\tlabel\na\t1\tb\n", "classify", "line 2: there is no column 'text'"),
        ("t.csv", "a,b,c,label\n1,2,3,x\n", "pairs", "expected two columns of texts, found a, b, c"),
        ("t.jsonl", '{"premise": "a", "label": "x"}', "pairs", "found premise"),
        (
            "t.jsonl",
            '{"text": "a", "label": "x"}\n{"label": "y"}',
            "classify",
            "line 2: there is no column 'text'",
        ),
        ("t.tsv", "text\tlabel\nthe dog\n", "classify", "line 2: expected 2 columns"),
        ("t.tsv", "text\tlabel\nthe dog\t\n", "classify", "line 2: the column 'label' is empty"),
        ("t.tsv", "text\tlabel\n \tx\n", "classify", "line 2: the text is empty"),
        ("t.jsonl", "[1]", "classify", "line 1: expected a JSON object"),
        ("t.jsonl", "{", "classify", "line 1: expected a JSON object"),
        ("t.xlsx", "x", "classify", "ends in .tsv, .csv or .jsonl"),
        ("t.tsv", "text\tlabel\na\tx\nb\tx\n", "classify", "every example has the label 'x'"),
        ("t.conll", "the\tO\ndog\tO\n", "tag", "every word has the tag 'O'"),
        ("t.conll", "the\n", "tag", "line 1: expected a word and its tag"),
        ("t.conll", "the\tDET\n", "tag", "line 1: expected a tag such as B-PER"),
        ("t.conll", BROKEN, "tag", "line 2: 'I-X' ('dog') breaks the scheme bio, which has 'B-X' there"),
        (
            "t.jsonl",
            '{"words": ["a"], "tags": []}',
            "tag",
            'line 1: expected "tags", one for each of 1 word',
        ),
        (
            "t.jsonl",
            '{"words": ["a"], "tags": ["O"]}\n{"words": ["b", "c", "e"], "tags": ["O", "O", "E-X"]}',
            "tag",
            "line 2: 'E-X' ('e') breaks the scheme bioes",
        ),
        (
            "t.jsonl",
            '{"words": ["a"], "tags": ["O"]}\n{"words": ["b", "c"], "tags": ["O", "DET"]}',
            "tag",
            "line 2: expected a tag such as B-PER, I-PER or O, got 'DET' ('c')",
        ),
        ("t.csv", "text,text,label\na,b,x\n", "classify", "line 1: several columns are called 'text'"),
        ("t.csv", 'text,label\na,x\n"b,y\nc,x\nd,y\n', "classify", "line 3: can't be read as a table"),
        ("t.csv", 'text,label\n"a\nb",x,z\nc,y\n', "classify", "line 2: expected 2 columns"),
        ("t.csv", "text,label\na,x\nb\0c,y\n", "classify", "line 3: expected text, got a NUL byte"),
        ("t.conll", "the\tO\nd\0g\tB-X\n", "tag", "line 2: expected text, got a NUL byte"),
        (
            "t.jsonl",
            '{"text": ["x", "y"], "label": "a"}',
            "classify",
            'line 1: expected \'text\' to be a text, got ["x", "y"]',
        ),
        ("t.jsonl", '{"text": "x", "label": {"a": 1}}', "classify", "expected 'label' to be a text"),
        ("t.jsonl", '{"words": "a b", "tags": ["O"]}', "tag", 'expected "words", a list'),
    ],
)
def test_a_bad_training_file_is_refused_with_the_place(tmp_path, name, content, task, message):
    with pytest.raises(UsageError) as refusal:
        gather(settings(tmp_path, name, content, task))
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_broken_tags_are_repaired_when_that_is_asked_for(tmp_path):
    examples = gather(settings(tmp_path, "t.conll", BROKEN, "tag", repair=True))
    assert [sentence.tags for sentence in examples.train] == [["O", "B-X"], ["O", "B-X"]]
    assert any("repaired 1 sentence that broke the scheme bio" in note for note in examples.notes)


def test_an_unknown_label_of_the_development_file_is_named(tmp_path):
    (tmp_path / "dev.tsv").write_text("text\tlabel\na house\tthing\na dog\tbeast\n")
    wanted = replace(settings(tmp_path, "t.tsv", GOOD), dev=str(tmp_path / "dev.tsv"))
    with pytest.raises(
        UsageError, match="line 3: the label 'beast' was not in the training data, which has animal"
    ):
        gather(wanted)


def test_the_only_column_of_text_is_remembered_by_its_name(tmp_path):
    content = GOOD.replace("text\t", "review\t")
    assert gather(settings(tmp_path, "t.tsv", content)).columns == Columns("review", None, "label")
    (tmp_path / "dev.tsv").write_text("id\treview\tlabel\n7\ta house\tthing\n")
    wanted = replace(settings(tmp_path, "t.tsv", content), dev=str(tmp_path / "dev.tsv"))
    assert [example.texts for example in gather(wanted).dev] == [("a house",)]


def test_a_tenth_is_held_out_where_no_file_is_given(tmp_path):
    content = "text\tlabel\n" + "".join(f"text {i}\t{'ab'[i % 2]}\n" for i in range(40))
    wanted = replace(settings(tmp_path, "t.tsv", content), dev=None)
    examples = gather(wanted)
    assert (len(examples.train), len(examples.dev)) == (36, 4)
    assert not {e.texts for e in examples.train} & {e.texts for e in examples.dev}
    assert gather(wanted).dev == examples.dev
    assert gather(replace(wanted, seed=1)).dev != examples.dev


@pytest.mark.parametrize(
    "changes",
    [
        {"task": "translate"},
        {"long": "wrap"},
        {"scheme": "iobes"},
        {"class_weights": "sqrt"},
        {"epochs": 0},
        {"batch_size": 0},
        {"lr": 0.0},
        {"head_lr": 0.0},
        {"dropout": 1.0},
        {"seed": -1},
        {"task": "pairs", "long": "split"},
    ],
)
def test_settings_that_can_not_be_are_refused(changes):
    with pytest.raises(UsageError):
        Settings(**{"task": "classify", "train": "t.tsv"} | changes)


def test_a_run_is_another_one_when_a_file_holds_something_else_in_as_many_bytes(tmp_path):
    before = settings(tmp_path, "t.tsv", GOOD).to_dict()
    swapped = GOOD.replace("dog\tanimal", "dog\tthing").replace("house\tthing", "house\tanimal")
    assert len(swapped) == len(GOOD)
    after = settings(tmp_path, "t.tsv", swapped).to_dict()
    assert {name for name in before if before[name] != after[name]} == {"train_digest", "dev_digest"}


def test_tables_of_every_kind_hold_the_same_examples(tmp_path):
    rows = [{"text": 'the "old" dog, big', "label": "a"}, {"text": "a cat", "label": "b"}]
    (tmp_path / "t.tsv").write_text("text\tlabel\n" + "\n".join("\t".join(r.values()) for r in rows))
    (tmp_path / "t.csv").write_text('label,text\na,"the ""old"" dog, big"\nb,a cat\n')
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    import gzip

    with gzip.open(tmp_path / "t.tsv.gz", "wt") as stream:
        stream.write((tmp_path / "t.tsv").read_text())
    for name in ("t.tsv", "t.csv", "t.jsonl", "t.tsv.gz"):
        found = read_examples(tmp_path / name, pairs=False, columns=Columns(), labelled=True)
        assert [{"text": e.texts[0], "label": e.label} for e in found] == rows


def test_conll_files_may_have_more_columns_and_document_marks(tmp_path):
    (tmp_path / "t.conll").write_text("-DOCSTART- -X- O\n\nEU NNP B-ORG\nsays VBZ O\n\nBonn NNP B-LOC\n")
    found = read_tagged(tmp_path / "t.conll", labelled=True)
    assert [(s.line, s.words, s.tags) for s in found] == [
        (3, ["EU", "says"], ["B-ORG", "O"]),
        (6, ["Bonn"], ["B-LOC"]),
    ]
    parts = read_tagged(tmp_path / "t.conll", labelled=True, tag_column=1)
    assert parts[0].tags == ["NNP", "VBZ"]
    with pytest.raises(UsageError, match="no column 7 for the tag"):
        read_tagged(tmp_path / "t.conll", labelled=True, tag_column=7)


CONLLU = """\
# sent_id = 1
# text = im Haus
1-2\tim\t_\t_
1\tin\tin\tADP
2\tdem\tder\tDET
2.1\tunsaid\t_\t_
3\tHaus\tHaus\tNOUN

# sent_id = 2
1\t#\t#\tSYM
2\t# 5\t#\tI-X
"""


def test_comments_ranges_and_empty_nodes_of_conllu_are_no_words(tmp_path):
    (tmp_path / "t.conllu").write_text(CONLLU)
    first, second = read_tagged(tmp_path / "t.conllu", labelled=True, word_column=1, tag_column=3)
    assert (first.words, first.tags) == (["in", "dem", "Haus"], ["ADP", "DET", "NOUN"])
    assert [first.line, *map(first.line_of, range(3))] == [4, 4, 5, 7]
    assert (second.words, second.line_of(1)) == (["#", "# 5"], 11)
    (tmp_path / "plain.conll").write_text("1-2\tO\n#\tO\n# 5\tO\n")
    (plain,) = read_tagged(tmp_path / "plain.conll", labelled=True)
    assert plain.words == ["1-2", "#", "# 5"]


def test_numbers_may_be_labels_and_texts(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"text": 7, "label": 1}\n{"text": "x", "label": true}\n')
    found = read_examples(tmp_path / "t.jsonl", pairs=False, columns=Columns(), labelled=True)
    assert [(*example.texts, example.label) for example in found] == [("7", "1"), ("x", "True")]


def test_tags_are_converted_to_another_scheme_and_parts_of_speech_have_none(tmp_path):
    content = "the\tO\nold\tB-X\ndog\tI-X\ncat\tB-X\n"
    found = gather(settings(tmp_path, "t.conll", content, "tag", to_scheme="bioes"))
    assert found.train[0].tags == ["O", "B-X", "E-X", "S-X"]
    assert found.labels == ["O", "B-X", "I-X", "E-X", "S-X"]
    plain = gather(settings(tmp_path, "p.conll", "the\tDET\ndog\tNOUN\n", "tag", scheme="none"))
    assert (plain.labels, plain.scheme) == (["DET", "NOUN"], None)
    with pytest.raises(UsageError, match="these have none: leave it out"):
        settings(tmp_path, "p.conll", "the\tDET\ndog\tNOUN\n", "tag", scheme="none", to_scheme="bio")
