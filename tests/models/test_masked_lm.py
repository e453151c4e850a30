"""A `MaskedLM` says what Hugging Face's own model says, at the asked position and in whatever batches."""

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import AutoModelForMaskedLM, AutoTokenizer, BertForMaskedLM, PreTrainedModel

from tiny import WINDOW, save_tiny, sentence
from unmask.errors import RunError, UsageError
from unmask.models.device import choose_device
from unmask.models.masked_lm import MaskedLM
from unmask.progress import Progress
from unmask.text.cloze import parse_blanks

Paths = Callable[[str], Path]
Models = Callable[[str], MaskedLM]
A, B = 3, 7  # positions of two blanks in the sentence


def texts(mlm: MaskedLM, architecture: str, count: int = 5) -> Tensor:
    """The sentence with a mask at A and a different token at B in each row, [count, length]."""
    ids = torch.tensor([mlm.tokenizer(sentence(architecture))["input_ids"]]).repeat(count, 1)
    ids[:, A] = mlm.vocabulary.mask_id
    ids[:, B] = torch.arange(20, 20 + count)
    return ids


@torch.no_grad()
def forward(model: nn.Module, ids: Tensor) -> Tensor:
    """All logits of a plain forward pass, [texts, length, outputs]."""
    return model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits


class TestAnswers:
    @pytest.mark.parametrize("position", [0, A, B, 11])
    def test_states_and_decode_are_the_plain_forward_pass(
        self,
        architecture: str,
        position: int,
        mlm: MaskedLM,
        plain_model: Callable[[str], PreTrainedModel],
    ) -> None:
        ids = texts(mlm, architecture)
        expected = forward(plain_model(architecture), ids)[:, position]
        torch.testing.assert_close(
            mlm.decode(mlm.states(ids, position)), expected, atol=1e-5, rtol=1e-5, check_device=False
        )

    def test_every_supported_architecture_has_its_output_layer_apart(
        self, architecture: str, mlm: MaskedLM
    ) -> None:
        states = mlm.states(texts(mlm, architecture), A)
        width = 16 if architecture in {"albert", "electra"} else 32
        assert states.shape == (5, width)  # and not the 33 to 110 logits

    def test_outputs_without_a_token_change_nothing(
        self, architecture: str, mlm: MaskedLM, tmp_path: Path
    ) -> None:
        wide = MaskedLM.load(save_tiny(architecture, tmp_path, extra_logits=6), device="cpu")
        ids = texts(mlm, architecture)
        assert wide.model.config.vocab_size == len(wide.tokenizer) + 6
        assert wide.vocabulary.tokens == mlm.vocabulary.tokens
        assert wide.input_embeddings.shape == mlm.input_embeddings.shape
        torch.testing.assert_close(wide.logits(ids, A), mlm.logits(ids, A), atol=1e-5, rtol=1e-5)

    def test_a_padding_token_in_a_blank_moves_nothing(self, architecture: str, checkpoint: Paths) -> None:
        mlm = MaskedLM.load(checkpoint(architecture), device="cpu", backend="transformers")
        pad, twin = mlm.tokenizer.pad_token_id, 25
        mlm.input_embeddings[pad] = mlm.input_embeddings[twin]  # padding that looks like any other token
        ids = texts(mlm, architecture, 2)
        ids[0, B], ids[1, B] = pad, twin
        for position in (A, B + 1):
            padded, plain = mlm.logits(ids, position)
            torch.testing.assert_close(padded, plain, atol=1e-5, rtol=1e-5)

    def test_fillings_put_each_token_into_one_blank(self, mlm_of: Models) -> None:
        bert = mlm_of("bert")
        cloze = parse_blanks("The [MASK] [MASK] here", bert.vocabulary, bert.window)
        rows = bert.fillings(cloze, 1, torch.tensor([30, 31]))
        expected = [
            [t if i != cloze.blanks[1] else token for i, t in enumerate(cloze.ids)] for token in (30, 31)
        ]
        assert rows.tolist() == expected


class TestBatches:
    @pytest.mark.slow
    def test_batches_of_any_size_give_the_same_answer(
        self, architecture: str, mlm: MaskedLM, checkpoint: Paths
    ) -> None:
        ids = texts(mlm, architecture, 7)
        one = next(m for m in range(10_000, 10**7, 10_000) if _fits(mlm, m, ids.shape[1]))
        sizes = set()
        for memory in (one, 3 * one, "1GB"):
            small = MaskedLM(mlm.model, mlm.tokenizer, device="cpu", memory=memory)
            sizes.add(small.batch_size(ids.shape[1]))
            torch.testing.assert_close(small.states(ids, A), mlm.states(ids, A), atol=1e-5, rtol=1e-5)
        assert min(sizes) == 1
        assert len(sizes) == 3

    def test_a_budget_that_cannot_hold_one_text_is_refused(self, mlm: MaskedLM, architecture: str) -> None:
        small = MaskedLM(mlm.model, mlm.tokenizer, device="cpu", memory=1000)
        with pytest.raises(
            RunError, match=r"12 tokens needs about .*kB, but the memory budget is 1 kB: raise memory"
        ):
            small.states(texts(mlm, architecture), A)

    @pytest.mark.parametrize(
        "memory",
        [
            "lots",
            "4 gallons",
            "0GB",
            "-1GB",
            0,
            -5,
            "",
            "9" * 5000,
            pytest.param(10**5000, id="huge"),
            4e9,
            True,
        ],
    )
    def test_an_amount_of_memory_must_be_one(self, memory: int | str, mlm_of: Models) -> None:
        with pytest.raises(UsageError, match=r"expected .* memory,? such as 4GB") as refusal:
            MaskedLM(mlm_of("bert").model, mlm_of("bert").tokenizer, device="cpu", memory=memory)
        assert len(str(refusal.value)) < 160

    def test_an_amount_of_memory_may_be_numpys(self, mlm_of: Models) -> None:
        of_numpy = MaskedLM(
            mlm_of("bert").model, mlm_of("bert").tokenizer, device="cpu", memory=np.int64(10**9)
        )
        assert of_numpy.memory == 10**9

    def test_progress_is_told_of_every_text_and_of_the_end(self, mlm_of: Models) -> None:
        class Recorder(Progress):
            def __init__(self) -> None:
                self.heard: list[Any] = []

            def started(self, stage: str, total: int) -> None:
                self.heard.append(("started", total))

            def advanced(self, units: int) -> None:
                self.heard.append(units)

            def finished(self) -> None:
                self.heard.append("finished")

        bert, recorder = mlm_of("bert"), Recorder()
        bert.states(texts(bert, "bert", 7), A, recorder)
        assert recorder.heard == [("started", 7), 7, "finished"]

        broken = Recorder()
        with pytest.raises(RuntimeError):
            bert.states(texts(bert, "bert").repeat(1, 20), A, broken)  # beyond the table of positions
        assert broken.heard == [("started", 5), "finished"]


def _fits(mlm: MaskedLM, memory: int, length: int) -> bool:
    try:
        return MaskedLM(mlm.model, mlm.tokenizer, device="cpu", memory=memory).batch_size(length) >= 1
    except RunError:
        return False


class TestLoading:
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_weights_saved_in_half_precision_are_read_as_float32(
        self, dtype: torch.dtype, tmp_path: Path
    ) -> None:
        mlm = MaskedLM.load(save_tiny("bert", tmp_path, dtype=dtype), device="cpu")
        assert {p.dtype for p in mlm.model.parameters()} == {torch.float32}
        assert mlm.logits(texts(mlm, "bert"), A).dtype == torch.float32

    def test_dropout_is_off_and_nothing_is_trained(self, mlm: MaskedLM) -> None:
        assert not mlm.model.training
        assert not any(p.requires_grad for p in mlm.model.parameters())

    def test_the_special_ids_are_the_tokenizers(self, mlm: MaskedLM) -> None:
        assert mlm.vocabulary.mask_id == mlm.tokenizer.mask_token_id
        assert mlm.vocabulary.special_ids >= set(mlm.tokenizer.all_special_ids)

    def test_the_window_leaves_out_positions_kept_for_padding(
        self, architecture: str, mlm: MaskedLM, checkpoint: Paths
    ) -> None:
        boundless = AutoTokenizer.from_pretrained(checkpoint(architecture), model_max_length=10**30)
        window = MaskedLM(mlm.model, boundless, device="cpu").window
        # ESM's rotary positions are in no table: what the configuration says is all there is to go by
        assert window == mlm.window == (WINDOW + 2 if architecture == "esm" else WINDOW)
        assert torch.isfinite(mlm.logits(torch.full((1, window), 20), window - 1)).all()

    def test_the_tokenizers_limit_counts_where_it_is_the_smaller_one(self, checkpoint: Paths) -> None:
        tokenizer = AutoTokenizer.from_pretrained(checkpoint("bert"), model_max_length=40)
        model = AutoModelForMaskedLM.from_pretrained(checkpoint("bert"))
        assert MaskedLM(model, tokenizer, device="cpu").window == 40

    def test_a_configuration_that_asks_for_tuples_is_answered_all_the_same(
        self, mlm_of: Models, checkpoint: Paths, tmp_path: Path
    ) -> None:
        directory = _copy(checkpoint("bert"), tmp_path / "tuples", return_dict=False)
        bert, ids = mlm_of("bert"), texts(mlm_of("bert"), "bert")
        torch.testing.assert_close(MaskedLM.load(directory, device="cpu").logits(ids, A), bert.logits(ids, A))

    def test_a_tokenizer_with_more_tokens_than_the_model_is_refused_when_it_matters(
        self, checkpoint: Paths
    ) -> None:
        tokenizer = AutoTokenizer.from_pretrained(checkpoint("bert"))
        tokenizer.add_tokens(["fish"])
        mlm = MaskedLM(AutoModelForMaskedLM.from_pretrained(checkpoint("bert")), tokenizer, device="cpu")
        assert mlm.vocabulary.size == 88  # what both know
        ids = torch.tensor([tokenizer("The fish is")["input_ids"]])
        with pytest.raises(RunError, match=r"'fish' the id 88.*end at 87: the two do not belong together"):
            mlm.logits(ids, 1)

    def test_a_mask_that_the_model_does_not_know_is_refused(self, checkpoint: Paths) -> None:
        tokenizer = AutoTokenizer.from_pretrained(checkpoint("bert"))
        tokenizer.add_special_tokens({"mask_token": "[BLANK]"})
        with pytest.raises(RunError, match=r"'\[BLANK\]' the id 88.*do not belong together"):
            MaskedLM(AutoModelForMaskedLM.from_pretrained(checkpoint("bert")), tokenizer, device="cpu")


class TestRemoteCode:
    """A checkpoint may bring Python files along, and name them in its configuration: they are never run."""

    BAIT = "from pathlib import Path\n(Path(__file__).parent / 'was_run').touch()\n"

    @pytest.fixture
    def baited(self, checkpoint: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
        classes = {"AutoConfig": "bait.Config", "AutoModelForMaskedLM": "bait.Model"}
        directory = _copy(checkpoint("bert"), tmp_path / "baited", auto_map=classes)
        (directory / "bait.py").write_text(self.BAIT)
        settings = json.loads((directory / "tokenizer_config.json").read_text())
        settings["auto_map"] = {"AutoTokenizer": [None, "bait.Tokenizer"]}
        (directory / "tokenizer_config.json").write_text(json.dumps(settings))
        return directory

    def test_code_beside_a_known_kind_of_model_is_left_alone(self, baited: Path, mlm_of: Models) -> None:
        mlm = MaskedLM.load(baited, device="cpu", backend="transformers")
        assert type(mlm.model) is BertForMaskedLM
        assert not list(baited.parent.rglob("was_run"))
        ids = texts(mlm, "bert")
        torch.testing.assert_close(mlm.logits(ids, A), mlm_of("bert").logits(ids, A))

    def test_a_model_that_exists_in_its_own_code_only_is_refused(self, baited: Path) -> None:
        config = json.loads((baited / "config.json").read_text()) | {"model_type": "bait"}
        (baited / "config.json").write_text(json.dumps(config))
        with pytest.raises(RunError, match=r"remote code|own code|custom code"):
            MaskedLM.load(baited, device="cpu")
        assert not list(baited.parent.rglob("was_run"))


class NoOutputLayer(BertForMaskedLM):
    """Does not say which of its layers is the last."""

    def get_output_embeddings(self) -> None:
        return None


class IdleOutputLayer(BertForMaskedLM):
    """Names an output layer that its forward pass never calls."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.idle = nn.Linear(config.hidden_size, config.vocab_size)

    def get_output_embeddings(self) -> nn.Module:
        return self.idle if hasattr(self, "idle") else super().get_output_embeddings()


class Tempered(BertForMaskedLM):
    """Does something with the logits after the output layer."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        output = super().forward(*args, **kwargs)
        output.logits = output.logits * 2
        return output


class NeighbourlyHead(BertForMaskedLM):
    """Has a head that reads several positions at once, so that it can't be shown one alone."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        hidden = self.bert(input_ids, attention_mask=attention_mask).last_hidden_state
        return SimpleNamespace(logits=self.cls(hidden + hidden.roll(1, 1)))


@pytest.mark.parametrize("kind", [NoOutputLayer, IdleOutputLayer, Tempered, NeighbourlyHead])
def test_a_model_whose_output_layer_cannot_be_separated_answers_with_its_logits(
    kind: type[BertForMaskedLM], checkpoint: Paths
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(checkpoint("bert"))
    model = kind.from_pretrained(checkpoint("bert")).eval()
    mlm = MaskedLM(model, tokenizer, device="cpu")
    ids = texts(mlm, "bert")
    for position in (A, B):
        states = mlm.states(ids, position)
        torch.testing.assert_close(mlm.decode(states), forward(model, ids)[:, position], atol=1e-5, rtol=1e-5)
        assert states.shape == (5, len(tokenizer))


def test_a_model_that_answers_with_nan_is_refused(checkpoint: Paths) -> None:
    model = AutoModelForMaskedLM.from_pretrained(checkpoint("bert"))
    model.cls.predictions.bias.data[3] = torch.nan
    with pytest.raises(RunError, match="not finite"):
        MaskedLM(model, AutoTokenizer.from_pretrained(checkpoint("bert")), device="cpu")


class TestDevice:
    def test_auto_is_always_a_device_of_this_machine(self) -> None:
        assert choose_device("auto").type in {"cpu", "cuda", "mps"}
        assert choose_device("cpu") == torch.device("cpu")

    @pytest.mark.parametrize("name", ["gpu", "", "meta", "cuda:x", "tpu"])
    def test_an_unknown_device_is_refused(self, name: str) -> None:
        with pytest.raises(UsageError, match=f"unknown device '{name}': expected auto, cpu, cuda or mps"):
            choose_device(name)

    @pytest.mark.parametrize(("name", "kind"), [("cuda", "CUDA"), ("cuda:1", "CUDA"), ("mps", "Apple")])
    def test_a_device_that_the_machine_lacks_is_refused(
        self, name: str, kind: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
        with pytest.raises(UsageError, match=rf"no {kind}.*device cpu"):
            choose_device(name)


def _copy(source: Path, target: Path, **settings: Any) -> Path:
    """Copy a checkpoint and change its configuration."""
    shutil.copytree(source, target)
    config = json.loads((target / "config.json").read_text()) | settings
    (target / "config.json").write_text(json.dumps(config))
    return target


class TestTwin:
    @pytest.mark.parametrize("architecture", ["bert", "roberta", "electra"])
    def test_two_threads_get_what_one_gets(self, mlm_of: Models, architecture: str) -> None:
        mlm = mlm_of(architecture)
        ids = texts(mlm, architecture)
        want = mlm.states(ids, A)

        def again(one: MaskedLM) -> bool:
            return all(torch.allclose(one.states(ids, A), want, atol=1e-5) for _ in range(20))

        with ThreadPoolExecutor(2) as pool:
            assert all(pool.map(again, (mlm, mlm.twin())))

    def test_it_has_the_same_weights_and_none_of_its_own(self, mlm_of: Models) -> None:
        mlm = mlm_of("bert")
        twin = mlm.twin()
        theirs = {name: weight.data_ptr() for name, weight in mlm.model.state_dict().items()}
        assert {name: weight.data_ptr() for name, weight in twin.model.state_dict().items()} == theirs
        assert twin.vocabulary is mlm.vocabulary

    def test_a_hook_on_one_is_not_on_the_other(self, mlm_of: Models) -> None:
        mlm = mlm_of("bert")
        twin, called = mlm.twin(), []
        with mlm.model.register_forward_pre_hook(lambda *_: called.append(1)):
            twin.states(texts(twin, "bert"), A)
        assert not called
