"""A Hugging Face model in memory answers as its checkpoint does; what is none is refused in one line."""

import numpy as np
import pytest
import torch
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)

import unmask
from tiny import save_causal
from unmask.errors import RunError, UsageError

TEXT = "The old [MASK] is playing [MASK] the casino."


@pytest.fixture(scope="module")
def held(checkpoint):
    """A model and its tokenizer, as anyone has them."""
    where = checkpoint("bert")
    return AutoModelForMaskedLM.from_pretrained(where), AutoTokenizer.from_pretrained(where)


def test_a_module_in_memory_gives_the_joint_of_its_checkpoint(held, checkpoint):
    model, tokenizer = held
    model.train()
    mlm = unmask.load(model, tokenizer)
    assert mlm.model is model
    assert not model.training
    assert mlm.device == model.device
    ours, theirs = unmask.fill(TEXT, mlm=mlm), unmask.fill(TEXT, mlm=unmask.load(checkpoint("bert")))
    for one, other in zip(ours.top(5), theirs.top(5), strict=True):
        assert one.ids == other.ids
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-4)


def test_a_class_of_ones_own_with_a_head_is_taken(held):
    model, tokenizer = held
    own = type("Mine", (type(model),), {})(model.config)
    assert unmask.load(own, tokenizer).model is own


def test_from_pretrained_is_load(checkpoint):
    mlm = unmask.MaskedLM.from_pretrained(checkpoint("roberta"), memory="1GB")
    assert isinstance(mlm, unmask.MaskedLM)
    assert mlm.memory == 10**9
    assert unmask.MaskedLM.from_pretrained("english").name == "english"


def _one_line(caught):
    return "\n" not in str(caught.value) and len(str(caught.value)) < 300


class TestRefusals:
    def test_a_model_without_its_tokenizer(self, held):
        with pytest.raises(UsageError, match="without its tokenizer") as caught:
            unmask.load(held[0])
        assert _one_line(caught)

    @pytest.mark.parametrize("other", ["bert", 3, torch.nn.Linear(1, 1)])
    def test_a_tokenizer_that_is_none(self, held, other):
        with pytest.raises(UsageError, match="expected the tokenizer") as caught:
            unmask.load(held[0], other)
        assert _one_line(caught)

    @pytest.mark.parametrize("kind", [AutoModel, AutoModelForSequenceClassification])
    def test_an_encoder_without_a_masked_language_models_head(self, kind, held):
        encoder = kind.from_config(held[0].config)
        with pytest.raises(UsageError, match="head") as caught:
            unmask.load(encoder, held[1])
        assert _one_line(caught)

    def test_a_causal_model(self, tmp_path):
        where = save_causal(tmp_path)
        model, tokenizer = AutoModelForCausalLM.from_pretrained(where), AutoTokenizer.from_pretrained(where)
        with pytest.raises(UsageError, match="causal") as caught:
            unmask.load(model, tokenizer)
        assert _one_line(caught)

    def test_a_causal_models_tokenizer(self, held, tmp_path):
        with pytest.raises(UsageError, match="mask token"):
            unmask.load(held[0], AutoTokenizer.from_pretrained(save_causal(tmp_path)))

    def test_a_tokenizer_of_another_vocabulary(self, held, checkpoint):
        with pytest.raises(RunError, match="belong together"):
            unmask.load(held[0], AutoTokenizer.from_pretrained(checkpoint("modernbert")))

    def test_half_precision(self, checkpoint, held):
        half = AutoModelForMaskedLM.from_pretrained(checkpoint("bert"), dtype=torch.bfloat16)
        with pytest.raises(UsageError, match="bfloat16"):
            unmask.load(half, held[1])

    @pytest.mark.parametrize("thing", [None, 3, torch.nn.Linear(1, 1), ["bert"]])
    def test_what_is_no_model(self, thing, held):
        with pytest.raises(UsageError, match="expected a model's name"):
            unmask.load(thing, held[1])

    def test_a_name_with_a_tokenizer(self, held, checkpoint):
        with pytest.raises(UsageError, match="its own tokenizer"):
            unmask.load(checkpoint("bert"), held[1])

    @pytest.mark.parametrize("function", [unmask.fill, unmask.score, unmask.compare])
    def test_a_bare_module_where_a_loaded_model_is_expected(self, function, held):
        text = "The {old} {man}" if function is unmask.score else TEXT
        for word in ("model", "mlm"):
            with pytest.raises(UsageError, match=r"mlm=unmask\.load\(model, tokenizer\)") as caught:
                function(text, **{word: held[0]})
            assert _one_line(caught)
        with pytest.raises(UsageError, match=r"mlm=unmask\.load\(name\)"):
            function(text, mlm="english")


class TestTables:
    P = ((0.0, 1.5, -1.0), (0.5, -0.5, 0.25))
    R = ((-1.0, 0.5, 2.0), (0.75, 0.0, 1.0))

    def test_arrays_and_lists_are_as_good_as_tensors(self):
        exact = unmask.PairConditionals.from_logits(
            torch.tensor(self.P, dtype=torch.float64), torch.tensor(self.R, dtype=torch.float64)
        )
        expected = unmask.construct("ag", exact).log_prob([1, 2]).item()
        for make in (np.array, list, tuple):
            tables = unmask.PairConditionals.from_logits(
                make(self.P), make(self.R), make(exact.a_alone.tolist()), make(exact.b_alone.tolist())
            )
            assert tables.dtype == torch.float64
            assert unmask.construct("ag", tables).log_prob([1, 2]).item() == pytest.approx(expected)

    def test_an_array_is_copied(self):
        array = np.array(self.P)
        made = unmask.PairConditionals.from_logits(array, array)
        array[:] = 0
        assert made.a_given_b().std() > 0

    def test_whole_numbers_that_are_typed_are_numbers(self):
        made = unmask.PairConditionals.from_logits([[0, 1], [2, 3]], [[0, 1], [2, 3]])
        assert made.dtype == torch.float64

    @pytest.mark.parametrize("bad", [[[1.0, 2.0], [3.0]], [["a", "b"]], "table", None, np.array([[None]])])
    def test_what_is_no_table_is_refused(self, bad):
        with pytest.raises(UsageError, match="a_given_b"):
            unmask.PairConditionals.from_logits(bad, self.R)
        with pytest.raises(UsageError, match="expected"):
            unmask.PairConditionals.from_logits([1.0, 2.0], [1.0, 2.0])
