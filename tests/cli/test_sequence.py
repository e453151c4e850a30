"""`unmask fill`, `score` and `sample` beyond pairs."""

import csv
import json
import math
import os
import re
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from head_toy import random_head
from unmask.cli.benchmark import show_blanks
from unmask.inference.mutations import SCORINGS
from unmask.models.masked_lm import MaskedLM
from unmask.models.pair_head import FILE, save_pair_head

Run = Callable[..., Any]
THREE = "The [MASK] [MASK] is playing [MASK] the casino."
SIX = "The [MASK] [MASK] is [MASK] at [MASK] [MASK] [MASK]."


def parsed(outcome: Any) -> dict[str, Any]:
    assert outcome.code == 0, outcome.err
    answer = json.loads(outcome.out)
    assert outcome.out.count("\n") == 1
    assert isinstance(answer, dict)
    return answer


class TestFill:
    def test_three_blanks_say_which_joint_and_why(self, run: Run, bert: str) -> None:
        assert parsed(run("fill", THREE, "-m", bert, "--json", "-k", 4))["method"] == "chain"
        answer = parsed(run("fill", THREE, "-m", bert, "--json", "-k", 4, "--method", "grid"))
        assert (answer["method"], answer["candidates"], answer["support_sizes"]) == ("grid", 4, [4, 4, 4])
        assert answer["solver"]["converged"]
        assert len(answer["mass_outside_support"]) == 3
        assert "the grid of 4 candidates per blank" in answer["notes"][-1]
        assert sum(f["probability"] for f in answer["fillings"]) < 1

    def test_a_cost_that_nobody_reads_is_told_by_its_power_of_ten(self, run: Run, bert: str) -> None:
        outcome = run("fill", "[MASK] " * 40, "-m", bert, "--method", "grid", "-k", 20)
        assert "needs 2.2e52 forward passes and 1.1e52 cells" in outcome.line

    def test_a_chain_over_few_tokens_is_not_summed_over(self, run: Run, bert: str) -> None:
        """Its entropy would ask about every filling, which nobody has asked for."""
        answer = parsed(run("fill", THREE, "-m", bert, "--json", "-k", 4, "--support", 40))
        assert answer["entropy"] is None
        assert answer["passes"] < 200

    def test_six_blanks_are_filled_by_the_chain(self, run: Run, bert: str) -> None:
        answer = parsed(run("fill", SIX, "-m", bert, "--json", "--top", 2))
        assert (answer["method"], answer["options"]["block"]) == ("chain", 2)
        assert answer["entropy"] is None
        assert answer["passes"] > 100
        assert len(answer["fillings"][0]["tokens"]) == 6

    def test_people_get_the_reason_beside_the_table(self, run: Run, bert: str) -> None:
        outcome = run("fill", SIX, "-m", bert, "--top", 2, "--method", "l2r")
        assert outcome.code == 0
        assert "note: 6 blanks: the chain of single blanks" in outcome.err
        assert "chain: the joint of 6 blanks" in outcome.out

    def test_a_grid_beyond_the_limit_is_one_line(self, run: Run, bert: str) -> None:
        outcome = run("fill", SIX, "-m", bert, "--method", "grid", "-k", 20)
        assert outcome.code == 2
        assert "needs 19,200,000 forward passes" in outcome.line
        assert "the method chain" in outcome.line

    def test_words_are_shown_with_their_pieces(self, run: Run, bert: str) -> None:
        answer = parsed(run("fill", "The ___ is old", "--words", "-m", bert, "--json", "--top", 30))
        assert [f["log_prob"] for f in answer["fillings"]] == sorted(
            (f["log_prob"] for f in answer["fillings"]), reverse=True
        )
        assert answer["prior"] == pytest.approx([1 / 3] * 3)
        longest = max(answer["fillings"], key=lambda f: len(f["tokens"][0]))
        assert longest["words"][0] in run("fill", "The ___ is old", "--words", "-m", bert, "-t", 30).out

    def test_words_and_a_method_do_not_mix(self, run: Run, bert: str) -> None:
        for given in (["--method", "hcb"], ["-k", 0], ["--support", "zzz"], ["--include", "qq"]):
            outcome = run("fill", "The ___", "--words", *given, "-m", bert)
            assert outcome.code == 2
            assert "has no effect with --words" in outcome.line

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ([THREE, "--include", "nosuchword"], "nosuchword"),
            ([THREE, "--completion", "zzz"], "completion: expected 'learned' or 'plain', got 'zzz'"),
            ([THREE, "--method", "all"], "expected a text with two blanks to compare methods, got 3"),
            (["The ___", "--pieces", 2], "--pieces is for whole words: give --words too"),
            (["[MASK] " * 16, "--method", "grid"], "2,097,152: take the method chain"),
            (
                [THREE, "--method", "chain", "--option", "pairs=x"],
                "'pairs' of chain: expected 'product'",
            ),
        ],
    )
    def test_what_would_mean_nothing_is_refused(
        self, arguments: list[object], message: str, run: Run, bert: str
    ) -> None:
        outcome = run("fill", *arguments, "-m", bert)
        assert outcome.code == 2
        assert message in outcome.line

    def test_the_reason_tells_what_was_done(self, run: Run, bert: str) -> None:
        told = parsed(run("fill", THREE, "-m", bert, "--json"))["notes"][-1]
        assert "joined by ag, every token" in told  # a small vocabulary: all pairs are asked about
        included = ("--include", "dog", "--include", "man", "--include", "house")
        command = ("fill", THREE, "-m", bert, "--json", "--method", "grid", "-k", 2)
        told = parsed(run(*command, *included))["notes"][-1]
        assert "the grid of 3 candidates per blank, 27 forward passes" in told
        assert "e+" not in told
        told = parsed(run("fill", "The [MASK] here", "-m", bert, "--json", "--method", "chain"))["notes"][-1]
        assert told == "1 blank: the model's own answer, as by every method"


class TestScore:
    def test_braces_hold_any_text(self, run: Run, bert: str) -> None:
        answer = parsed(run("score", "The {old man is playing} at the casino.", "-m", bert, "--json"))
        assert answer["tokens"] == ["old", "man", "is", "play", "##ing"]
        assert [b["blanks"] for b in answer["blocks"]] == [[0, 1], [2, 3], [4]]
        assert sum(b["log_prob"] for b in answer["blocks"]) == pytest.approx(answer["log_prob"])
        shown = run("score", "The {old man is playing} at the casino.", "-m", bert).out
        assert "old  man" in shown
        assert "is  play" in shown


class TestScoreFile:
    def test_json_is_an_object_a_line(self, run: Run, bert: str, tmp_path: Path) -> None:
        path = tmp_path / "lines.txt"
        path.write_text("the old man\n\na dog is\n")
        outcome = run("score", path, "-m", bert, "--json", "--scores", "all", "--lengths", "empirical")
        assert (outcome.code, outcome.err) == (0, "")
        records = [json.loads(line) for line in outcome.out.splitlines()]
        assert [r["key"] for r in records] == [1, 2, 3]
        assert records[1]["scores"] is None
        assert set(records[0]["scores"]) == {"pll", "pll-word", "chain", "ag-chain"}
        assert (
            records[0]["scores"]["ag-chain"]["log_prob_of_text"]
            < records[0]["scores"]["ag-chain"]["log_prob"]
        )

    def test_people_get_a_row_a_line_and_the_sums(self, run: Run, bert: str, tmp_path: Path) -> None:
        path = tmp_path / "lines.txt"
        path.write_text("the old man\n\na dog is\n")
        outcome = run("score", path, "-m", bert, "--scores", "pll,chain")
        rows = [line.split("\t") for line in outcome.out.splitlines()]
        assert rows[0] == ["line", "tokens", "pll", "pll per token", "chain", "chain per token", "text"]
        for row in rows[1], rows[3]:
            assert [float(row[3]) * 3, float(row[5]) * 3] == pytest.approx(
                [float(row[2]), float(row[4])], abs=2e-4
            )
        assert rows[2] == ["2", "0", "null", "null", "null", "null", ""]
        assert "2 sentences of 6 tokens, 1 without a score" in outcome.err

    def test_with_lengths_the_heads_and_the_sums_say_so(self, run: Run, bert: str, tmp_path: Path) -> None:
        path = tmp_path / "lines.txt"
        path.write_text("the old man\na dog\n")
        command = ("score", path, "-m", bert, "--scores", "pll,chain")
        plain, outcome = run(*command), run(*command, "--lengths", "uniform:4")
        rows = [line.split("\t") for line in outcome.out.splitlines()]
        chain = "chain, any length"
        assert rows[0] == ["line", "tokens", "pll", "pll per token", chain, f"{chain} per token", "text"]
        before = [line.split("\t") for line in plain.out.splitlines()]
        for row, old in zip(rows[1:], before[1:], strict=True):
            assert row[2] == old[2]
            assert float(row[4]) == pytest.approx(float(old[4]) - math.log(4), abs=2e-4)
        shown = float(outcome.err.split("chain, any length ")[1].split(";")[0])
        assert shown == pytest.approx(sum(float(row[4]) for row in rows[1:]) / 5, abs=2e-4)
        cut = run(*command, "--lengths", "uniform:2")
        assert cut.out.splitlines()[1].split("\t")[4:6] == ["-inf", "-inf"]
        assert "chain, any length -inf" in cut.err

    def test_blanks_and_unknown_tokens_are_told_with_their_line(
        self, run: Run, bert: str, tmp_path: Path
    ) -> None:
        path, out = tmp_path / "lines.txt", tmp_path / "out.jsonl"
        path.write_text("the old [MASK]\nthe 日 man\n")
        command = ("score", path, "-m", bert, "--scores", "pll", "--out", out)
        first, again = run(*command), run(*command)
        assert first == again  # what was kept says the same
        assert "note: line 1: not scored: it has a blank, [MASK]: put a word there" in first.err
        assert "note: line 2: a token of the text is unknown to this model" in first.err
        assert first.out.splitlines()[1] == "1\t3\tnull\tnull\tthe old [MASK]"
        assert float(first.out.splitlines()[2].split("\t")[2]) < 0

    def test_a_pipe_is_a_file(
        self, run: Run, bert: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "lines.txt"
        path.write_text("the old man\n\na dog is\n")
        command = ("-m", bert, "--scores", "pll,chain", "--lengths", "empirical")
        with path.open(encoding="utf-8") as coming:
            monkeypatch.setattr("sys.stdin", coming)
            assert run("score", "-", *command) == run("score", path, *command)
        fifo = tmp_path / "fifo"
        os.mkfifo(fifo)
        writer = threading.Thread(target=fifo.write_bytes, args=(path.read_bytes(),))
        writer.start()
        assert run("score", fifo, *command) == run("score", path, *command)
        writer.join()

    def test_a_file_of_nothing_is_heads_alone(self, run: Run, bert: str, tmp_path: Path) -> None:
        path = tmp_path / "empty.txt"
        path.write_text("")
        outcome = run("score", path, "-m", bert, "--scores", "pll")
        assert (outcome.code, outcome.out) == (0, "line\ttokens\tpll\tpll per token\ttext\n")

    def test_what_is_refused_prints_no_heads(self, run: Run, bert: str, tmp_path: Path) -> None:
        path = tmp_path / "latin.txt"
        path.write_bytes(b"the old man\nth\xe9\n")
        assert "line 2 is not UTF-8 text" in run("score", path, "-m", bert, "--scores", "pll").line

    def test_lengths_of_nothing_name_what_can_be_had(self, run: Run, bert: str, tmp_path: Path) -> None:
        path = tmp_path / "empty.txt"
        path.write_text("")
        outcome = run("score", path, "-m", bert, "--lengths", "empirical")
        assert outcome.code == 2
        assert "take uniform:M or geometric:M" in outcome.line

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--scores", "bleu"], "unknown score 'bleu': expected one of pll"),
            (["-k", "all"], "give one, or auto"),
            (["--lengths", "poisson:3"], "which is no file"),
            (["--ray", "nowhere"], "expected the address of a Ray cluster"),
            (["--method", "magic"], "--method is for words in braces"),
            (["--option", "foo=1"], "--option is for words in braces"),
            (["--completion", "zzz"], "--completion is for words in braces"),
            (["--seed", "5"], "--seed is for words in braces"),
            (["--workers", "3"], "give --ray too"),
            (["--scores", "pll", "--lengths", "uniform:3"], "--scores names none of them"),
        ],
    )
    def test_what_cannot_be_is_one_line(
        self, arguments: list[str], message: str, run: Run, bert: str, tmp_path: Path
    ) -> None:
        path = tmp_path / "lines.txt"
        path.write_text("the old man\n")
        outcome = run("score", path, "-m", bert, *arguments)
        assert outcome.code == 2
        assert message in outcome.err

    def test_a_missing_file_is_named(self, run: Run, bert: str) -> None:
        outcome = run("score", "nowhere.txt", "-m", bert, "--out", "x.jsonl")
        assert "'nowhere.txt' is no file" in outcome.line
        assert "does not exist" in run("score", "nowhere.txt", "-m", bert).line
        assert "--scores is for a file" in run("score", "The {man}", "-m", bert, "--scores", "bleu").line


class TestSample:
    def test_a_length_after_a_prefix_is_drawn_from_the_chain(self, run: Run, bert: str) -> None:
        command = ("sample", "--prefix", "The old", "--length", 3, "--sampler", "chain", "-k", 4, "-n", 3)
        answer = parsed(run(*command, "-m", bert, "--json", "--support", 20))
        assert answer["method"] == "chain"
        assert len(answer["samples"]) == 3
        assert all(s["text"].startswith("The old") and len(s["ids"]) == 3 for s in answer["samples"])

    def test_in_passes_each_sample_takes_as_many_as_are_asked_for(
        self, run: Run, bert: str, tmp_path: Path
    ) -> None:
        model = tmp_path / "model"
        shutil.copytree(bert, model)
        save_pair_head(random_head(MaskedLM.load(bert)), model / FILE)
        command = ("sample", SIX, "-m", model, "-n", 3, "--seed", 5)
        answer = parsed(run(*command, "--passes", 2, "--json"))
        assert (answer["method"], answer["passes_per_sample"]) == ("tree", 2)
        assert answer["passes"] <= 1 + 3  # the first pass is shared
        assert all(len(s["ids"]) == 6 and s["log_prob"] < 0 for s in answer["samples"])
        assert parsed(run(*command, "--passes", 2, "--json"))["samples"] == answer["samples"]
        assert parsed(run(*command, "--passes", 99, "--json"))["passes_per_sample"] == 6
        shown = run(*command, "--passes", 1)
        assert shown.code == 0
        assert "3 samples from tree, seed 5" in shown.out
        assert "1 forward pass" in shown.out

    def test_metropolis_tells_accept_rates_and_diagnostics(self, run: Run, bert: str) -> None:
        command = ["sample", "The [MASK] [MASK] here", "--sampler", "metropolis", "--burn-in", 2, "--thin", 1]
        command += ["--chains", 2, "-n", 8, "-m", bert, "--seed", 3]
        answer = parsed(run(*command, "--json"))
        assert len(answer["samples"]) == 8
        assert {s["chain"] for s in answer["samples"]} == {0, 1}
        assert all(0 <= rate <= 1 for rate in answer["accept_rates"])
        assert set(answer["diagnostics"]) == {"log_weight", "blank 0", "blank 1"}
        shown = run(*command)
        assert "R-hat" in shown.out
        assert "of proposals" in shown.out

    def test_the_chain_joins_by_the_method(self, run: Run, bert: str) -> None:
        command = ("sample", THREE, "--sampler", "chain", "-n", 1, "-m", bert, "--json")
        assert "joined by hcb" in parsed(run(*command, "--method", "hcb"))["notes"][-1]
        assert "joined by ag" in parsed(run(*command))["notes"][-1]
        assert "single blanks" in parsed(run(*command, "--option", "block=1"))["notes"][-1]
        assert "of chain: expected 'product'" in run(*command, "--method", "grid").line

    def test_what_the_model_does_not_know_of_a_prefix_is_noted(self, run: Run, bert: str) -> None:
        outcome = run("sample", "--prefix", "The \u65e5", "--length", 1, "-n", 1, "-m", bert)
        assert "note: a token of the text is unknown to this model" in outcome.err

    def test_one_blank_is_no_chain_of_pairs(self, run: Run, bert: str) -> None:
        outcome = run("sample", "The [MASK] here", "--sampler", "chain", "-n", 1, "-m", bert)
        assert outcome.err == "note: 1 blank: the model's own answer, as by every method\n"

    def test_gibbs_says_what_it_is(self, run: Run, bert: str) -> None:
        command = ("sample", "--template", "The [MASK] [MASK] here", "--sampler", "gibbs", "--burn-in", 1)
        outcome = run(*command, "--thin", 1, "-n", 4, "-m", bert)
        assert outcome.code == 0
        assert "the method gibbs" in outcome.err
        assert "1 per chain after the burn-in" in outcome.err
        assert "20 are needed; take thin 20 or more, or draw 77 or more" in outcome.err

    def test_the_defaults_tell_whether_the_chains_have_settled(self, run: Run, bert: str) -> None:
        command = ("sample", "The [MASK] [MASK] here", "--sampler", "gibbs", "--support", 8, "-m", bert)
        answer = parsed(run(*command, "--json"))
        assert (answer["sweeps"], len(answer["samples"])) == (30, 12)
        for row in answer["diagnostics"].values():
            assert 1 <= row["ess"] <= 120
            assert 0.9 < row["rhat"] < 2
        assert not any("too few" in note for note in answer["notes"])
        enough = parsed(run(*command, "--json", "--thin", 1, "-n", 77, "--burn-in", 0))
        assert not any("too few" in note for note in enough["notes"])

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--length", 0], "at least 1 token, got --length 0"),
            (["--length", 100], "window holds 64: take length 62 or less"),
            (["[MASK] " * 100], "102 tokens long, but the model's window holds 64"),
            ([], "expected a text with blanks (a template), or length"),
            (["The [MASK]", "--template", "A [MASK]"], "given twice"),
            (["The [MASK]", "--length", 3], "leave out length"),
            (["The [MASK]", "--sampler", "hamilton"], "unknown sampler 'hamilton'"),
            (
                ["The [MASK]", "--sampler", "gibbs", "--chains", 0],
                "number of chains, a whole number of at least 1",
            ),
            (["The [MASK]", "--sampler", "metropolis", "--energy", "x"], "unknown energy 'x'"),
            (["The [MASK]", "--sampler", "gibbs", "--option", "pivot=1"], "no effect with --sampler gibbs"),
            (
                ["The [MASK]", "--sampler", "gibbs", "--method", "magic"],
                "--method has no effect with --sampler gibbs",
            ),
            (
                ["The [MASK]", "--sampler", "gibbs", "--energy", "zzz"],
                "--energy has no effect with --sampler gibbs",
            ),
            (
                ["The [MASK]", "--sampler", "gibbs", "-k", 0],
                "--candidates has no effect with --sampler gibbs",
            ),
            (["The [MASK]", "--chains", 0], "--chains has no effect with --sampler joint"),
            (["The [MASK]", "--sampler", "chain", "--thin", 0], "--thin has no effect with --sampler chain"),
            ([THREE, "--sampler", "block-gibbs", "-k", -1], "candidates: expected a whole number from 0 on"),
            ([THREE, "--sampler", "block-gibbs", "-k", "all"], "1 candidate or more"),
            ([THREE, "--sampler", "block-gibbs", "-k", -3], "got -3"),
            (["--prefix", "The [MASK] is", "--length", 2], "the prefix has a blank"),
            (["--prefix", "The ___ is", "--length", 2], "the prefix has a blank"),
            (["--prefix", "old " * 70, "--length", 2], "window holds 64: shorten the prefix"),
            (["--prefix", "The [SEP] man", "--length", 2], "the prefix spells [SEP], a special token"),
            (["--prefix", "The \udcff", "--length", 2], "not valid Unicode from character 5 on"),
            (["The [MASK]", "--sampler", "gibbs", "--seed", 10**20], "'--seed'"),
            (["The [MASK]", "--sampler", "block-gibbs", "--method", "magic"], "unknown method 'magic'"),
            (
                [THREE, "--sampler", "chain", "--method", "gibbs", "--option", "pairs=hcb"],
                "joined by --method gibbs or by pairs=hcb: leave out one of them",
            ),
            ([THREE, "--passes", 0], "expected at least 1 pass, got --passes 0"),
            ([THREE, "--passes", "few"], "'--passes'"),
            ([THREE, "--passes", 2, "--sampler", "chain"], "--sampler has no effect with --passes"),
            ([THREE, "--passes", 2, "--method", "tree"], "--method has no effect with --passes"),
            ([THREE, "--passes", 2, "-k", 4], "--candidates has no effect with --passes"),
            ([THREE, "--passes", 2], "sampling in a few passes needs a pair head"),
            ([THREE, "--passes", 2], "make one with unmask distill --model"),
            (["The man", "--passes", 2], "the text has no blank"),
        ],
    )
    def test_what_cannot_be_is_one_line(
        self, arguments: list[object], message: str, run: Run, bert: str
    ) -> None:
        outcome = run("sample", *arguments, "-m", bert)
        assert outcome.code == 2
        assert message in outcome.line


class TestBenchmark:
    def test_mutants_print_their_correlations(
        self, run: Run, checkpoint: Callable[[str], Path], tmp_path: Path
    ) -> None:
        path, esm = tmp_path / "m.csv", checkpoint("esm")
        path.write_text("mutant,fitness\nK2A:T3G,0.5\nK2C:T3A,0.1\nK2W:T3A,0.3\n")
        outcome = run("benchmark", "mutants", path, "--wild-type", "MKTAYIAKQR", "-m", esm)
        assert outcome.code == 0
        assert "masked-marginals" in outcome.out
        answer = parsed(
            run(
                "benchmark",
                "mutants",
                path,
                "--wild-type",
                "MKTAYIAKQR",
                "-m",
                esm,
                "--json",
                "--scoring",
                "all",
            )
        )
        assert set(answer["spearman"][0]) == {"mutations", "mutants", *SCORINGS}
        path.write_text("mutant\nK2A:T3G\nK2C:T3A\n")
        assert "DMS_score" in run("benchmark", "mutants", path, "--wild-type", "MKTAYIAKQR", "-m", esm).line

    def test_mutants_are_scored_into_a_table(
        self, run: Run, checkpoint: Callable[[str], Path], tmp_path: Path
    ) -> None:
        path, esm, out = tmp_path / "m.csv", checkpoint("esm"), tmp_path / "scores.csv"
        path.write_text("mutant,DMS_score\nK2A:T3G,0.5\nK2C:T3A,0.1\nK2W:T3A,0.3\n")
        wild = tmp_path / "wild.fasta"
        wild.write_text(">it\nMKTAY\nIAKQR\n")
        command = ("mutants", "score", path, "--wild-type", wild, "-m", esm)
        told = run(*command, "--out", out)
        rows = list(csv.DictReader(out.read_text().splitlines()))
        assert [row["mutant"] for row in rows] == ["K2A:T3G", "K2C:T3A", "K2W:T3A"]
        assert [row["DMS_score"] for row in rows] == ["0.5", "0.1", "0.3"]
        assert "2 (3 mutants)" in told.err
        assert run(*command).out == out.read_text()
        answer = parsed(run(*command, "--json", "--scoring", "wt-context"))
        assert answer["scoring"] == "wt-context"
        assert answer["rows"][0]["mutations"] == 2
        path.write_text("mutant\nK2A\n")
        assert run(*command).out.splitlines()[0] == "mutant,mutations,score,additive,epistasis"

    def test_a_scan_shows_the_best(self, run: Run, checkpoint: Callable[[str], Path], tmp_path: Path) -> None:
        command = ("mutants", "scan", "--wild-type", "MKTAYIAKQR", "-m", checkpoint("esm"), "--sites", "2,3")
        lines = run(*command, "--targets", "ACD", "--targets", "GT", "-t", 2).out.splitlines()
        assert len(lines) == 3
        scores = [float(line.split(",")[2]) for line in lines[1:]]
        assert scores == sorted(scores, reverse=True)
        answer = parsed(run(*command, "--targets", "ACD", "--json", "--top", 20))
        assert len(answer["rows"]) == 9
        refused = run(*command, "--out", tmp_path / "no" / "where.csv")
        assert refused.code == 2
        assert "no directory" in refused.line

    @pytest.mark.parametrize(
        ("arguments", "complaint"),
        [
            (["score", "nowhere.csv", "--wild-type", "MKT"], "is not there"),
            (["score", "nowhere.csv", "--wild-type", "MKT", "--scoring", "best"], "unknown scoring 'best'"),
            (["score", "nowhere.csv", "--wild-type", "MKT", "--method", "best"], "unknown method 'best'"),
            (["scan", "--wild-type", "M K", "--sites", "1"], "expected the wild type as letters"),
            (["scan", "--wild-type", "MKT", "--sites", "one"], "expected sites as 39,40,41,54"),
        ],
    )
    def test_mutants_that_cannot_be_are_one_line(
        self, run: Run, arguments: list[str], complaint: str
    ) -> None:
        outcome = run("mutants", *arguments)
        assert outcome.code == 2
        assert complaint in outcome.line

    def test_a_wild_type_is_one_sequence(self, run: Run, tmp_path: Path) -> None:
        fasta = tmp_path / "two.fasta"
        fasta.write_text(">one\nMKTAYI\n>two\nAKQR\n")
        outcome = run("benchmark", "mutants", "m.csv", "--wild-type", fasta)
        assert outcome.code == 2
        assert "holds 2 sequences" in outcome.line

    def test_blimp_and_blanks_print_their_tables(self, run: Run, bert: str, tmp_path: Path) -> None:
        pair = {
            "sentence_good": "a dog is old",
            "sentence_bad": "a is dog old",
            "UID": "x",
            "linguistics_term": "order",
        }
        (tmp_path / "x.jsonl").write_text(json.dumps(pair) + "\n")
        answer = parsed(run("benchmark", "blimp", tmp_path, "-m", bert, "--json", "-k", 2))
        assert answer["not_scored"] == 0
        assert set(answer["accuracy"]["order"]) == {"pll", "pll-word", "chain", "ag-chain", "pairs"}
        (tmp_path / "t.txt").write_text("the old man is at the casino\n")
        command = ("benchmark", "blanks", "--data", f"text={tmp_path / 't.txt'}", "--blanks", "2", "-m", bert)
        shown = run(*command, "--methods", "independent, greedy,chain-gibbs", "--sentences", 1)
        head, independent, greedy, chain = (
            next(line for line in shown.out.splitlines() if name in line)
            for name in ("recall@1, %", "2   independent", "greedy", "chain-gibbs")
        )
        assert re.split(r"  +", head.strip())[4:8] == ["recall@1, %", "@5", "@10", "log-prob."]
        assert len(re.split(r"  +", independent.strip())) == 8  # it gains nothing over itself
        assert re.split(r"  +", greedy.strip())[-1] == "-"
        assert len(re.split(r"  +", chain.strip())) == 10

    def test_no_row_of_blanks_is_folded(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The widest numbers that a real run gives stand in one line each."""
        hit = {"value": 0.182, "low": 0.169, "high": 0.197}
        row = {"data": "snli", "blanks": 4, "method": "independent", "sentences": 3000}
        row |= {f"recall@{k}": hit for k in (1, 5, 10)}
        row |= {"log_prob": {"value": -15.79, "low": -16.11, "high": -15.42}}
        row |= {"gain": {"value": -0.66, "low": -0.71, "high": -0.61}, "recall_gain": hit}
        rows = [{**row, "method": method} for method in ("independent", "chain-ag", "grid-ag")]
        show_blanks({"model": "english", "rows": rows})
        lines = capsys.readouterr().out.splitlines()
        assert [line for line in lines if "snli" in line and "-15.79" in line] == lines[-4:-1]
        assert max(map(len, lines)) <= 120
        assert re.split(r"  +", lines[-2].strip())[-2:] == ["18.2 [16.9, 19.7]", "-0.66 [-0.71, -0.61]"]
        assert "-0.66" not in lines[-4]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["blimp", "nowhere"], "nowhere is none"),
            (["blanks", "--data", "text=nowhere"], "nowhere"),
            (["blanks", "--data", "text=x", "--blanks", "two"], "expected numbers of blanks as 2,3,4"),
            (["blanks", "--data", f"text={__file__}", "--methods", "best"], "unknown method 'best'"),
            (["mutants", "nowhere.csv", "--wild-type", "MKT"], "is not there"),
            (["mutants", "nowhere.csv", "--wild-type", "M K1"], "expected the wild type as letters"),
        ],
    )
    def test_what_cannot_be_is_one_line(
        self, arguments: list[str], message: str, run: Run, bert: str
    ) -> None:
        outcome = run("benchmark", *arguments, "-m", bert)
        assert outcome.code in (1, 2)
        assert message in outcome.line
