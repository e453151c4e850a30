"""The benchmarks of meaning, on toy files that the tests make."""

import gzip
import json

import numpy as np
import pytest
from scipy import stats

import unmask
from unmask import UsageError, construct
from unmask.errors import RunError
from unmask.evaluation.benchmarks.blanks import (
    METHODS,
    Answerer,
    BlanksSettings,
    draw_clozes,
    run_blanks,
)
from unmask.evaluation.benchmarks.blimp import run_blimp
from unmask.evaluation.benchmarks.mutants import run_mutants
from unmask.evaluation.intervals import mean, share, shown
from unmask.evaluation.score_file import ScoreSettings, make_scorer
from unmask.inference.exact import exact_conditionals
from unmask.progress import Progress
from unmask.text.support import Support

WILD = "MKTAYIAKQR"


class TestBlimp:
    @pytest.fixture
    def directory(self, tmp_path):
        """Two phenomena; in the first the better sentence is the shorter one, which every score knows."""
        easy = [
            {
                "sentence_good": "a dog",
                "sentence_bad": "a dog " + "the old " * n,
                "UID": "short",
                "linguistics_term": "size",
            }
            for n in (3, 4, 5)
        ]
        tie = [{"sentence_good": "a man", "sentence_bad": "a man", "UID": "same", "linguistics_term": "tie"}]
        (tmp_path / "short.jsonl").write_text("\n".join(map(json.dumps, easy)))
        (tmp_path / "same.jsonl.gz").write_bytes(gzip.compress(json.dumps(tie[0]).encode()))
        return tmp_path

    def test_accuracy_is_told_by_phenomenon_and_a_tie_is_half_right(self, directory, checkpoint):
        settings = ScoreSettings(model=str(checkpoint("bert")), scores=("pll", "chain"))
        answer = run_blimp(directory, settings)
        accuracy = answer["accuracy"]
        assert set(accuracy) == {"size", "tie", "all"}
        assert accuracy["size"]["pll"]["value"] == 1
        assert accuracy["tie"]["chain"]["value"] == 0.5
        assert accuracy["all"]["pll"]["value"] == pytest.approx(3.5 / 4)
        assert accuracy["all"]["pairs"] == 4

    def test_a_killed_run_goes_on_where_it_was(self, directory, checkpoint, tmp_path):
        settings = ScoreSettings(model=str(checkpoint("bert")), scores=("pll",))
        out, scorer, asked = tmp_path / "out.records", make_scorer(settings), []
        whole = run_blimp(directory, settings, out=out)
        out.write_text("".join(out.read_text().splitlines(keepends=True)[:3]) + '{"key":')

        def watched(lines):
            asked.extend(lines)
            return scorer(lines)

        assert run_blimp(directory, settings, out=out, scorer=watched) == whole
        assert len(asked) == 4  # two pairs of the four were left
        with pytest.raises(UsageError, match=r"holds another run \(model was"):
            run_blimp(directory, ScoreSettings(model="x", scores=("chain",)), out=out)

    def test_a_cluster_gives_the_same_accuracies(self, directory, checkpoint, tmp_path):
        settings = ScoreSettings(model=str(checkpoint("bert")), scores=("pll", "ag-chain"))
        here = run_blimp(directory, settings)
        assert run_blimp(directory, settings, ray="local", workers=1, out=tmp_path / "out.records") == here
        with pytest.raises(UsageError, match="give --ray too"):
            run_blimp(directory, settings, workers=2)

    def test_a_number_of_examples_is_drawn_from_each_file(self, directory, checkpoint):
        settings = ScoreSettings(model=str(checkpoint("bert")), scores=("pll",))
        assert run_blimp(directory, settings, examples=1)["pairs"] == 2

    def test_of_the_records_those_of_the_present_tasks_count_as_done(self, directory, checkpoint, tmp_path):
        settings = ScoreSettings(model=str(checkpoint("bert")), scores=("pll",))
        out, told = tmp_path / "out.records", []

        class Watched(Progress):
            def resumed(self, done, total, cut):
                told.append((done, total))

        run_blimp(directory, settings, out=out, progress=Watched())
        run_blimp(directory, settings, out=out, examples=1, progress=Watched())
        assert told == [(2, 2)]

    def test_what_is_no_blimp_is_refused(self, tmp_path):
        settings = ScoreSettings(model="x", scores=("pll",))
        with pytest.raises(UsageError, match="has none"):
            run_blimp(tmp_path, settings)
        pair = {"sentence_good": None, "sentence_bad": "a", "UID": "u", "linguistics_term": "t"}
        for bad in ('{"sentence_good": "a"}\n', json.dumps(pair), "[1]", "{"):
            (tmp_path / "bad.jsonl").write_text(bad)
            with pytest.raises(UsageError, match=r"bad.jsonl, line 1: expected a JSON object"):
                run_blimp(tmp_path, settings)
        (tmp_path / "bad.jsonl").write_text("\n")
        with pytest.raises(UsageError, match="holds no pair"):
            run_blimp(tmp_path, settings)
        (tmp_path / "bad.jsonl").write_bytes(b"caf\xe9")
        with pytest.raises(UsageError, match="line 1 is not UTF-8"):
            run_blimp(tmp_path, settings)
        (tmp_path / "bad.jsonl").rename(tmp_path / "bad.jsonl.gz")
        with pytest.raises(RunError, match="can't be unpacked"):
            run_blimp(tmp_path, settings)

    def test_pairs_that_cannot_be_scored_are_left_out_and_counted(self, directory, checkpoint):
        settings = ScoreSettings(model=str(checkpoint("bert")), scores=("pll",))
        long = {"sentence_good": "a " * 80, "sentence_bad": "a", "UID": "long", "linguistics_term": "long"}
        (directory / "long.jsonl").write_text(json.dumps(long))
        answer = run_blimp(directory, settings)
        assert (answer["pairs"], answer["not_scored"]) == (4, 1)
        assert answer["accuracy"]["all"]["pll"]["value"] == pytest.approx(3.5 / 4)
        nothing = {"value": None, "low": None, "high": None}
        assert answer["accuracy"]["long"] == {"pll": nothing, "pairs": 0}
        json.dumps(answer, allow_nan=False)

    def test_records_without_what_they_should_hold_are_refused(self, directory, checkpoint, tmp_path):
        settings = ScoreSettings(model=str(checkpoint("bert")), scores=("pll",))
        out = tmp_path / "out.records"
        run_blimp(directory, settings, out=out)
        whole = out.read_text()
        out.write_text(whole + "{}\n")
        with pytest.raises(RunError, match="records without a key"):
            run_blimp(directory, settings, out=out)
        lines = whole.splitlines(keepends=True)
        out.write_text("".join(lines[:-1]) + json.dumps({"key": json.loads(lines[-1])["key"]}) + "\n")
        with pytest.raises(UsageError, match="records of other texts"):
            run_blimp(directory, settings, out=out)


class TestBlanks:
    LINES = ("The old man is at the casino.", "a dog is playing in the red house", "the cat was on the bank")

    @pytest.fixture
    def data(self, tmp_path):
        path = tmp_path / "toy.txt"
        path.write_text("\n".join(self.LINES * 2))
        return [f"text={path}"]

    def test_every_method_has_a_row_for_every_number_of_blanks(self, data, mlm_of):
        settings = BlanksSettings(blanks=(2, 3), sentences=2, passes=48, candidates=4)
        answer = run_blanks(mlm_of("bert"), data, settings)
        rows = {(r["blanks"], r["method"]): r for r in answer["rows"]}
        assert set(rows) == {(n, m) for n in (2, 3) for m in METHODS}
        for (_, method), row in rows.items():
            assert row["sentences"] == 2
            assert (row["log_prob"] is None) == (method == "greedy")
            recalls = [row[f"recall@{k}"]["value"] for k in (1, 5, 10)]
            assert recalls == sorted(recalls)

    def test_the_log_probabilities_are_the_joints(self, data, mlm_of):
        """Two blanks over all pairs: independent answers are `product`, the beam's chain is `l2r`."""
        mlm = mlm_of("bert")
        settings = BlanksSettings(blanks=(2,), sentences=3, methods=("independent", "beam", "chain-ag"))
        answer = run_blanks(mlm, data, settings)
        support = Support.words(mlm.vocabulary)
        for method, name in (("independent", "product"), ("beam", "l2r"), ("chain-ag", "ag")):
            expected = []
            for _, cloze in draw_clozes(mlm, list(self.LINES), 2, settings):
                joint = construct(name, exact_conditionals(mlm, cloze, (support, support)))
                expected.append(float(joint.log_prob(cloze.truth)))
            (row,) = [r for r in answer["rows"] if r["method"] == method]
            assert row["log_prob"]["value"] == pytest.approx(np.mean(expected), abs=1e-4)
            if method == "independent":
                alone = expected
            gains = np.subtract(expected, alone)
            assert row["gain"]["value"] == pytest.approx(gains.mean(), abs=1e-4)
            assert -1 <= row["recall_gain"]["value"] <= 1
            assert row["recall_gain"]["value"] == pytest.approx(
                row["recall@1"]["value"] - answer["rows"][0]["recall@1"]["value"]
            )
            half = 1.959964 * gains.std(ddof=1) / 3**0.5
            if method == "independent":  # nothing differs from itself
                assert row["gain"] == {"value": 0.0, "low": None, "high": None}
            else:
                assert row["gain"]["high"] - row["gain"]["value"] == pytest.approx(half, abs=1e-4)

    def test_a_killed_run_goes_on_and_other_texts_are_refused(self, data, mlm_of, tmp_path):
        settings = BlanksSettings(blanks=(2,), sentences=2, methods=("independent", "greedy"))
        out, mlm = tmp_path / "out.jsonl", mlm_of("bert")
        whole = run_blanks(mlm, data, settings, out=out)
        out.write_text("".join(out.read_text().splitlines(keepends=True)[:2]))
        assert run_blanks(mlm, data, settings, out=out) == whole
        assert len(out.read_text().splitlines()) == 5  # the settings and four answers
        other = BlanksSettings(blanks=(2,), sentences=2, methods=("independent",), seed=5)
        with pytest.raises(UsageError, match="records of other texts"):
            run_blanks(mlm, data, other, out=out)

    def test_a_worker_of_a_cluster_answers_alike(self, data, mlm_of, checkpoint):
        """What a worker does, without the cluster: load the model and answer a question by its text."""
        settings = BlanksSettings(blanks=(2,), sentences=2, methods=("independent", "beam"))
        questions = [
            {"key": str(n), "text": text, "first": cloze.blanks[0], "blanks": 2, "method": "beam"}
            for n, (text, cloze) in enumerate(draw_clozes(mlm_of("bert"), list(self.LINES), 2, settings))
        ]
        there = Answerer(unmask.load(str(checkpoint("bert"))), settings)(questions)
        here = Answerer(mlm_of("bert"), settings)(questions)
        assert [r["rank"] for r in there] == [r["rank"] for r in here]
        assert [r["log_prob"] for r in there] == pytest.approx([r["log_prob"] for r in here], abs=1e-5)

    @pytest.mark.parametrize(
        "bad",
        [
            {"methods": ("best",)},
            {"blanks": (1,)},
            {"blanks": ()},
            {"sentences": 0},
            {"blanks": (8,), "passes": 99},
            {"blanks": (2, 2)},
            {"passes": 50_000},
            {"methods": ("beam", "beam")},
        ],
    )
    def test_settings_that_cannot_be_are_refused(self, bad):
        with pytest.raises(UsageError):
            BlanksSettings(**bad).check()

    def test_passes_for_a_grid_are_asked_for_where_there_is_one(self):
        BlanksSettings(blanks=(8,), passes=99, methods=("independent", "chain-ag")).check()

    def test_two_data_sets_of_one_name_are_refused(self, data, mlm_of):
        with pytest.raises(UsageError, match="two data sets are called 'text'"):
            run_blanks(mlm_of("bert"), data * 2, BlanksSettings(blanks=(2,)))

    def test_texts_without_room_are_refused_and_one_text_has_no_interval(self, data, mlm_of):
        with pytest.raises(UsageError, match="no text of 'text' has room for 8 blanks"):
            run_blanks(mlm_of("bert"), data, BlanksSettings(blanks=(2, 8), passes=2000))
        settings = BlanksSettings(blanks=(2,), sentences=1, methods=("independent",))
        (row,) = run_blanks(mlm_of("bert"), data, settings)["rows"]
        assert row["log_prob"]["value"] < 0
        assert (row["log_prob"]["low"], row["log_prob"]["high"]) == (None, None)
        json.dumps(row, allow_nan=False)

    def test_a_text_that_comes_twice_is_asked_about_once(self, data, mlm_of):
        settings = BlanksSettings(blanks=(2,), sentences=50, methods=("independent",))
        (row,) = run_blanks(mlm_of("bert"), data, settings)["rows"]
        assert (row["data"], row["sentences"]) == ("text", 3)


class TestMutants:
    NAMES = ("K2A:T3G", "M1A:K2C", "K2D:Y5W", "A4G:Y5F", "K2A:T3V", "M1L:K2C:T3A", "M1V:K2R:T3S", "K2E")

    def test_fitness_made_by_the_joint_is_ranked_by_the_joint(self, mlm_of):
        """With fitness set to the score itself the correlation is 1, and another score's is not."""
        mlm = mlm_of("esm")
        first = run_mutants(mlm, WILD, self.NAMES, range(8))
        assert [row["mutations"] for row in first["spearman"]] == [1, 2, 3, None]
        assert [row["mutants"] for row in first["spearman"]] == [1, 5, 2, 8]
        again = run_mutants(mlm, WILD, self.NAMES, [row["joint"] for row in first["scores"]])
        assert again["spearman"][-1]["joint"] == pytest.approx(1)
        assert again["spearman"][-1]["masked-marginals"] < 1
        assert again["spearman"][0]["joint"] is None  # a single mutant of its kind

    def test_a_score_twice_or_one_mutant_alone_is_refused(self, mlm_of):
        with pytest.raises(UsageError, match="different scores"):
            run_mutants(mlm_of("esm"), WILD, self.NAMES, range(8), ["joint", "joint"])
        with pytest.raises(UsageError, match="at least two mutants"):
            run_mutants(mlm_of("esm"), WILD, ["K2A"], [1.0])


def test_intervals_agree_with_scipy():
    wilson = stats.binomtest(7, 20).proportion_ci(method="wilson")
    assert share(7, 20)[1:] == pytest.approx((wilson.low, wilson.high), abs=1e-6)
    for total in range(1, 200):  # no end of an interval lies outside, nor is it written as -0.0
        assert share(0, total).low >= 0
        assert share(total, total).high <= 1
        assert not shown(share(0, total), 100).startswith("0.0 [-")
    values = [1.0, 2.5, -3.0, 4.0]
    assert mean(values).value == pytest.approx(np.mean(values))
    assert mean(values).high - mean(values).value == pytest.approx(1.959964 * stats.sem(values))


def test_nothing_and_all_are_ends_of_their_own_intervals():
    assert all(share(0, n)[:2] == (0, 0) for n in range(1, 400))
    assert all((share(n, n).value, share(n, n).high) == (1, 1) for n in range(1, 400))


def test_values_that_are_all_alike_have_no_interval():
    """Three texts without a hit do not prove that there never is one."""
    assert mean([0.0, 0.0, 0.0]) == (0.0, None, None)
    assert mean([0.0, 0.0, 1.0]).low is not None


def test_numbers_without_an_interval_are_shown_alone():
    assert shown(mean([0.5]), 100) == "50.0"
    assert shown(share(0, 0)) == "-"
    assert shown(mean([1.0, 1.0])) == "1.0"
