"""Texts that differ in one token, by the engine: the plain forward pass's answers, for less work."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForMaskedLM, AutoTokenizer, PreTrainedModel

from tiny import ARCHITECTURES, sentence
from unmask.errors import RunError, UsageError
from unmask.linear_layers import FastLinear
from unmask.models.masked_lm import MaskedLM
from unmask.progress import Progress
from unmask.text.cloze import Cloze

Paths = Callable[[str], Path]
Models = Callable[[str], MaskedLM]
PLAIN = {"mpnet", "modernbert", "esm"}  # relative or rotary positions, norms in other places


def cloze_of(mlm: MaskedLM, architecture: str, blanks: tuple[int, ...]) -> Cloze:
    ids = mlm.tokenizer(sentence(architecture))["input_ids"]
    for blank in blanks:
        ids[blank] = mlm.vocabulary.mask_id
    return Cloze(tuple(ids), blanks, ("",) * (len(blanks) + 1), mlm.vocabulary)


@torch.no_grad()
def plain_log_probs(model: nn.Module, ids: Tensor, position: int, tokens: int) -> Tensor:
    logits = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
    return logits[:, position, :tokens].log_softmax(-1)


def log_probs(mlm: MaskedLM, states: Tensor) -> Tensor:
    return mlm.decode(states).log_softmax(-1)


@pytest.mark.parametrize("blanks", [(3, 7), (5, 6), (0, 11)], ids=["apart", "neighbours", "ends"])
def test_it_is_the_plain_forward_pass(
    architecture: str,
    blanks: tuple[int, int],
    mlm: MaskedLM,
    plain_model: Callable[[str], PreTrainedModel],
) -> None:
    cloze, size = cloze_of(mlm, architecture, blanks), mlm.vocabulary.size
    pads = {mlm.tokenizer.pad_token_id}  # by itself the library would count positions otherwise
    tokens = torch.tensor([t for t in range(size) if t not in pads])
    for blank in (0, 1):
        for asked in blanks:  # at the other blank, and at the filled one itself
            expected = plain_log_probs(
                plain_model(architecture), mlm.fillings(cloze, blank, tokens), asked, size
            )
            found = log_probs(mlm, mlm.filled_states(cloze, blank, tokens, asked))
            torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("asked", [1, 2, 7], ids=["one", "two", "most"])
def test_each_text_may_be_asked_about_positions_of_its_own(
    architecture: str, asked: int, mlm: MaskedLM, plain_model: Callable[[str], PreTrainedModel]
) -> None:
    cloze, size = cloze_of(mlm, architecture, (3, 7)), mlm.vocabulary.size
    ids = mlm.fillings(cloze, 0, torch.arange(20, 29))
    positions = (torch.arange(9)[:, None] + 3 * torch.arange(asked)) % ids.shape[1]
    found = log_probs(mlm, mlm.states_each(ids, positions))
    assert found.shape[:2] == (9, asked)
    for n, line in enumerate(positions.tolist()):
        for i, position in enumerate(line):
            expected = plain_log_probs(plain_model(architecture), ids[n : n + 1], position, size)
            torch.testing.assert_close(found[n, i : i + 1], expected, atol=1e-4, rtol=0)


def test_it_says_whether_the_engine_did_the_work(architecture: str, mlm: MaskedLM) -> None:
    assert mlm.filled_by == ("plain" if architecture in PLAIN else "engine")


@pytest.mark.parametrize("name", ["bert", "esm"])
def test_positions_may_count_from_the_end_and_must_be_there(name: str, mlm_of: Models) -> None:
    mlm = mlm_of(name)
    cloze = cloze_of(mlm, name, (3, 7))
    ids = mlm.fillings(cloze, 0, torch.arange(20, 23))
    last = ids.shape[1] - 1
    torch.testing.assert_close(mlm.states(ids, -1), mlm.states(ids, last))
    assert mlm.states_at(ids, []).shape[:2] == (3, 0)
    for wrong in (torch.full((3, 1), last + 1), torch.zeros(2, 1, dtype=torch.long)):
        with pytest.raises(UsageError, match=f"positions from 0 to {last} for each of 3 texts"):
            mlm.states_each(ids, wrong)


def test_layers_without_a_bias_are_left_to_the_model(checkpoint: Paths) -> None:
    model = AutoModelForMaskedLM.from_pretrained(checkpoint("bert"))
    model.bert.encoder.layer[1].attention.self.value.bias = None
    mlm = MaskedLM(model, AutoTokenizer.from_pretrained(checkpoint("bert")), device="cpu")
    assert mlm.filled_by == "plain"
    assert mlm.states(torch.tensor([[1, 2, 3]]), 1).shape[0] == 1


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_a_padding_token_in_the_blank_is_a_token_like_any_other(name: str, mlm_of: Models) -> None:
    mlm = mlm_of(name)
    cloze, pad = cloze_of(mlm, name, (3, 7)), torch.tensor([mlm.tokenizer.pad_token_id])
    torch.testing.assert_close(
        mlm.filled_states(cloze, 0, pad, 7), mlm.states(mlm.fillings(cloze, 0, pad), 7), atol=1e-4, rtol=0
    )


def test_the_light_backend_is_served_too(checkpoint: Paths, mlm_of: Models) -> None:
    light, full = MaskedLM.load(checkpoint("bert"), device="cpu"), mlm_of("bert")
    assert (light.backend, light.filled_by) == ("light", "engine")
    cloze, tokens = cloze_of(light, "bert", (3, 7)), torch.arange(88)
    expected = plain_log_probs(full.model, full.fillings(cloze, 1, tokens), 3, 88)
    found = log_probs(light, light.filled_states(cloze, 1, tokens, 3))
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


def test_tokens_come_back_in_the_order_they_were_asked_in(mlm_of: Models) -> None:
    mlm = mlm_of("bert")
    cloze = cloze_of(mlm, "bert", (3, 7))
    tokens = torch.tensor([40, 12, 40, 87, 0])
    found, everyone = (mlm.filled_states(cloze, 0, t, 7) for t in (tokens, torch.arange(88)))
    torch.testing.assert_close(found, everyone[tokens], atol=1e-5, rtol=0)


def test_batches_of_any_size_give_the_same_answer(mlm_of: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    mlm = mlm_of("roberta")
    cloze, tokens = cloze_of(mlm, "roberta", (3, 7)), torch.arange(5, 60)
    whole = mlm.filled_states(cloze, 0, tokens, 7)
    one_text = next(m for m in range(10_000, 10**7, 10_000) if _fits(mlm, m, 12))
    small = MaskedLM(mlm.model, mlm.tokenizer, device="cpu", memory=one_text)
    assert small.batch_size(12) == 1
    torch.testing.assert_close(small.filled_states(cloze, 0, tokens, 7), whole, atol=1e-4, rtol=0)
    monkeypatch.setattr("unmask.models.masked_lm.TOKENS_AT_ONCE", 7)
    torch.testing.assert_close(mlm.filled_states(cloze, 0, tokens, 7), whole, atol=1e-4, rtol=0)


def _fits(mlm: MaskedLM, memory: int, length: int) -> bool:
    try:
        return MaskedLM(mlm.model, mlm.tokenizer, device="cpu", memory=memory).batch_size(length) == 1
    except RunError:
        return False


def test_progress_is_told_of_every_token(mlm_of: Models) -> None:
    class Recorder(Progress):
        units, total = 0, 0

        def started(self, stage: str, total: int) -> None:
            self.total = total

        def advanced(self, units: int) -> None:
            self.units += units

    mlm, recorder = mlm_of("bert"), Recorder()
    mlm.filled_states(cloze_of(mlm, "bert", (3, 7)), 0, torch.arange(80), 7, recorder)
    assert (recorder.total, recorder.units) == (80, 80)


def test_a_token_that_the_model_does_not_know_is_refused(mlm_of: Models) -> None:
    mlm = mlm_of("bert")
    with pytest.raises(RunError, match=r"id 88.*end at 87"):
        mlm.filled_states(cloze_of(mlm, "bert", (3, 7)), 0, torch.tensor([88]), 7)


class TestWork:
    """How many rows each matrix product of the model has, for 10 texts of 12 tokens."""

    @pytest.fixture(scope="class")
    def count(self, mlm_of: Models) -> Callable[[str, Callable[[MaskedLM, Cloze, Tensor], object]], int]:
        mlm = mlm_of("bert")
        cloze, tokens = cloze_of(mlm, "bert", (3, 7)), torch.arange(20, 30)
        assert mlm.filled_by == "engine"  # and has been compared with the model by now

        def count(name: str, asked: Callable[[MaskedLM, Cloze, Tensor], object]) -> int:
            seen: list[int] = []
            part = mlm.model.bert.encoder.layer.get_submodule(name)
            handle = part.register_forward_hook(lambda _m, _i, out: seen.append(out[..., 0].numel()))
            with pytest.MonkeyPatch.context() as patch:
                if isinstance(part, FastLinear):  # GELU may be a part of its product, which no hook sees
                    gelu = part.gelu
                    patch.setattr(part, "gelu", lambda x: seen.append(x[..., 0].numel()) or gelu(x))
                asked(mlm, cloze, tokens)
            handle.remove()
            return sum(seen)

        return count

    @pytest.fixture(scope="class")
    def rows(self, count: Callable[..., int]) -> Callable[[str], int]:
        return lambda name: count(name, lambda mlm, cloze, tokens: mlm.filled_states(cloze, 0, tokens, 7))

    @pytest.mark.parametrize(("asked", "last"), [(1, 10), (2, 20), (12, 120)], ids=["one", "two", "all"])
    def test_any_texts_are_spared_the_positions_that_are_not_asked_for(
        self, count: Callable[..., int], asked: int, last: int
    ) -> None:
        def ask(mlm: MaskedLM, cloze: Cloze, tokens: Tensor) -> None:
            mlm.states_at(mlm.fillings(cloze, 0, tokens), range(asked))

        assert count("0.output.dense", ask) == 10 * 12
        assert count("1.output.dense", ask) == last
        assert count("1.attention.self.key", ask) == (10 * 12 if asked == 12 else 0)

    @pytest.mark.parametrize("part", ["query", "key", "value"])
    def test_the_first_layer_projects_the_context_once(self, rows: Callable[[str], int], part: str) -> None:
        assert rows(f"0.attention.self.{part}") == 12 + 10

    @pytest.mark.parametrize("part", ["attention.self.query", "attention.output.dense", "output.dense"])
    def test_the_last_layer_sees_the_asked_position_only(self, rows: Callable[[str], int], part: str) -> None:
        assert rows(f"1.{part}") == 10

    def test_the_last_layer_needs_neither_keys_nor_values(self, rows: Callable[[str], int]) -> None:
        assert rows("1.attention.self.key") == 0
        assert rows("1.attention.self.value") == 0


def changed(checkpoint: Path, **settings: Any) -> MaskedLM:
    """A model of other settings with weights drawn by chance."""
    config = AutoConfig.from_pretrained(checkpoint)
    for name, value in settings.items():
        setattr(config, name, value)
    torch.manual_seed(0)
    model = AutoModelForMaskedLM.from_config(config)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return MaskedLM(model, AutoTokenizer.from_pretrained(checkpoint), device="cpu")


@pytest.mark.parametrize(
    ("architecture", "settings", "by"),
    [
        ("bert", {"num_hidden_layers": 1}, "engine"),
        ("bert", {"num_hidden_layers": 4, "hidden_act": "relu"}, "engine"),
        ("albert", {"num_hidden_layers": 3}, "engine"),
        ("albert", {"num_hidden_layers": 3, "inner_group_num": 2}, "engine"),
        ("albert", {"num_hidden_layers": 4, "num_hidden_groups": 2}, "plain"),
        ("bert", {"is_decoder": True}, "plain"),
    ],
)
def test_other_settings_are_read_or_left_to_the_model(
    architecture: str, settings: dict[str, Any], by: str, checkpoint: Paths
) -> None:
    mlm = changed(checkpoint(architecture), **settings)
    assert mlm.filled_by == by
    cloze, tokens = cloze_of(mlm, architecture, (3, 7)), torch.arange(5, 50)
    for asked in (3, 7):
        expected = plain_log_probs(mlm.model, mlm.fillings(cloze, 0, tokens), asked, mlm.vocabulary.size)
        torch.testing.assert_close(
            log_probs(mlm, mlm.filled_states(cloze, 0, tokens, asked)), expected, atol=1e-4, rtol=0
        )


@pytest.mark.parametrize("architecture", sorted(set(ARCHITECTURES) - PLAIN))
def test_a_layer_that_does_something_of_its_own_is_left_to_the_model(
    architecture: str, checkpoint: Paths
) -> None:
    model = AutoModelForMaskedLM.from_pretrained(checkpoint(architecture))
    mlm = MaskedLM(model, AutoTokenizer.from_pretrained(checkpoint(architecture)), device="cpu")
    norms = [m for name, m in model.base_model.named_modules() if "embeddings" not in name]
    own = next(m for m in norms if type(m).__name__.endswith(("Layer", "TransformerBlock")))
    own.register_forward_hook(lambda _m, _i, out: out * 1.01)
    assert mlm.filled_by == "plain"
