"""Each command prints what the library answers: tables for people, one JSON object for machines."""

import io
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import unmask
from unmask.cli import main
from unmask.models.masked_lm import MaskedLM

TEXT = "The old [MASK] is playing [MASK] the casino."
BRACES = "The old {man} is playing {at} the casino."
COMMANDS = ["fill", "score", "sample", "compare", "explain", "models", "cite"]
Run = Callable[..., Any]


def parsed(outcome: Any) -> dict[str, Any]:
    """The one JSON object that a command printed, and nothing else."""
    assert (outcome.code, outcome.err) == (0, "")
    answer = json.loads(outcome.out)
    assert outcome.out.count("\n") == 1
    assert isinstance(answer, dict)
    return answer


class TestFill:
    def test_json_holds_what_the_library_answers(
        self, run: Run, bert: str, mlm_of: Callable[[str], MaskedLM]
    ) -> None:
        answer = parsed(run("fill", TEXT, "--model", bert, "--json", "--top", 4))
        joint = unmask.fill(TEXT, mlm=mlm_of("bert"))
        assert [f["log_prob"] for f in answer["fillings"]] == pytest.approx(
            [f.log_prob for f in joint.top(4)]
        )
        assert [tuple(f["ids"]) for f in answer["fillings"]] == [f.ids for f in joint.top(4)]
        assert [f["text"] for f in answer["fillings"]] == [f.text for f in joint.top(4)]
        assert answer["entropy"] == pytest.approx(float(joint.entropy()))
        assert answer["mutual_information"] == pytest.approx(float(joint.mutual_information()))

    def test_json_says_what_the_answer_rests_on(self, run: Run, bert: str) -> None:
        answer = parsed(run("fill", TEXT, "-m", bert, "--json", "-k", 10, "--seed", 5, "--method", "gibbs"))
        expected = {
            "model": bert,
            "method": "gibbs",
            "length": 12,
            "blank_positions": [3, 7],
            "support_sizes": [78, 78],
            "conditionals": "cross",
            "candidates": 10,
            "completion": "learned",
            "seed": 5,
            "passes": 21,
            "notes": [],
        }
        assert {key: answer[key] for key in expected} == expected
        assert 0 < answer["mass_outside_candidates"] < 1
        assert set(answer["completion_error"]) == {"a_given_b", "b_given_a"}
        for filling in answer["fillings"]:
            assert filling["probability"] == pytest.approx(math.exp(filling["log_prob"]))

    def test_nothing_is_outside_the_candidates_of_an_exact_answer(self, run: Run, bert: str) -> None:
        answer = parsed(run("fill", TEXT, "-m", bert, "--json", "-k", "all"))
        assert answer["mass_outside_candidates"] is None
        assert answer["conditionals"] == "exact"

    @pytest.mark.parametrize("method", list(unmask.CONSTRUCTIONS))
    @pytest.mark.parametrize("candidates", ["1", "all"])
    def test_every_method_prints_json(self, method: str, candidates: str, run: Run, bert: str) -> None:
        answer = parsed(run("fill", TEXT, "-m", bert, "--json", "--method", method, "-k", candidates))
        assert answer["method"] == method
        if method == "hcb":
            assert set(answer["options"]) == {"order", "pivot"}

    def test_people_get_a_table(self, run: Run, bert: str, mlm_of: Callable[[str], MaskedLM]) -> None:
        outcome = run("fill", TEXT, "--model", bert, "--top", 3)
        assert (outcome.code, outcome.err) == (0, "")
        for filling in unmask.fill(TEXT, mlm=mlm_of("bert")).top(3):
            assert filling.text in outcome.out
            assert f"{filling.log_prob:.3f}" in outcome.out
        assert "157 forward passes" in outcome.out
        assert "\x1b" not in outcome.out  # no colours where there is no terminal

    def test_one_blank_is_the_plain_model(self, run: Run, bert: str) -> None:
        answer = parsed(run("fill", "The ___ is old", "--model", bert, "--json"))
        assert (answer["method"], answer["passes"], answer["mutual_information"]) == ("mlm", 1, 0.0)
        assert "one blank" in run("fill", "The ___ is old", "--model", bert).out

    def test_more_fillings_than_there_are_give_all_there_are(self, run: Run, bert: str) -> None:
        assert len(parsed(run("fill", "A ___", "-m", bert, "--json", "-t", 1000))["fillings"]) == 78
        assert len(parsed(run("fill", "A ___ ___", "-m", bert, "--json", "-t", 9999))["fillings"]) == 78**2

    def test_a_cut_text_is_mentioned_beside_the_result(self, run: Run, bert: str) -> None:
        long = "The [MASK] is" + " old" * 100
        outcome = run("fill", long, "-m", bert, "--truncate")
        assert outcome.err == "note: the text was cut from 105 to 64 tokens\n"
        answer = parsed(run("fill", long, "-m", bert, "--truncate", "--json"))
        assert answer["notes"] == ["the text was cut from 105 to 64 tokens"]
        assert answer["length"] == 64

    def test_all_methods_are_a_comparison(self, run: Run, bert: str) -> None:
        every = parsed(run("fill", TEXT, "-m", bert, "--json", "--method", "all", "--top", 3))
        assert every == parsed(run("compare", TEXT, "-m", bert, "--json"))

    @pytest.mark.parametrize("command", [("fill",), ("fill", "--method", "all"), ("compare",), ("explain",)])
    def test_a_named_word_is_asked_about_however_unlikely(
        self, run: Run, bert: str, command: tuple[str, ...]
    ) -> None:
        asked = (*command, TEXT, "-m", bert, "--json", "--candidates", 5, "--support", 20)
        *_, unlikely = unmask.fill(TEXT, mlm=unmask.load(bert)).marginal(0).top(78)
        without, named = parsed(run(*asked)), parsed(run(*asked, "--include", unlikely.tokens[0]))
        assert (without["support_sizes"][0], named["support_sizes"][0]) == (20, 21)


class TestScore:
    def test_json_holds_what_the_library_answers(
        self, run: Run, bert: str, mlm_of: Callable[[str], MaskedLM]
    ) -> None:
        answer = parsed(run("score", BRACES, "--model", bert, "--json", "--method", "l2r"))
        score = unmask.score(BRACES, mlm=mlm_of("bert"), method="l2r")
        assert answer["tokens"] == ["man", "at"]
        assert answer["text"] == BRACES.replace("{", "").replace("}", "")
        assert answer["log_prob"] == pytest.approx(score.filling.log_prob)
        given = [blank["log_prob_given_others"] for blank in answer["blanks"]]
        assert given == pytest.approx(score.conditional_log_probs)
        # the first token of l2r is drawn with the other one unknown: chain rule
        first, second = answer["blanks"]
        assert answer["log_prob"] == pytest.approx(
            first["marginal_log_prob"] + second["log_prob_given_others"], abs=1e-5
        )

    @pytest.mark.parametrize("options", [[], ["--json"]])
    def test_an_empty_file_is_told_of(self, run: Run, bert: str, tmp_path: Path, options: list[str]) -> None:
        (tmp_path / "empty.txt").touch()
        outcome = run("score", tmp_path / "empty.txt", "--model", bert, "--scores", "pll", *options)
        assert outcome.code == 0
        assert "nothing to score" in outcome.err

    def test_one_sentence_is_no_plural(self, run: Run, bert: str, tmp_path: Path) -> None:
        (tmp_path / "one.txt").write_text("dog\n")
        outcome = run("score", tmp_path / "one.txt", "--model", bert, "--scores", "pll")
        assert "1 sentence of 1 token;" in outcome.err

    def test_a_word_of_several_tokens_is_mentioned(self, run: Run, bert: str) -> None:
        outcome = run("score", "The man is {playing}", "--model", bert)
        assert outcome.code == 0
        assert outcome.err.startswith("note: 'playing' is 2 tokens for this model (play ##ing)")
        assert "log-probability" in outcome.out

    def test_square_brackets_in_the_text_are_no_markup(self, run: Run, bert: str) -> None:
        outcome = run("score", "[/b] the [red]{man}[/red] is", "--model", bert)
        assert outcome.code == 0
        assert "[/b] the [red]man[/red] is" in outcome.out


class TestSample:
    def test_the_seed_decides_what_is_drawn(self, run: Run, bert: str) -> None:
        drawn = [
            parsed(run("sample", TEXT, "-m", bert, "--json", "-n", 20, "--seed", seed)) for seed in (1, 1, 2)
        ]
        assert drawn[0] == drawn[1]
        assert drawn[0]["samples"] != drawn[2]["samples"]
        assert len(drawn[0]["samples"]) == 20
        assert drawn[0]["sampling_seed"] == 1

    def test_people_get_one_row_a_sample(self, run: Run, bert: str) -> None:
        outcome = run("sample", TEXT, "-m", bert, "-n", 7)
        assert "7 samples from ag, seed 0" in outcome.out
        assert outcome.out.count("the casino.") == 7


class TestCompare:
    def test_every_construction_is_there(self, run: Run, bert: str) -> None:
        answer = parsed(run("compare", TEXT, "-m", bert, "--json"))
        assert list(answer["methods"]) == list(unmask.CONSTRUCTIONS)
        assert answer["methods"]["product"]["kl_from_product"] == pytest.approx(0, abs=1e-6)
        assert answer["methods"]["product"]["mutual_information"] == pytest.approx(0, abs=1e-5)
        assert answer["methods"]["product"]["agrees_with_product"] is True
        assert answer["methods"]["ag"]["kl_from_product"] > 0
        assert answer["incompatibility"] > 0
        outcome = run("compare", TEXT, "-m", bert)
        assert all(f"{name} " in outcome.out for name in unmask.CONSTRUCTIONS)


class TestExplain:
    def test_both_answers_are_shown(self, run: Run, bert: str, mlm_of: Callable[[str], MaskedLM]) -> None:
        answer = parsed(run("explain", TEXT, "-m", bert, "--json"))
        joint, product = (unmask.fill(TEXT, mlm=mlm_of("bert"), method=m) for m in ("ag", "product"))
        assert tuple(answer["joint"]["ids"]) == joint.top(1)[0].ids
        assert tuple(answer["independent"]["ids"]) == product.top(1)[0].ids
        outcome = run("explain", TEXT, "-m", bert)
        assert joint.top(1)[0].text in outcome.out
        assert product.top(1)[0].text in outcome.out


class TestSmallCommands:
    def test_models_lists_what_is_embedded(self, run: Run) -> None:
        assert "models" in parsed(run("models", "--json"))
        assert "--model DIRECTORY" in run("models").out

    def test_cite_prints_bibtex_for_one_thing_or_for_all(self, run: Run) -> None:
        every, one = run("cite"), run("cite", "hcb")
        assert every.code == one.code == 0
        assert "besag1974" in one.out
        assert len(every.out) > len(one.out)
        assert every.out.count("@") >= 5

    def test_version(self, run: Run) -> None:
        assert run("--version").out == f"unmask {unmask.__version__}\n"

    @pytest.mark.parametrize("arguments", [["--help"], []])
    def test_help_names_every_command(self, run: Run, arguments: list[str]) -> None:
        outcome = run(*arguments)
        assert outcome.code == 0
        assert all(f"\n  {command} " in outcome.out for command in COMMANDS)

    @pytest.mark.parametrize("command", COMMANDS)
    def test_every_command_has_help(self, run: Run, command: str) -> None:
        outcome = run(command, "--help")
        assert (outcome.code, outcome.err) == (0, "")
        assert outcome.out.startswith(f"Usage: unmask {command}")


class TestStreams:
    @pytest.mark.parametrize("options", [["--json"], []])
    def test_a_stream_that_is_not_unicode_fails_no_command(
        self, options: list[str], checkpoint: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        raw = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii", write_through=True))
        text = "The 🦜 ___ ___ 日本"
        monkeypatch.setattr(sys, "argv", ["unmask", "fill", text, "-m", str(checkpoint("roberta")), *options])
        with pytest.raises(SystemExit) as stop:
            main()
        assert not stop.value.code
        printed = raw.getvalue().decode("ascii")
        if options:
            answer = json.loads(printed)
            assert all("日本" in filling["text"] for filling in answer["fillings"])

    @pytest.mark.parametrize(
        "text", ["The\n[MASK]\n[MASK]", "\u202e[MASK] ﷺ", "[MASK]e\u0301👩‍👩‍👧", "[MASK][MASK]"]
    )
    def test_odd_text_comes_out_as_it_went_in(self, run: Run, bert: str, text: str) -> None:
        answer = parsed(run("fill", text, "-m", bert, "--json"))
        start, end = text.split("[MASK]")[0].rstrip(), text.split("[MASK]")[-1]
        assert all(f["text"].startswith(start) and f["text"].endswith(end) for f in answer["fillings"])
        assert run("fill", text, "-m", bert).code == 0

    def test_starting_imports_nothing_heavy(self) -> None:
        heavy = "{'torch', 'transformers', 'rich', 'numba'}"
        check = f"import sys, unmask.cli; print(sorted({heavy} & {{*sys.modules}}))"
        done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "[]"


class Terminal(io.StringIO):
    """A standard error that somebody looks at."""

    def isatty(self) -> bool:
        return True


class TestProgress:
    HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"

    @pytest.mark.parametrize(
        ("text", "code"), [(TEXT, 0), ("no blank", 2)], ids=["what goes well", "what fails"]
    )
    def test_a_terminal_sees_the_progress_of(
        self, text: str, code: int, run: Run, bert: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        terminal = Terminal()
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr(sys, "stderr", terminal)
        outcome = run("fill", text, "--model", bert, "--json")
        shown = terminal.getvalue()
        assert outcome.code == code
        assert "loading the model" in shown
        assert shown.rfind(self.SHOW_CURSOR) > shown.rfind(self.HIDE_CURSOR) >= 0
        assert ("forward passes" in shown) == (code == 0)
        assert bool(outcome.out) == (code == 0)


class TestInstalledScript:
    """A few runs of the real thing, each a new process."""

    SCRIPT = Path(sys.executable).parent / "unmask"

    def start(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.SCRIPT), *arguments], capture_output=True, text=True, encoding="utf-8", **options
        )

    def test_json_is_all_that_is_printed(self, bert: str) -> None:
        done = self.start("fill", TEXT, "--model", bert, "--json", "--top", "2")
        assert (done.returncode, done.stderr) == (0, "")
        assert len(json.loads(done.stdout)["fillings"]) == 2

    def test_misuse_is_one_line_and_exit_code_2(self) -> None:
        done = self.start("fill", TEXT, "--model", "no such model")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("unmask: no model at 'no such model': give a checkpoint's directory")
        assert done.stderr.count("\n") == 1

    def test_debug_shows_the_traceback_of_a_failure(self, tmp_path: Path) -> None:
        (tmp_path / "config.json").write_text('{"model_type": "bert"}')
        done = self.start("--debug", "fill", TEXT, "--model", str(tmp_path))
        assert done.returncode == 1
        assert "Traceback" in done.stderr
        assert f"unmask.errors.RunError: '{tmp_path}' holds a config.json but no weights" in done.stderr

    def test_a_reader_that_goes_away_is_no_error_of_ours(self) -> None:
        reader, writer = os.pipe()
        os.close(reader)
        try:
            done = subprocess.run(
                [str(self.SCRIPT), "cite"], stdout=writer, stderr=subprocess.PIPE, text=True
            )
        finally:
            os.close(writer)
        assert "Traceback" not in done.stderr
        assert done.stderr.count("\n") <= 1


def test_training_takes_its_rules_as_options(run, tmp_path):
    """Mask-only, a Unigram vocabulary, shares and licences, without a file of settings."""
    (tmp_path / "a.txt").write_text("\n\n".join(f"the jax number {n} meets the nax" for n in range(80)))
    done = run(
        "train",
        *(
            "--corpus",
            f"a={tmp_path / 'a.txt'}",
            "--init-from",
            "bert-tiny",
            "--vocab-size",
            40,
            "--max-steps",
            1,
        ),
        *(
            "--tokenizer-type",
            "unigram",
            "--mask-replace-prob",
            1,
            "--random-replace-prob",
            0,
            "--batch-size",
            2,
            "--max-length",
            16,
        ),
        *("--share", "a=1", "--licence", "mit", "--data-licence", "a=CC0", "--save-steps", 1),
        *("--mlm-probability", "0.1,0.5", "--sentence-share", "a=0.5"),
        *("--out", tmp_path / "run"),
    )
    assert done.code == 0, done.err
    settings = json.loads((tmp_path / "run" / "settings.json").read_text())
    record = settings.get("settings", settings)
    assert [record[name] for name in ("mask_replace_prob", "random_replace_prob", "tokenizer_type")] == [
        1,
        0,
        "unigram",
    ]
    assert (record["shares"], record["data_licences"]) == ({"a": 1}, {"a": "CC0"})
    assert (record["mlm_probability"], record["sentence_shares"]) == ([0.1, 0.5], {"a": 0.5})
    for wrong, message in (
        (["--layers", "first"], "layers as 0,1,3,5"),
        (["--share", "a"], "--share NAME=NUMBER"),
        (["--mlm-probability", "half"], "mlm_probability: expected a number"),
        (["--mlm-probability", "0.5,0.1"], "the lower one first"),
    ):
        refused = run("train", "--corpus", "a=b.txt", "--out", tmp_path / "other", *wrong)
        assert refused.code == 2
        assert message in refused.err
