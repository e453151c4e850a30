"""What is learned and what is held out: no text in both, and a word about labels with almost no examples."""

import pytest

from unmask.errors import UsageError
from unmask.tasks import Settings
from unmask.tasks.examples import gather


def examples(tmp_path, rows, dev=None):
    train = tmp_path / "t.tsv"
    train.write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
    held = None
    if dev is not None:
        held = tmp_path / "dev.tsv"
        held.write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in dev))
    return gather(Settings(task="classify", train=str(train), dev=None if held is None else str(held)))


def texts(some):
    return {example.texts for example in some}


def test_no_text_is_both_learned_and_held_out(tmp_path):
    """Every text stands three times in the file, and all three go one way."""
    rows = [(f"text {n % 20}", "ab"[n % 2]) for n in range(60)]
    found = examples(tmp_path, rows)
    assert len(found.train) + len(found.dev) == 60
    assert not texts(found.train) & texts(found.dev)
    assert len(found.dev) == 6  # a tenth, two texts of three copies


def test_a_text_with_too_many_copies_is_learned(tmp_path):
    rows = [("often", "a")] * 30 + [(f"text {n}", "b") for n in range(10)]
    found = examples(tmp_path, rows)
    assert ("often",) in texts(found.train)
    assert len(found.dev) == 4
    pairs = examples(tmp_path, [("one", "a")] * 3 + [("two", "b")] * 2)  # no text fits a tenth
    assert texts(pairs.dev) == {("two",)}


def test_sentences_of_tagged_words_are_parted_alike(tmp_path):
    path = tmp_path / "t.conll"
    path.write_text("".join(f"word{n % 15}\tO\nname\tB-X\n\n" for n in range(30)))
    found = gather(Settings(task="tag", train=str(path)))
    learned, held = ({tuple(one.words) for one in some} for some in (found.train, found.dev))
    assert held
    assert not learned & held


def test_one_text_alone_cannot_be_split(tmp_path):
    with pytest.raises(UsageError, match="all examples have one text"):
        examples(tmp_path, [("same", "a"), ("same", "b")] * 5)


def test_labels_with_almost_no_examples_are_named_with_their_counts(tmp_path):
    rows = [(f"text {n}", "common") for n in range(100)] + [("odd", "rare"), ("queer", "rare")]
    notes = examples(tmp_path, rows).notes
    (learned,) = (note for note in notes if "to learn from" in note)
    (held,) = (note for note in notes if "to evaluate on" in note)
    assert "'rare'" in learned
    assert "'common'" not in learned
    assert "'rare' (" in held
    enough = [(f"text {n}", "ab"[n % 2]) for n in range(200)]
    assert not any("fewer than" in note for note in examples(tmp_path, enough).notes)


def test_texts_of_the_dev_file_that_are_learned_are_counted(tmp_path):
    rows = [(f"text {n}", "ab"[n % 2]) for n in range(20)]
    notes = examples(tmp_path, rows, dev=[*rows[:3], ("new", "a")]).notes
    assert any("3 examples of 4 stand in the training file" in note for note in notes)
    assert not any("stand in" in note for note in examples(tmp_path, rows, dev=[("new", "a")]).notes)
