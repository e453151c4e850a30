"""Pairs for next-sentence prediction: half true continuations, half strangers, framed as in BERT."""

import numpy as np
import pytest

from unmask.errors import UsageError
from unmask.training.sentence_pairs import FOLLOWS, SentencePairs
from unmask.training.tokenfile import write


@pytest.fixture(scope="module")
def source(toy_tokens, marks):
    return SentencePairs(toy_tokens, np.arange(toy_tokens.documents), 40, marks)


def halves(row, marks):
    a = row.ids[(row.types == 0) & (row.segments == 0)][1:-1]
    b = row.ids[row.types == 1][:-1]
    return a, b


def test_rows_are_framed_and_typed(source, marks):
    for number in range(50):
        row = source.row(number, 1)
        size = int((row.segments == 0).sum())
        assert row.ids[0] == marks.cls
        assert row.ids[size - 1] == marks.sep
        assert (row.ids == marks.sep).sum() == 2
        assert (np.diff(row.types[:size]) >= 0).all()
        assert (row.ids[size:] == marks.pad).all()
        assert min(map(len, halves(row, marks))) >= 1


def test_half_of_the_second_segments_follow_in_their_document(source, toy_tokens, marks):
    labels = []
    everything = toy_tokens.ids.astype(np.int64)
    text = " ".join(map(str, everything[everything != marks.sep]))
    for number in range(400):
        row = source.row(number, 1)
        labels.append(row.label)
        a, b = halves(row, marks)
        together = " ".join(map(str, [*a[-6:], *b[:6]]))
        if row.label == FOLLOWS:  # also where the row is full: what is cut is not what lies between them
            assert together in text
    assert abs(np.mean(labels) - 0.5) < 3 * 0.5 / np.sqrt(400)


def test_pairs_are_a_function_of_number_and_seed(source):
    assert (source.row(7, 1).ids == source.row(7, 1).ids).all()
    assert any((source.row(n, 1).ids != source.row(n, 2).ids).any() for n in range(3))


def test_documents_of_one_paragraph_cannot_give_pairs(tmp_path, toy_tokenizer, marks):
    from unmask.training.corpus import Corpus

    path = tmp_path / "lines.txt"
    path.write_text("the jax .\n\nthe nax .\n\nthe vax .\n")
    tokens = write(Corpus("lines", path), toy_tokenizer, tmp_path / "tokens", "toy")
    with pytest.raises(UsageError, match="next-sentence prediction needs"):
        SentencePairs(tokens, np.arange(3), 40, marks)
