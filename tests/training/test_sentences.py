"""Sentences: split where a reader would, never lost, and none of a held-out document in training."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from refusing import refusal

from unmask.errors import UsageError
from unmask.runs.checkpoints import last_checkpoint
from unmask.training import train
from unmask.training.packing import Packing
from unmask.training.prepare_data import prepare_data
from unmask.training.sentences import SentenceCorpus, Sentences, sentences
from unmask.training.tokenfile import write


@pytest.mark.parametrize(
    "expected",
    [
        ["He left.", "She stayed."],
        ["“Who is it?”", "“Only I.”", "He came in."],
        ["Mr. Smith met J. R. Jones in St. Albans.", "They talked."],
        ["It rose by 3.5 percent (see p. 7).", "1990 was better!", "Was it?"],
        ["It stayed in the U.S. until 1990."],
        ["No full stop here"],
    ],
)
def test_a_paragraph_is_split_at_its_sentences(expected):
    assert sentences(" ".join(expected)) == expected


@pytest.fixture(scope="module")
def single(toy_corpus, toy_tokenizer, tmp_path_factory):
    corpus = SentenceCorpus(toy_corpus.name, toy_corpus.path)
    file = write(corpus, toy_tokenizer, tmp_path_factory.mktemp("sentences"), "toy")
    return lambda documents: Sentences.of(file, np.asarray(documents), toy_tokenizer.sep_token_id)


def test_every_sentence_of_the_named_documents_is_a_text_of_its_own(single, toy_tokens, toy_tokenizer):
    found = single([3, 7])
    texts = [found.part(n, 0, length).tolist() for n, length in enumerate(found.lengths())]
    document = toy_tokens.document(3)
    joined = [token for token in document.tolist() if token != toy_tokenizer.sep_token_id]
    assert [token for text in texts[: len(texts) // 2] for token in text] == joined
    assert not any(toy_tokenizer.sep_token_id in text for text in texts)


def test_whole_texts_are_not_cut_and_little_is_padded(single, marks):
    found = single(np.arange(400))
    packing = Packing(found, np.arange(len(found.starts)), 50, marks, whole=True)
    rows = [packing.row(number, seed=1) for number in range(packing.rows())]
    lengths = [
        (row.segments == segment).sum() - 2 for row in rows for segment in range(row.segments.max() + 1)
    ]
    assert sorted(lengths) == sorted(found.lengths())
    assert np.mean([(row.segments < 0).mean() for row in rows]) < 0.25  # equal lengths leave equal gaps


def test_a_text_longer_than_a_row_is_cut_and_nothing_is_lost(toy_tokens, marks):
    packing = Packing(toy_tokens, np.arange(toy_tokens.documents), 32, marks, whole=True)
    rows = [packing.row(number, None) for number in range(packing.rows())]
    inner = [row.ids[row.segments == n][1:-1] for row in rows for n in range(row.segments.max() + 1)]
    assert (np.sort(np.concatenate(inner)) == np.sort(toy_tokens.ids)).all()


def test_a_share_of_the_rows_is_made_of_sentences_and_none_is_held_out(settings, tmp_path):
    wanted = replace(settings, sentence_shares={"toy": 0.5}, max_steps=200)
    rows = prepare_data(wanted, tmp_path / "run").rows
    assert abs((rows.source == 1).mean() - 0.5) < 0.06  # 3σ of 800 rows
    by_document, by_sentence = rows.sources
    assert by_sentence.whole
    trained = np.concatenate([by_document.tokens.document(n) for n in by_document.documents])
    singles = np.concatenate(
        [by_sentence.tokens.part(n, 0, length) for n, length in enumerate(by_sentence.tokens.lengths())]
    )
    ordinary = np.arange(150) > 4
    assert (
        np.bincount(trained, minlength=150)[ordinary] == np.bincount(singles, minlength=150)[ordinary]
    ).all()


def test_a_run_on_sentences_with_a_range_of_masks_is_resumed(settings, tmp_path):
    wanted = replace(settings, sentence_shares={"toy": 0.5}, mlm_probability=(0.1, 0.5))
    out = tmp_path / "run"
    unbroken = train(wanted, out)
    shutil.rmtree(out / "checkpoint-4")
    assert last_checkpoint(out) == str(out / "checkpoint-2")
    assert train(wanted, out).scores == unbroken.scores


def test_sentences_of_a_corpus_that_is_not_there_are_refused(settings, tmp_path):
    wanted = replace(settings, sentence_shares={"other": 0.5})
    refusal(UsageError, "'other'", wanted, tmp_path / "run")


def test_a_corpus_without_sentences_is_refused(toy_tokenizer, tmp_path):
    (tmp_path / "short.txt").write_text("jax\n\nnax\n")
    file = write(SentenceCorpus("short", tmp_path / "short.txt"), toy_tokenizer, tmp_path / "tokens", "toy")
    with pytest.raises(UsageError, match="'short'"):
        Sentences.of(file, np.arange(2), toy_tokenizer.sep_token_id)
