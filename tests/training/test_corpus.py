"""Reading text: documents, .gz, shares, and one clear line for what is not text."""

import gzip

import numpy as np
import pytest

from unmask.errors import RunError, UsageError
from unmask.training.corpus import Corpus, corpora, drawn, shares_by_size, stated_shares

TEXT = "First paragraph.\nSecond one.\n\n\nAnother document.\n"


@pytest.mark.parametrize("zipped", [False, True])
def test_documents_are_parted_by_blank_lines(tmp_path, zipped):
    path = tmp_path / "text"
    (gzip.open if zipped else open)(path, "wt").write(TEXT)
    documents = list(Corpus("text", path).documents())
    assert documents == [["First paragraph.", "Second one."], ["Another document."]]


@pytest.mark.parametrize("zipped", [False, True])
def test_the_mark_that_some_editors_put_first_is_no_text(tmp_path, zipped):
    path = tmp_path / "text"
    (gzip.open if zipped else open)(path, "wb").write(TEXT.encode("utf-8-sig"))
    assert next(Corpus("text", path).documents())[0] == "First paragraph."


def test_a_document_without_end_is_cut_between_paragraphs(tmp_path, monkeypatch):
    monkeypatch.setattr("unmask.training.corpus.LONGEST", 10)
    path = tmp_path / "text"
    path.write_text("one\ntwo three\nfour\nfive\n\nsix\n")
    documents = list(Corpus("text", path).documents())
    assert documents == [["one", "two three"], ["four", "five"], ["six"]]
    path.write_text("a line of many words")
    assert list(Corpus("text", path).documents()) == [["a line of", "many words"]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty file"),
        (b"\n \n\n", "empty file"),
        (b"\x89PNG\0\0\0\x01", "binary"),
        ("naïve".encode("latin-1"), "UTF-8"),
        (
            gzip.compress(b"cut short" * 99, mtime=0)[:-20],
            "ends too early: .* get it anew",
        ),
        (gzip.compress(b"changed" * 99, mtime=0)[:-8] + bytes(8), "damaged .* get it anew"),
        (gzip.compress(b"\x89PNG\0\0\0\x01", mtime=0), "binary"),
        (b"a long line of text\n" * 999 + bytes(99), "binary"),
        (gzip.compress(b"a long line of text\n" * 999 + bytes(99), mtime=0), "binary"),
    ],
)
def test_what_is_not_text_is_refused_in_one_line(tmp_path, content, message):
    path = tmp_path / "text"
    path.write_bytes(content)
    with pytest.raises(RunError if "anew" in message else UsageError, match=message) as refusal:
        list(Corpus("text", path).documents())
    assert "\n" not in str(refusal.value)


def test_a_missing_file_and_a_directory_are_refused(tmp_path):
    for path, mended in ((tmp_path / "nowhere.txt", "check the path"), (tmp_path, "name a file in it")):
        with pytest.raises(UsageError, match=mended):
            list(Corpus("text", path).documents())


def test_corpora_are_named_by_the_user_or_by_their_file():
    parsed = corpora(["wiki=a/b.txt", "c/novels.txt.gz"])
    assert [corpus.name for corpus in parsed] == ["wiki", "novels"]
    with pytest.raises(UsageError, match="two corpora"):
        corpora(["a/text.txt", "b/text.txt"])
    with pytest.raises(UsageError, match="at least one"):
        corpora([])
    with pytest.raises(UsageError, match="NAME=FILE"):
        corpora(["name="])


@pytest.mark.parametrize("name", ["/outside", "up/down", "..", ".", "up\\down"])
def test_a_name_that_would_lead_elsewhere_is_refused(name):
    with pytest.raises(UsageError, match="name without /"):
        corpora([f"{name}=text.txt"])


def test_a_file_that_exists_is_taken_as_a_whole(tmp_path):
    path = tmp_path / "a=b.txt"
    path.write_text(TEXT)
    assert corpora([str(path)]) == [Corpus("a=b", path)]


def test_shares_follow_size_to_the_alpha():
    sizes = {"large": 1_000_000, "small": 10_000}
    assert shares_by_size(sizes, 1.0)["small"] == pytest.approx(1 / 101)
    assert shares_by_size(sizes, 0.0)["small"] == pytest.approx(1 / 2)
    assert shares_by_size(sizes, 0.5)["small"] == pytest.approx(1 / 11)
    with pytest.raises(UsageError, match="alpha"):
        shares_by_size(sizes, 2.0)


def test_stated_shares_must_cover_every_corpus():
    assert stated_shares({"b": 3, "a": 1}, ["a", "b"]) == {"a": 0.25, "b": 0.75}
    with pytest.raises(UsageError, match="shares of all corpora"):
        stated_shares({"a": 1}, ["a", "b"])
    with pytest.raises(UsageError, match="negative"):
        stated_shares({"a": 1, "b": -1}, ["a", "b"])


def test_a_fraction_of_the_paragraphs_is_drawn(tmp_path):
    path = tmp_path / "text"
    path.write_text("\n".join(f"paragraph {number}" for number in range(4000)))
    count = sum(1 for _ in drawn(Corpus("text", path), 0.25, np.random.default_rng(0)))
    assert abs(count - 1000) < 3 * np.sqrt(4000 * 0.25 * 0.75)
