"""Decoding with fewer passes: what is measured, and what the curves make of it."""

import pytest
from toy_data import SENTENCES, text_file

from head_toy import with_head
from unmask import UsageError
from unmask.evaluation.decoding import ONE_BY_ONE, DecodingSettings, draw_texts, measure_decoding, schemes_of
from unmask.evaluation.decoding_summary import passes_for, summarise_decoding, tabulate

SETTINGS = DecodingSettings(texts=3, rates=(0.3, 0.5), passes=(1, 2), bounds=(1.0,))


@pytest.fixture(scope="module")
def mlm(mlm_of):
    return with_head(mlm_of("bert"))


@pytest.fixture(scope="module")
def records(mlm, tmp_path_factory):
    """Those of a run that was killed in the middle."""
    home = tmp_path_factory.mktemp("decoding")
    data, out = [f"text={text_file(home / 'texts.txt')}"], home / "records.jsonl"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unmask.evaluation.decoding.weights_digest", lambda _: "w")
        first = measure_decoding(mlm, data, SETTINGS, out=out)
        out.write_text("".join(out.read_text().splitlines(keepends=True)[:3]))
        again = measure_decoding(mlm, data, SETTINGS, out=out)
    for one, other in zip(first, again, strict=True):
        for name, measured in one["schemes"].items():
            assert {**measured, "seconds": 0} == {**other["schemes"][name], "seconds": 0}
    return again


def test_a_share_of_the_tokens_is_masked_the_same_every_time(mlm):
    found = draw_texts(mlm, SENTENCES, 0.5, SETTINGS)
    again = draw_texts(mlm, SENTENCES, 0.5, SETTINGS)
    assert [c.blanks for c in found] == [c.blanks for c in again]
    for cloze in found:
        words = sum(t not in mlm.vocabulary.special_ids for t in cloze.ids) + len(cloze.blanks)
        assert len(cloze.blanks) == round(0.5 * words)


def test_every_scheme_is_measured_and_takes_the_passes_of_its_name(records):
    assert len(records) == 6
    for record in records:
        blanks = len(record["blanks"])
        assert set(record["schemes"]) == set(schemes_of(blanks, SETTINGS))
        for name, measured in record["schemes"].items():
            family, _, number = name.partition(":")
            wanted = blanks if name == ONE_BY_ONE else int(float(number))
            if "bound" in family:
                assert 1 <= measured["passes"] <= blanks
            else:
                assert measured["passes"] == measured["sample_passes"] == wanted
            assert measured["log_prob"] < 0
            assert 0 <= measured["hits"] <= blanks


def test_the_curves_end_at_one_by_one_and_say_what_is_saved(records):
    rows = summarise_decoding(records)
    assert [(row["data"], row["rate"], row["texts"]) for row in rows] == [("text", 0.3, 3), ("text", 0.5, 3)]
    for row in rows:
        points = row["points"]
        assert points["tree:1"]["passes"]["value"] == 1
        assert points[ONE_BY_ONE]["passes"]["value"] == pytest.approx(row["blanks"])
        lost = points["tree:1"]["less_one_by_one"]
        apart = points["tree:1"]["log_prob"]["value"] - points[ONE_BY_ONE]["log_prob"]["value"]
        assert lost["value"] == pytest.approx(apart)
        assert set(points[ONE_BY_ONE]["less_one_by_one"].values()) == {0}
        for saving in row["savings"].values():
            assert saving["ours"]["value"] / saving["independent"]["value"] == pytest.approx(
                saving["ratio"]["value"]
            )
            assert saving["ours"]["value"] <= saving["tree"]["value"]  # the best of several, it among them


def test_a_text_of_fewer_blanks_than_passes_counts_as_filled_one_by_one():
    def measured(passes):
        names = ("log_prob", "hits", "sample_log_prob", "seconds")
        return {"passes": passes, "sample_passes": passes, **dict.fromkeys(names, float(passes))}

    records = [
        {"schemes": {ONE_BY_ONE: measured(2), "tree:1": measured(1)}},
        {"schemes": {ONE_BY_ONE: measured(9), "tree:1": measured(1), "tree:4": measured(4)}},
    ]
    assert tabulate(records)["tree:4"][0].tolist() == [2, 4]


@pytest.mark.parametrize(
    ("wanted", "passes"),
    [(-9, 1), (-5, 1), (-4, 1.5), (-3, 2), (-2, 4), (-1, 6), (-0.5, float("inf"))],
)
def test_passes_are_read_off_a_curve_by_straight_lines(wanted, passes):
    assert passes_for(wanted, [(6, -1.0), (1, -5.0), (2, -3.0)]) == pytest.approx(passes)


def test_bad_settings_and_a_model_without_a_head_are_refused(mlm_of, mlm, tmp_path):
    for wrong, told in (
        ({"texts": 0}, "at least 1 text"),
        ({"rates": (1.5,)}, "between 0 and 1"),
        ({"passes": (2, 1)}, "rising numbers of passes"),
    ):
        with pytest.raises(UsageError, match=told):
            DecodingSettings(**wrong).check()
    with pytest.raises(UsageError, match="needs a pair head"):
        measure_decoding(mlm_of("bert"), [], SETTINGS)
    short = text_file(tmp_path / "short.txt", ["a dog", "the man"])
    with pytest.raises(UsageError, match="long enough"):
        measure_decoding(mlm, [f"text={short}"], SETTINGS)
