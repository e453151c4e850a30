"""A checkpoint that can't be used is refused in one line that says why and what to do."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, BertModel

from tiny import BERT_SPECIALS, save_causal
from unmask.errors import RunError, UnmaskError, UsageError
from unmask.models.checkpoint import open_checkpoint
from unmask.models.masked_lm import Backend, MaskedLM

Paths = Callable[[str], Path]


@pytest.fixture
def bert(checkpoint: Paths, tmp_path: Path) -> Path:
    """A copy of BERT's checkpoint to be damaged."""
    return Path(shutil.copytree(checkpoint("bert"), tmp_path / "bert"))


def refusal(source: str | Path, kind: type[UnmaskError], **options: bool) -> str:
    """The one line with which a checkpoint is refused."""
    with pytest.raises(kind) as caught:
        open_checkpoint(source, **options)
    line = str(caught.value)
    assert "\n" not in line
    assert str(source) in line
    return line


def change(path: Path, **settings: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


def rewrite(directory: Path, edit: Callable[[dict[str, torch.Tensor]], None]) -> None:
    weights = load_file(directory / "model.safetensors")
    edit(weights)
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})


class TestPickles:
    @pytest.fixture
    def pickled(self, bert: Path) -> Path:
        torch.save(load_file(bert / "model.safetensors"), bert / "pytorch_model.bin")
        (bert / "model.safetensors").unlink()
        return bert

    def test_pickled_weights_are_refused_unless_allowed(self, pickled: Path) -> None:
        assert "--allow-pickle (allow_pickle=True)" in refusal(pickled, UsageError)

    def test_allowed_pickled_weights_are_the_same_weights(self, pickled: Path, checkpoint: Paths) -> None:
        mlm = MaskedLM.load(pickled, allow_pickle=True, device="cpu")
        safe = MaskedLM.load(checkpoint("bert"), device="cpu")
        ids = torch.tensor([[7, 9, 40, 8]])
        torch.testing.assert_close(mlm.logits(ids, 1), safe.logits(ids, 1))

    def test_safetensors_are_preferred_even_when_pickles_are_allowed(self, bert: Path) -> None:
        (bert / "pytorch_model.bin").write_bytes(b"not a pickle at all")
        open_checkpoint(bert, allow_pickle=True)

    def test_a_damaged_pickle_is_refused(self, pickled: Path) -> None:
        (pickled / "pytorch_model.bin").write_bytes(b"not a pickle at all")
        assert "may be damaged" in refusal(pickled, RunError, allow_pickle=True)


class TestWhatIsMissing:
    def test_an_unknown_directory(self, tmp_path: Path) -> None:
        assert "no model at" in refusal(tmp_path / "nowhere" / "to be found", UsageError)

    def test_a_file_in_place_of_a_directory(self, bert: Path) -> None:
        assert "is a file: give the directory" in refusal(bert / "config.json", UsageError)

    def test_no_config(self, tmp_path: Path) -> None:
        assert "holds no config.json" in refusal(tmp_path, UsageError)

    def test_no_weights(self, bert: Path) -> None:
        (bert / "model.safetensors").unlink()
        assert "no weights: expected model.safetensors" in refusal(bert, RunError)

    @pytest.mark.parametrize("architecture", ["bert", "roberta", "albert", "modernbert", "esm"])
    def test_no_tokenizer(self, architecture: str, checkpoint: Paths, tmp_path: Path) -> None:
        for name in ("config.json", "model.safetensors"):
            shutil.copy(checkpoint(architecture) / name, tmp_path / name)
        assert "tokenizer.json or vocab.txt" in refusal(tmp_path, RunError)

    def test_a_name_of_the_hub_without_the_hub(self) -> None:
        line = refusal("nobody/has-this-model", UsageError)
        assert "the hub is switched off (HF_HUB_OFFLINE): give a directory" in line


class TestDamage:
    @pytest.mark.parametrize("kept", [0, 7, 1000, -1])
    def test_truncated_weights(self, bert: Path, kept: int) -> None:
        whole = (bert / "model.safetensors").read_bytes()
        (bert / "model.safetensors").write_bytes(whole[:kept])
        assert "may be damaged" in refusal(bert, RunError)

    @pytest.mark.parametrize("value", [torch.nan, torch.inf])
    def test_weights_that_are_not_numbers(self, bert: Path, value: float) -> None:
        name = "bert.encoder.layer.1.output.dense.weight"
        rewrite(bert, lambda weights: weights[name].__setitem__((3, 4), value))
        assert f"not numbers (NaN or infinite) in {name}" in refusal(bert, RunError)

    def test_weights_of_other_shapes_than_the_config_says(self, bert: Path) -> None:
        change(bert / "config.json", intermediate_size=48)
        line = refusal(bert, RunError)
        assert "other shapes than its config.json says (bert.encoder.layer.0" in line
        assert "is [64], not [48])" in line

    def test_a_part_of_the_weights_is_missing(self, bert: Path) -> None:
        rewrite(bert, lambda weights: weights.__delitem__("bert.encoder.layer.1.output.dense.weight"))
        line = refusal(bert, RunError)
        assert "encoder that its config.json describes (bert.encoder.layer.1.output.dense.weight)" in line
        assert "without a head" not in line

    def test_a_config_that_does_not_say_its_kind(self, bert: Path) -> None:
        config = json.loads((bert / "config.json").read_text())
        del config["model_type"]
        (bert / "config.json").write_text(json.dumps(config))
        assert "does not say which kind of model" in refusal(bert, RunError)
        with pytest.raises(RunError, match="does not say which kind of model"):
            MaskedLM.load(bert, device="cpu")

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            *(("num_attention_heads", value) for value in (7, 0, -1, "2", 2.0, True)),
            *(("num_hidden_layers", value) for value in (0, -1, "2")),
            *(("layer_norm_eps", value) for value in ("x", -1.0, float("nan"), [1e-12])),
            *(("hidden_size", 0), ("vocab_size", "80"), ("intermediate_size", -64)),
        ],
    )
    @pytest.mark.parametrize("backend", ["auto", "transformers"])
    def test_a_number_of_the_config_that_cannot_be(
        self, bert: Path, name: str, value: object, backend: Backend
    ) -> None:
        change(bert / "config.json", **{name: value})
        with pytest.raises(RunError, match=rf"config\.json': {name}") as refused:
            MaskedLM.load(bert, device="cpu", backend=backend)
        assert "\n" not in str(refused.value)

    @pytest.mark.parametrize("config", ["", "{", "[]", "null"])
    def test_a_config_that_is_not_one(self, bert: Path, config: str) -> None:
        (bert / "config.json").write_text(config)
        line = refusal(bert, RunError)
        assert "can't be read" in line or "does not say which kind" in line

    def test_a_config_that_names_no_known_kind(self, bert: Path) -> None:
        change(bert / "config.json", model_type="perpetuum-mobile")
        assert "perpetuum-mobile" in refusal(bert, RunError)

    @pytest.mark.parametrize("tokenizer", ["", "{}", "[]"])
    def test_a_tokenizer_that_is_not_one(self, bert: Path, tokenizer: str) -> None:
        (bert / "tokenizer.json").write_text(tokenizer)
        refusal(bert, RunError)


class TestNoMaskedLanguageModel:
    def test_an_encoder_without_a_head(self, bert: Path) -> None:
        encoder = BertModel.from_pretrained(bert)
        shutil.rmtree(bert)
        encoder.save_pretrained(bert)
        shutil.copy(_tokenizer_of(bert), bert / "tokenizer.json")
        line = refusal(bert, RunError)
        assert "encoder without a head" in line
        assert "cls.predictions" in line

    def test_a_causal_model(self, tmp_path: Path) -> None:
        line = refusal(save_causal(tmp_path), UsageError)
        assert "type 'gpt2', which has no masked-language-model head: give a checkpoint such as BERT" in line

    def test_a_tokenizer_without_a_mask(self, bert: Path) -> None:
        change(bert / "tokenizer_config.json", mask_token=None, tokenizer_class="TokenizersBackend")
        assert "no mask token" in refusal(bert, UsageError)


def test_a_sound_checkpoint_opens(architecture: str, checkpoint: Paths) -> None:
    model, tokenizer = open_checkpoint(checkpoint(architecture))
    assert model.dtype == torch.float32
    assert tokenizer.mask_token_id is not None


def _tokenizer_of(directory: Path) -> Path:
    """A tokenizer file of BERT's kind, beside the directory."""
    from transformers import BertTokenizer

    home = directory.parent / "tokenizer"
    BertTokenizer(vocab={t: i for i, t in enumerate([*BERT_SPECIALS, "man"])}).save_pretrained(home)
    assert AutoTokenizer.from_pretrained(home).mask_token == "[MASK]"
    return home / "tokenizer.json"
