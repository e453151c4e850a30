"""Whatever a user gets wrong is answered in one line that says what to do, with exit code 2 for misuse and 1
for a failure; never with a traceback.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertModel

from tiny import save_causal
from unmask import api

Run = Callable[..., Any]
TWO = "The [MASK] [MASK] at the casino."


@pytest.fixture
def copy(bert: str, tmp_path: Path) -> Path:
    """A copy of a sound model, to be spoilt."""
    return Path(shutil.copytree(bert, tmp_path / "copy"))


class TestText:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("The man is here.", r"the text has no blank: write [MASK] or ___"),
            ("", "got an empty one: write [MASK] or ___"),
            (" \n\t ", "got an empty one"),
            ("[CLS] [SEP] [PAD]", "no blank"),
            (
                "[MASK] " * 100,
                "102 tokens long, but the model's window holds 64: shorten it",
            ),
            ("_ __ [mask] <mask>", "no blank"),
            (
                "The [MASK]" + " old" * 100,
                "104 tokens long, but the model's window holds 64: shorten it, or ask",
            ),
            ("caf\udce9 [MASK]", "not valid Unicode from character 4 on: write it in UTF-8"),
            ("The {man} {is} here.", "no blank"),
        ],
    )
    @pytest.mark.parametrize("command", ["fill", "sample", "compare", "explain"])
    def test_with_blanks(self, command: str, text: str, message: str, run: Run, bert: str) -> None:
        outcome = run(command, text, "--model", bert)
        assert outcome.code == 2
        assert message in outcome.line

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("The {man is here.", "a brace opens and does not close: write {word}, or {{ for a plain brace"),
            (
                "The man} is here.",
                "a brace closes at character 8 that was never opened: write }} for a plain",
            ),
            ("The {old {man}} is", "a brace opens inside another one at character 10: close the first"),
            ("The {} is here.", "empty braces at character 6: put the word to be scored inside"),
            ("The man is here.", "nothing is marked to be scored: put braces around it, as in"),
            ("", "got an empty one: write {word} for each"),
            ("The [MASK] is here.", "nothing is marked to be scored"),
            ("The {man} [MASK] here.", "both braces and a blank ([MASK])"),
            ("The {ol}d man", "cut the token 'old' of this model: put them around the whole word"),
            ("The {日} man", "'[UNK]' (id 6) is this model's unknown token"),
            ("The {[SEP]} man", "'[SEP]' (id 8) is a special or unused token"),
            ("{man}" + " old" * 100, "window holds 64: shorten it, or ask for truncation (truncate)"),
        ],
    )
    def test_with_braces(self, text: str, message: str, run: Run, bert: str) -> None:
        outcome = run("score", text, "--model", bert)
        assert outcome.code == 2
        assert message in outcome.line

    def test_a_file_that_is_not_there_is_no_text(self, run: Run, bert: str, tmp_path: Path) -> None:
        for path in (tmp_path / "missing.txt", "missing.txt"):
            outcome = run("score", path, "--model", bert)
            assert outcome.code == 2
            assert f"{path} does not exist" in outcome.line
        assert f"{tmp_path} is a directory" in run("score", tmp_path, "--model", bert).line

    def test_explaining_the_product_by_itself(self, run: Run) -> None:
        outcome = run("explain", TWO, "--method", "product")
        assert outcome.code == 2
        assert "name another --method" in outcome.line

    @pytest.mark.parametrize(
        ("command", "blank"), [("fill", "[MASK]"), ("sample", "[MASK]"), ("score", "{man}")]
    )
    def test_a_blank_in_the_part_that_truncation_drops(
        self, command: str, blank: str, run: Run, bert: str
    ) -> None:
        outcome = run(command, "old " * 100 + blank, "--model", bert, "--truncate")
        assert outcome.code == 2
        assert "a blank stands at token 102, in the part that truncation to 64 tokens drops" in outcome.line
        assert "move it forward or shorten the text" in outcome.line

    @pytest.mark.parametrize("command", ["compare", "explain"])
    def test_one_blank_where_two_are_needed(self, command: str, run: Run, bert: str) -> None:
        outcome = run(command, "The [MASK] is here.", "--model", bert)
        assert outcome.code == 2
        assert "two" in outcome.line

    def test_a_word_that_the_tokenizer_drops(self, run: Run, checkpoint: Callable[[str], Path]) -> None:
        outcome = run("score", "The {🦜} is", "--model", checkpoint("roberta"))
        assert outcome.code == 2
        assert "'🦜' is no token at all for this model" in outcome.line


class TestSettings:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (
                ["--candidates", "0"],
                "candidates=0 needs a pair head",
            ),
            (
                ["--candidates", "79"],
                "expected from 1 to 78 candidates (the tokens a blank may hold), got 79",
            ),
            (["--candidates", "-1"], "got -1"),
            (
                ["--candidates", "many"],
                "candidates: expected a whole number from 0 on, or 'auto' or 'all'",
            ),
            (["--candidates", "1.5"], "got '1.5'"),
            (["--candidates", ""], "got ''"),
            (["--method", "magic"], "unknown method 'magic': expected one of product, mrf-logit, mrf-prob"),
            (["--completion", "guess"], "completion: expected 'learned' or 'plain', got 'guess'"),
            (
                ["--support", "verbs"],
                "from 1 on, or 'auto', 'words' or 'all', got 'verbs'",
            ),
            (
                ["--support", "0"],
                "support: expected a whole number from 1 on",
            ),
            (["--device", "gpu"], "unknown device 'gpu': expected auto, cpu, cuda or mps"),
            (["--memory", "lots"], "expected an amount of memory such as 4GB or 512MB, got 'lots'"),
            (["--memory", "9" * 400 + "GB"], "expected at most 2^60 bytes of memory"),
            (["--memory", "0"], "expected a positive amount of memory such as 4GB, got '0'"),
            (["--seed", "-1"], "Invalid value for '--seed'"),
            (["--seed", "99999999999999999999"], "seed"),
            (["--seed", "lucky"], "--seed"),
            (["--seed", "1.5"], "--seed"),
            (["--top", "-1"], "--top"),
            (["--top", "0"], "--top"),
            (["--top", "ten"], "--top"),
            (["--colour"], "No such option: --colour"),
            (["--top"], "--top"),
            (["surplus"], "surplus"),
        ],
    )
    def test_of_fill(self, options: list[str], message: str, run: Run, bert: str) -> None:
        outcome = run("fill", TWO, "--model", bert, *options)
        assert outcome.code == 2
        assert message in outcome.line

    def test_a_missing_text_points_to_the_help(self, run: Run) -> None:
        outcome = run("fill")
        assert outcome.code == 2
        assert "see 'unmask fill --help'" in outcome.line

    def test_an_unknown_command_points_to_a_like_one(self, run: Run) -> None:
        outcome = run("fil", TWO)
        assert outcome.code == 2
        assert "Did you mean 'fill'? See 'unmask --help'" in outcome.line

    def test_no_samples(self, run: Run, bert: str) -> None:
        assert run("sample", TWO, "-m", bert, "-n", 0).code == 2

    def test_what_nobody_is_cited_for(self, run: Run) -> None:
        outcome = run("cite", "magic")
        assert outcome.code == 2
        assert "nothing is known to cite for 'magic': expected one of" in outcome.line

    def test_all_methods_where_one_is_needed(self, run: Run, bert: str) -> None:
        outcome = run("sample", TWO, "-m", bert, "--method", "all")
        assert outcome.code == 2
        assert "unknown method 'all'" in outcome.line

    def test_a_memory_budget_that_cannot_hold_one_batch(self, run: Run, bert: str) -> None:
        outcome = run("fill", TWO, "-m", bert, "--memory", "1kB")
        assert outcome.code == 1
        assert "one forward pass over 9 tokens needs about" in outcome.line
        assert "but the memory budget is 1 kB: raise memory, or shorten the text" in outcome.line

    def test_a_memory_budget_that_cannot_hold_the_tables_is_kept_all_the_same(
        self, run: Run, bert: str
    ) -> None:
        outcome = run("fill", TWO, "-m", bert, "--memory", "48kB", "--support", "words")
        assert outcome.code == 0


class TestModel:
    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("no/such/directory", "no model at 'no/such/directory': give a checkpoint's directory"),
            ("what is this?", "no model at 'what is this?'"),
            ("nobody/has-this", "the hub is switched off (HF_HUB_OFFLINE): give a directory"),
            ("", "config.json"),
            ("The man " * 1000, "no model at 'The man The man"),
        ],
    )
    def test_an_unknown_one(
        self, name: str, message: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        outcome = run("fill", TWO, "--model", name)
        assert outcome.code == 2
        assert message in outcome.line

    def test_a_causal_one(self, run: Run, tmp_path: Path) -> None:
        outcome = run("fill", TWO, "--model", save_causal(tmp_path))
        assert outcome.code == 2
        assert (
            "type 'gpt2', which has no masked-language-model head: give a checkpoint such as" in outcome.line
        )

    def test_one_without_a_mask_token(self, run: Run, copy: Path) -> None:
        settings = json.loads((copy / "tokenizer_config.json").read_text())
        settings |= {"mask_token": None, "tokenizer_class": "TokenizersBackend"}
        (copy / "tokenizer_config.json").write_text(json.dumps(settings))
        outcome = run("fill", TWO, "--model", copy)
        assert outcome.code == 2
        assert "has no mask token, so it can't mark a blank" in outcome.line

    def test_one_without_a_config(self, run: Run, copy: Path) -> None:
        (copy / "config.json").unlink()
        outcome = run("fill", TWO, "--model", copy)
        assert outcome.code == 2
        assert "holds no config.json: give the directory of a Hugging Face checkpoint" in outcome.line

    def test_one_without_weights(self, run: Run, copy: Path) -> None:
        (copy / "model.safetensors").unlink()
        outcome = run("fill", TWO, "--model", copy)
        assert outcome.code == 1
        assert "holds a config.json but no weights: expected model.safetensors" in outcome.line

    def test_one_without_a_tokenizer(self, run: Run, copy: Path) -> None:
        (copy / "tokenizer.json").unlink()
        (copy / "tokenizer_config.json").unlink()
        outcome = run("fill", TWO, "--model", copy)
        assert outcome.code == 1
        assert "tokenizer.json or vocab.txt, beside the weights" in outcome.line

    def test_one_with_damaged_weights(self, run: Run, copy: Path) -> None:
        whole = (copy / "model.safetensors").read_bytes()
        (copy / "model.safetensors").write_bytes(whole[: len(whole) // 2])
        outcome = run("fill", TWO, "--model", copy)
        assert outcome.code == 1
        assert "it may be damaged, take another copy" in outcome.line

    def test_one_with_weights_that_are_not_numbers(self, run: Run, copy: Path) -> None:
        weights = load_file(copy / "model.safetensors")
        weights["cls.predictions.transform.dense.weight"][2, 3] = torch.nan
        save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
        outcome = run("fill", TWO, "--model", copy)
        assert outcome.code == 1
        assert "(NaN or infinite) in cls.predictions.transform.dense.weight: it is damaged" in outcome.line

    def test_one_without_the_head_of_a_masked_language_model(self, run: Run, copy: Path) -> None:
        BertModel.from_pretrained(copy).save_pretrained(copy)
        outcome = run("fill", TWO, "--model", copy)
        assert outcome.code == 1
        assert "it may be an encoder without a head" in outcome.line

    def test_one_whose_weights_are_pickled(self, run: Run, copy: Path) -> None:
        torch.save(load_file(copy / "model.safetensors"), copy / "pytorch_model.bin")
        (copy / "model.safetensors").unlink()
        outcome = run("fill", TWO, "--model", copy)
        assert outcome.code == 2
        assert "allow it with --allow-pickle" in outcome.line
        assert run("fill", TWO, "--model", copy, "--allow-pickle").code == 0


def test_a_line_of_typers_own_is_not_too_long_and_can_be_printed(run: Run) -> None:
    outcome = run("explain", TWO, "\x1b[31m", "9" * 5000)
    assert outcome.code == 2
    assert len(outcome.line) < 2000
    assert outcome.line.isprintable()


def test_a_name_that_no_file_can_have(run: Run) -> None:
    outcome = run("report", "x" * 5000)
    assert outcome.code == 1
    assert "check the path" in outcome.line


class TestWhatNobodyForesaw:
    def test_it_is_one_line_too_and_says_how_to_see_more(
        self, run: Run, bert: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object, **__: object) -> None:
            raise RuntimeError("the disk\nis on fire")

        monkeypatch.setattr(api, "fill", fail)
        outcome = run("fill", TWO, "--model", bert)
        assert outcome.code == 1
        assert "(RuntimeError: the disk is on fire): 'unmask --debug ...' shows where" in outcome.line

    def test_debug_lets_it_through(self, run: Run, bert: str, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: object, **__: object) -> None:
            raise RuntimeError("the disk is on fire")

        monkeypatch.setattr(api, "fill", fail)
        with pytest.raises(RuntimeError, match="on fire"):
            run("--debug", "fill", TWO, "--model", bert)

    def test_an_interruption_says_so(self, run: Run, bert: str, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupt(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(api, "fill", interrupt)
        outcome = run("fill", TWO, "--model", bert)
        assert (outcome.code, outcome.line) == (130, "stopped")
