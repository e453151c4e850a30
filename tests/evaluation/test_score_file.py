"""Files of sentences: in order, empty lines kept, resumed, and spread over a cluster."""

import gzip
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from unmask import UsageError
from unmask.errors import RunError
from unmask.evaluation import score_file as files
from unmask.evaluation.score_file import LineScorer, ScoreSettings, count_lengths, score_file
from unmask.inference.lengths import counted, uniform
from unmask.inference.sentences import SentenceReader
from unmask.runs.run import in_order
from unmask.text.cloze import parse_blanks

LINES = ["The old man is at the casino.", "", "a dog", "the red dog is playing", "   ", "the dog"]
QUICK = ("pll", "chain")


@pytest.fixture
def settings(checkpoint):
    return ScoreSettings(model=str(checkpoint("bert")), scores=QUICK)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


def test_every_line_has_its_record_in_place_and_empty_ones_are_null(file, settings):
    records = list(score_file(file, settings))
    assert [r["key"] for r in records] == [1, 2, 3, 4, 5, 6]
    assert [r["text"] for r in records] == LINES
    assert [r["scores"] is None for r in records] == [False, True, False, False, True, False]
    assert records[1]["length"] == 0
    first = records[0]
    assert set(first["scores"]) == set(QUICK)
    for score in first["scores"].values():
        assert score["log_prob"] == pytest.approx(sum(score["log_probs"]))
        assert score["per_token"] == pytest.approx(score["log_prob"] / first["length"])
        assert len(first["tokens"]) == first["length"] == len(score["log_probs"])
    json.dumps(records, allow_nan=False)


def test_lines_of_spaces_are_empty_for_every_tokenizer(tmp_path, checkpoint):
    path = tmp_path / "spaces.txt"
    path.write_text("a dog\n   \n")
    settings = ScoreSettings(model=str(checkpoint("roberta")), scores=QUICK)
    records = list(score_file(path, settings))
    assert (records[1]["length"], records[1]["scores"]) == (0, None)
    reader = SentenceReader(files.make_scorer(settings).mlm)
    assert list(count_lengths(path, reader)) == [records[0]["length"], 0]


def test_lines_are_scored_so_many_together_that_records_come_steadily():
    def sizes(*lengths):
        return [len(chunk) for chunk in files._in_chunks((n, "x" * size) for n, size in enumerate(lengths))]

    assert sizes(*[70] * 50) == [50]
    assert sizes(*[10] * 200) == [64, 64, 64, 8]
    assert sizes(*[2000] * 3) == [1, 1, 1]
    assert sizes(400, 400, 5, 5) == [1, 3]
    assert sizes() == []


def test_a_gzipped_file_says_the_same(file, settings, tmp_path):
    packed = tmp_path / "lines.txt.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert [r["scores"] for r in score_file(packed, settings)] == [
        r["scores"] for r in score_file(file, settings)
    ]


def test_with_lengths_the_chain_scores_texts_of_any_length(file, settings):
    scored = [record for record in score_file(file, settings, lengths=uniform(6)) if record["scores"]]
    assert {record["length"] <= 6 for record in scored} == {True, False}
    for record in scored:
        chain, pll = record["scores"]["chain"], record["scores"]["pll"]
        assert "log_prob_of_text" not in pll
        if record["length"] <= 6:
            assert chain["log_prob_of_text"] == pytest.approx(chain["log_prob"] - math.log(6))
        else:
            assert chain["log_prob_of_text"] is None


def test_a_killed_run_goes_on_where_it_was_and_ends_the_same(file, settings, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LINES_AT_ONCE", 1)
    whole = list(score_file(file, settings, out=tmp_path / "whole.jsonl"))
    out = tmp_path / "out.jsonl"
    run = score_file(file, settings, out=out)
    next(run), next(run), next(run)
    run.close()  # killed
    with out.open("a") as damaged:
        damaged.write('{"key": 4, "te')
    asked = []
    scorer = files.make_scorer(settings)

    def watched(lines):
        asked.extend(number for number, _ in lines)
        return scorer(lines)

    again = list(score_file(file, settings, out=out, scorer=watched))
    assert asked == [4, 5, 6]
    assert again == whole
    assert out.read_text() == (tmp_path / "whole.jsonl").read_text()
    assert (
        list(score_file(file, settings, out=out, scorer=lambda lines: pytest.fail("nothing is left")))
        == whole
    )


def test_records_of_other_settings_or_another_file_are_not_mixed(file, settings, tmp_path, checkpoint):
    out = tmp_path / "out.jsonl"
    list(score_file(file, settings, out=out))
    other = ScoreSettings(model=settings.model, scores=("pll",))
    with pytest.raises(UsageError, match="scores was pll, chain, now pll"):
        list(score_file(file, other, out=out))
    before = out.read_bytes()
    file.write_text("\n".join(LINES[:2]) + "\n")
    with pytest.raises(UsageError, match=r"has 2 lines, and line 3 was scored before"):
        next(score_file(file, settings, out=out))  # before anything is told
    file.write_text("\n".join([*LINES[:3], "something else", *LINES[3:]]))
    with pytest.raises(UsageError, match=r"line 4 of .* is not the one that was scored before"):
        next(score_file(file, settings, out=out))
    assert out.read_bytes() == before
    out.write_bytes(before + b"{}\n")
    with pytest.raises(RunError, match="records without a key"):
        next(score_file(file, settings, out=out))


def test_lengths_are_counted_as_lines_are_cut(file, settings, mlm_of):
    mlm = mlm_of("bert")
    read = SentenceReader(mlm)
    file.write_text("the old man is here " * mlm.window + "\nthe old man\n")
    records = list(score_file(file, replace(settings, truncate=True)))
    assert [r["length"] for r in records] == list(count_lengths(file, read, mlm.window))
    assert records[0]["length"] == mlm.window - 2 < next(count_lengths(file, read))


def test_scores_under_other_lengths_of_one_name_are_not_mixed(file, settings, tmp_path):
    out = tmp_path / "out.jsonl"
    list(score_file(file, settings, out=out, lengths=counted([3, 4])))
    list(score_file(file, settings, out=out, lengths=counted([4, 3])))
    with pytest.raises(UsageError, match="lengths was"):
        next(score_file(file, settings, out=out, lengths=counted([3, 4, 4])))


def test_a_cluster_is_told_where_the_model_lies(file, settings, tmp_path, monkeypatch):
    told = []

    def spread(chunks, make, **_):
        told.append(make)
        return ((n, make()(chunk)) for n, chunk in enumerate(chunks))

    monkeypatch.setattr("unmask.runs.cluster.spread", spread)
    monkeypatch.chdir(Path(settings.model).parent)
    relative = replace(settings, model=Path(settings.model).name)
    assert len(list(score_file(file, relative, ray="local"))) == len(LINES)
    assert told[0].args[0].model == str(Path(settings.model).resolve())


def test_the_file_that_is_scored_is_never_written_to(file, settings, tmp_path):
    (tmp_path / "alias.txt").symlink_to(file)
    for out in (file, tmp_path / "alias.txt"):
        with pytest.raises(UsageError, match="is the file that is scored"):
            list(score_file(file, settings, out=out))
    mine = tmp_path / "one.txt"
    mine.write_text("One line of text.\n")
    with pytest.raises(UsageError, match="is no file of records"):
        list(score_file(file, settings, out=mine))
    assert mine.read_text() == "One line of text.\n"
    assert file.read_text() == "\n".join(LINES) + "\n"


def test_lines_beyond_the_window_are_noted_or_cut(mlm_of, settings):
    mlm, long = mlm_of("bert"), "old " * 100
    (record,) = LineScorer(mlm, settings)([(1, long)])
    assert record["scores"] is None
    assert record["note"] == "102 tokens, and the model's window holds 64"
    cut = ScoreSettings(model="x", scores=("pll",), truncate=True)
    (record,) = LineScorer(mlm, cut)([(1, long)])
    assert record["length"] == 62
    assert record["scores"]["pll"]["log_prob"] < 0
    words = ScoreSettings(model="x", scores=("pll",), support="words")
    (record,) = LineScorer(mlm, words)([(1, "the 日 man")])
    assert record["note"] == "'[UNK]' is no token of the support"


@pytest.mark.parametrize(
    ("architecture", "mask", "other"), [("bert", "[MASK]", "[SEP]"), ("roberta", "<mask>", "</s>")]
)
def test_special_tokens_in_a_text_are_no_tokens_to_be_scored(architecture, mask, other, mlm_of):
    settings = ScoreSettings(model="x", scores=QUICK)
    texts = [f"the old {mask} is", f"the old {other} is", f"{other} {mask}", "the old man"]
    records = LineScorer(mlm_of(architecture), settings)(list(enumerate(texts, 1)))
    assert [r["scores"] is None for r in records] == [True, True, True, False]
    assert records[0]["note"] == f"it has a blank, {mask}: put a word there, or take unmask fill"
    assert records[1]["note"] == f"it has {other}, a special token of this model: leave it out"
    assert "it has a blank" in records[2]["note"]
    assert "note" not in records[3]


def test_unknown_tokens_are_scored_and_noted_as_elsewhere(mlm_of):
    mlm = mlm_of("bert")
    (note,) = parse_blanks("the 日 [MASK]", mlm.vocabulary, mlm.window).notes
    scorer = LineScorer(mlm, ScoreSettings(model="x", scores=QUICK, truncate=True))
    records = scorer([(1, "the 日 man"), (2, "日 " * 100)])
    assert records[0]["note"] == note
    assert records[0]["scores"]["pll"]["log_prob"] < 0
    assert records[1]["note"].startswith("cut from 100 tokens; 62 tokens of the text are unknown")
    assert records[1]["scores"]["pll"]["log_prob"] < 0


def test_what_cannot_be_is_refused(file, settings, tmp_path):
    for bad, complaint in (
        ({"scores": ("pll", "bleu")}, "unknown score 'bleu'"),
        ({"scores": ()}, "one or more scores"),
        ({"support": "few"}, "all or words"),
        ({"candidates": -1}, "candidates: expected a whole number from 0 on"),
    ):
        with pytest.raises(UsageError, match=complaint):
            list(score_file(file, ScoreSettings(model="nowhere", **bad)))
    broken = tmp_path / "latin.txt"
    broken.write_bytes("café\n".encode("latin-1"))
    with pytest.raises(UsageError, match="line 1 is not UTF-8"):
        list(score_file(broken, settings))
    with pytest.raises(UsageError, match="does not exist"):
        list(score_file(tmp_path / "nowhere.txt", settings))


def test_a_cluster_gives_the_same_records_in_the_same_order(file, settings, monkeypatch):
    monkeypatch.setattr(files, "LINES_AT_ONCE", 2)
    here = list(score_file(file, settings))
    there = list(score_file(file, settings, ray="local", workers=1))
    assert [r["key"] for r in there] == [r["key"] for r in here]
    for one, other in zip(here, there, strict=True):
        if one["scores"]:
            assert other["scores"]["pll"]["log_probs"] == pytest.approx(
                one["scores"]["pll"]["log_probs"], abs=1e-5
            )


def test_results_wait_for_their_turn():
    assert list(in_order([(2, "c"), (0, "a"), (1, "b"), (3, "d")])) == ["a", "b", "c", "d"]
