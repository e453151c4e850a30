"""`joint-fill-mask` is `fill-mask` for one mask, and the joint of `unmask.fill` for several."""

import copy
import math

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, pipeline
from transformers.pipelines.base import PipelineException

import unmask
import unmask.integrations.transformers as integration
from tiny import ARCHITECTURES, save_causal
from unmask.errors import UsageError

ONE = "The old {} is playing at the casino."
TWO = "The old {0} is playing {0} the casino."
THREE = "The {0} {0} is playing {0} the casino."


@pytest.fixture(scope="module")
def both(checkpoint):
    """The library's pipeline and ours, on one checkpoint."""
    tasks = ("fill-mask", integration.TASK)
    return tuple(pipeline(task, model=str(checkpoint("bert")), device="cpu") for task in tasks)


def pipelines(checkpoint, architecture):
    where = str(checkpoint(architecture))
    theirs = pipeline("fill-mask", model=where, device="cpu")
    return theirs, pipeline(integration.TASK, model=where, device="cpu")


def same(ours, theirs):
    """Whether answers are equal, up to rounding of the scores."""
    if isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    assert set(ours) == set(theirs)
    exactly = all(ours[key] == theirs[key] for key in ("token", "token_str", "sequence"))
    return exactly and ours["score"] == pytest.approx(theirs["score"], abs=1e-7)


class TestOneMask:
    @pytest.mark.parametrize("architecture", ARCHITECTURES)
    def test_is_what_fill_mask_gives(self, architecture, checkpoint):
        theirs, ours = pipelines(checkpoint, architecture)
        text = "MK{}AYIAKQR" if architecture == "esm" else ONE
        text = text.format(theirs.tokenizer.mask_token)
        assert same(ours(text, top_k=7), theirs(text, top_k=7))

    @pytest.mark.parametrize(
        "options", [{}, {"top_k": 2}, {"targets": ["man", "dog", "cat"]}, {"targets": "man", "top_k": 3}]
    )
    @pytest.mark.parametrize("batch_size", [1, 2])
    def test_also_for_lists_and_targets(self, both, options, batch_size):
        theirs, ours = both
        texts = [ONE.format("[MASK]"), "A [MASK] is in the house.", "the [MASK] dog"]
        for given in (texts[0], texts, texts[:1]):
            answers = [fill(given, batch_size=batch_size, **options) for fill in (ours, theirs)]
            assert same(*answers)

    def test_takes_one_list_of_targets_per_mask(self, both):
        theirs, ours = both
        words = ["man", "dog"]
        text = ONE.format("[MASK]")
        assert same(ours(text, targets=[words]), theirs(text, targets=words))

    def test_refuses_what_fill_mask_refuses(self, both):
        for fill in both:
            with pytest.raises(PipelineException, match="No mask_token"):
                fill("nothing here")


class TestSeveralMasks:
    @pytest.mark.parametrize("architecture", ["bert", "roberta", "xlm-roberta"])
    @pytest.mark.parametrize("text", [TWO, THREE])
    def test_the_score_is_the_joint_probability(self, architecture, text, checkpoint, mlm_of):
        ours = pipeline(integration.TASK, model=str(checkpoint(architecture)), device="cpu")
        text = text.format(ours.tokenizer.mask_token)
        joint = unmask.fill(text, mlm=mlm_of(architecture), support="all")
        for found, filling in zip(ours(text, top_k=3), joint.top(3), strict=True):
            assert found["token"] == list(filling.ids)
            assert found["score"] == pytest.approx(math.exp(filling.log_prob), rel=1e-4)
            assert found["token_str"] == [ours.tokenizer.decode([token]) for token in filling.ids]
            filled = list(joint.cloze.ids)
            for place, token in zip(joint.cloze.blanks, filling.ids, strict=True):
                filled[place] = token
            assert found["sequence"] == ours.tokenizer.decode(filled, skip_special_tokens=True)

    def test_scores_of_all_pairs_of_targets_add_up_as_marginals_do(self, both, mlm_of):
        text, words = TWO.format("[MASK]"), [["man", "dog"], ["at", "in", "on"]]
        found = both[1](text, targets=words, top_k=10, method="hcb")
        assert len(found) == 6
        assert [f["score"] for f in found] == sorted((f["score"] for f in found), reverse=True)
        joint = unmask.fill(text, mlm=mlm_of("bert"), support="all", method="hcb")
        for filling in found:
            expected = joint.log_prob(torch.tensor(filling["token"])).exp().item()
            assert filling["score"] == pytest.approx(expected, rel=1e-4)
        one_list = both[1](text, targets=["man", "at"], top_k=10)
        assert len(one_list) == 4

    def test_lists_and_batches_of_different_lengths_change_nothing(self, both):
        ours = both[1]
        texts = [TWO.format("[MASK]"), "A [MASK] is [MASK].", ONE.format("[MASK]")]
        alone = [ours(text, top_k=2) for text in texts]
        for batch_size in (1, 3):
            for together, single in zip(ours(texts, top_k=2, batch_size=batch_size), alone, strict=True):
                assert [f["token"] for f in together] == [f["token"] for f in single]
                scores = [[f["score"] for f in answer] for answer in (together, single)]
                assert scores[0] == pytest.approx(scores[1], rel=1e-4)

    def test_the_library_default_is_the_embedded_model(self):
        fill = pipeline(integration.TASK, device="cpu")
        assert "english" in fill.model.config.name_or_path
        assert len(fill("The [MASK] [MASK] in the pool.", top_k=1, candidates=8)) == 1

    def test_a_model_in_half_precision_is_joined_in_float32(self, checkpoint):
        half = pipeline(integration.TASK, model=str(checkpoint("bert")), device="cpu", dtype=torch.bfloat16)
        text = TWO.format("[MASK]")
        joint = unmask.fill(
            text, mlm=unmask.load(copy.deepcopy(half.model).float(), half.tokenizer), support="all"
        )
        assert half.model.dtype == torch.bfloat16
        assert half(text)[0]["score"] == pytest.approx(math.exp(joint.top(1)[0].log_prob), rel=1e-4)


class TestBadInput:
    def test_a_causal_model(self, tmp_path):
        where = save_causal(tmp_path)
        model, tokenizer = AutoModelForCausalLM.from_pretrained(where), AutoTokenizer.from_pretrained(where)
        with pytest.raises(UsageError, match="causal"):
            pipeline(integration.TASK, model=model, tokenizer=tokenizer, device="cpu")

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"methd": "ag"}, "no option 'methd'"),
            ({"method": "ga"}, "method"),
            ({"targets": [["man"], ["at"], ["in"]]}, "2 masks"),
            ({"targets": [["man"], "at"]}, "mixture"),
            ({"targets": [[f"{a}{b}" for a in "abcdefghij" for b in "abcdefghij"]] * 2}, "fewer targets"),
        ],
    )
    def test_options_and_targets_that_cannot_be(self, both, options, said, monkeypatch):
        monkeypatch.setattr(integration, "MOST_COMBINATIONS", 50)
        with pytest.raises(UsageError, match=said) as caught:
            both[1](TWO.format("[MASK]"), **options)
        assert "\n" not in str(caught.value)

    def test_texts_beyond_the_window(self, both):
        with pytest.raises(Exception, match=r"64|size of tensor"):  # the library's own pass comes first
            both[1](TWO.format("[MASK]") + " man" * 100)
