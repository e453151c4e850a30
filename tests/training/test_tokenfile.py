"""The token file: faithful to the text, reused while nothing changed, made anew when something did."""

import json

import numpy as np
import pytest

from unmask.errors import UsageError
from unmask.training import tokenfile
from unmask.training.corpus import Corpus


def test_documents_come_back_with_separators_between_paragraphs(toy_corpus, toy_tokenizer, toy_tokens):
    document = next(toy_corpus.documents())
    separator = toy_tokenizer.sep_token_id
    expected = []
    for paragraph in document:
        expected += [separator] * bool(expected) + toy_tokenizer(paragraph, add_special_tokens=False)[
            "input_ids"
        ]
    assert toy_tokens.document(0).tolist() == expected
    assert toy_tokens.documents == 400


def test_a_fresh_file_is_not_written_again_but_a_changed_text_is(tmp_path, toy_tokenizer, monkeypatch):
    text = tmp_path / "text.txt"
    text.write_text("the jax nax vax the nax .\n")
    corpus, home = Corpus("text", text), tmp_path / "tokens"
    first = tokenfile.write(corpus, toy_tokenizer, home, "toy")
    monkeypatch.setattr(tokenfile, "encoded", lambda *_: pytest.fail("the text was tokenised again"))
    assert (
        tokenfile.write(corpus, toy_tokenizer, home, "toy").document(0).tolist() == first.document(0).tolist()
    )
    monkeypatch.undo()
    text.write_text("the nax .\n")
    again = tokenfile.write(corpus, toy_tokenizer, home, "toy")
    assert again.document(0).tolist() == toy_tokenizer("the nax .", add_special_tokens=False)["input_ids"]


def test_the_remains_of_a_killed_writer_are_made_anew(tmp_path, toy_corpus, toy_tokenizer, toy_tokens):
    home = tmp_path / "tokens"
    home.mkdir()
    (home / "ids.bin").write_bytes(b"half")
    again = tokenfile.write(toy_corpus, toy_tokenizer, home, "toy")
    assert (again.ids == toy_tokens.ids).all()
    assert json.loads((home / "about.json").read_text())["tokens"] == len(toy_tokens.ids)


def test_one_document_in_so_many_is_kept_for_evaluation(toy_tokens):
    trained, held = tokenfile.split(toy_tokens, 100, offset=50)
    assert held.tolist() == [50, 150, 250, 350]
    assert sorted([*trained, *held]) == list(range(400))
    everything, none = tokenfile.split(toy_tokens, 0)
    assert len(everything) == 400
    assert len(none) == 0


def test_evaluating_on_more_than_there_is_is_refused(toy_tokens):
    few = tokenfile.TokenFile("few", toy_tokens.ids, toy_tokens.starts[:6], np.zeros(1, dtype=np.int64))
    with pytest.raises(UsageError, match="evaluate on one in 100"):
        tokenfile.split(few, 100, offset=50)
