"""`unmask.score_sentences`: strings in, rows out, for masked and causal models."""

import json
import math
import sys

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import unmask
from tiny import save_causal, save_tiny
from unmask.errors import UsageError
from unmask.inference.sentence_scores import SCORES, SentenceScorer
from unmask.inference.sentences import SentenceReader
from unmask.models.load import load_language_model

TEXTS = ["The old man is playing at the casino.", "A dog is at the house.", "the cat"]


@pytest.fixture(scope="module")
def causal(tmp_path_factory):
    return save_causal(tmp_path_factory.mktemp("causal"))


@pytest.mark.parametrize("metric", SCORES)
def test_strings_get_the_scores_of_their_sentences(metric, mlm_of):
    mlm = mlm_of("bert")
    expected = SentenceScorer(mlm, [metric])([SentenceReader(mlm)(text) for text in TEXTS])[metric]
    together = unmask.score_sentences(TEXTS, metric, mlm=mlm)
    assert [row.log_prob for row in together] == pytest.approx([s.log_prob for s in expected], abs=1e-5)
    for text, row in zip(TEXTS, together, strict=True):
        (alone,) = unmask.score_sentences(text, metric, mlm=mlm)
        assert alone.log_prob == pytest.approx(row.log_prob, abs=1e-5)
        assert row.text == text
        assert row.surprisal == pytest.approx(-row.log_prob / math.log(2))
        assert (row.bits_per_byte is not None) == (metric in ("chain", "ag-chain"))


def test_pll_is_the_default(mlm_of):
    mlm = mlm_of("bert")
    assert (
        unmask.score_sentences(TEXTS, mlm=mlm).to_dict()
        == unmask.score_sentences(TEXTS, "pll", mlm=mlm).to_dict()
    )


def test_rows_per_word_and_token_add_up(mlm_of):
    mlm = mlm_of("roberta")
    totals = [row.log_prob for row in unmask.score_sentences(TEXTS, "pll-word", mlm=mlm)]
    for per in ("word", "token"):
        rows = unmask.score_sentences(TEXTS, "pll-word", mlm=mlm, per=per)
        for n, total in enumerate(totals):
            assert math.fsum(r.log_prob for r in rows if r.sentence == n) == pytest.approx(total, abs=1e-5)
    words = unmask.score_sentences(TEXTS[0], mlm=mlm, per="word")
    assert [row.word for row in words] == ["The", "old", "man", "is", "playing", "at", "the", "casino", "."]
    assert [row.tokens for row in words][4] == 2
    tokens = unmask.score_sentences(TEXTS[0], mlm=mlm, per="token")
    assert [row.word for row in tokens] == [0, 1, 2, 3, 4, 4, 5, 6, 7, 8]


def test_ranks_are_those_of_a_plain_pass(mlm_of, plain_model):
    mlm, model = mlm_of("bert"), plain_model("bert")
    rows = unmask.score_sentences(TEXTS[0], mlm=mlm, per="token")
    ids = torch.tensor([mlm.tokenizer(TEXTS[0])["input_ids"]])
    for place, row in enumerate(rows, start=1):
        masked = ids.clone()
        masked[0, place] = mlm.vocabulary.mask_id
        with torch.no_grad():
            logits = model(input_ids=masked, attention_mask=torch.ones_like(ids)).logits[0, place]
        assert row.rank == int((logits > logits[ids[0, place]]).sum()) + 1


@pytest.mark.parametrize("architecture", ["bert", "roberta"])
def test_a_prefix_and_a_suffix_are_seen_and_not_scored(architecture, mlm_of, plain_model):
    mlm, model = mlm_of(architecture), plain_model(architecture)
    whole = "The old man is at the casino."
    ids = torch.tensor([mlm.tokenizer(whole)["input_ids"]])
    rows = unmask.score_sentences(
        "man is", "chain", prefix="The old", suffix="at the casino.", mlm=mlm, per="token"
    )
    masked = ids.clone()
    masked[0, 3:5] = mlm.vocabulary.mask_id
    expected = []
    for place in (3, 4):
        with torch.no_grad():
            logits = model(input_ids=masked, attention_mask=torch.ones_like(ids)).logits[0, place]
        expected.append(logits.double().log_softmax(0)[ids[0, place]].item())
        masked[0, place] = ids[0, place]
    assert [row.log_prob for row in rows] == pytest.approx(expected, abs=1e-5)


def test_prefixes_may_differ_by_text(mlm_of):
    mlm = mlm_of("bert")
    both = unmask.score_sentences(["is", "is"], prefix=["the man", "the dog"], mlm=mlm)
    for n, prefix in enumerate(("the man", "the dog")):
        (one,) = unmask.score_sentences("is", prefix=prefix, mlm=mlm)
        assert both[n].log_prob == pytest.approx(one.log_prob, abs=1e-5)
    assert both[0].log_prob != pytest.approx(both[1].log_prob, abs=1e-3)


def test_a_causal_model_has_the_librarys_own_loss(causal):
    lm = load_language_model(causal, device="cpu")
    assert isinstance(lm, unmask.CausalLM)
    model, tokenizer = (
        AutoModelForCausalLM.from_pretrained(causal).eval(),
        AutoTokenizer.from_pretrained(causal),
    )
    rows = unmask.score_sentences(TEXTS, "chain", mlm=lm)
    for text, row in zip(TEXTS, rows, strict=True):
        ids = torch.tensor([[tokenizer.bos_token_id, *tokenizer(text)["input_ids"]]])
        with torch.no_grad():
            loss = model(input_ids=ids, labels=ids).loss.item()
        assert row.log_prob == pytest.approx(-loss * (ids.shape[1] - 1), rel=1e-4)
        assert row.bits_per_byte == pytest.approx(
            loss * (ids.shape[1] - 1) / math.log(2) / len(text.encode()), rel=1e-4
        )
    after = unmask.score_sentences("is at the casino.", "chain", prefix="The old man", mlm=lm)[0].log_prob
    parts = [
        unmask.score_sentences(text, "chain", mlm=lm)[0].log_prob
        for text in ("The old man is at the casino.", "The old man")
    ]
    assert after == pytest.approx(parts[0] - parts[1], abs=1e-3)
    words = unmask.score_sentences(TEXTS[0], "chain", mlm=lm, per="word")
    assert "playing" in [row.word for row in words]


class TestTables:
    def test_to_dict_is_json(self, mlm_of):
        found = unmask.score_sentences(TEXTS, "chain", mlm=mlm_of("bert")).to_dict()
        assert json.loads(json.dumps(found)) == found
        assert len(found["rows"]) == 3

    @pytest.mark.parametrize("per", ["sentence", "word", "token"])
    def test_to_pandas_has_a_row_for_each(self, per, mlm_of):
        pytest.importorskip("pandas")
        scores = unmask.score_sentences(TEXTS, mlm=mlm_of("bert"), per=per)
        table = scores.to_pandas()
        assert len(table) == len(scores)
        assert table["log_prob"].tolist() == [row.log_prob for row in scores]

    def test_without_pandas_there_is_one_line(self, mlm_of, monkeypatch):
        scores = unmask.score_sentences("the cat", mlm=mlm_of("bert"))
        monkeypatch.setitem(sys.modules, "pandas", None)
        monkeypatch.setattr("unmask.lazy.find_spec", lambda name: None)
        with pytest.raises(UsageError, match=r"pip install 'unmask\[tables\]'"):
            scores.to_pandas()


class TestBadInput:
    @pytest.mark.parametrize(
        ("texts", "options", "said"),
        [
            ([], {}, "empty list"),
            (3, {}, "int"),
            (None, {}, "NoneType"),
            (["a cat", 3], {}, "text 1"),
            ({"a": 1}, {}, "dict"),
            (["a cat", ""], {}, "text 1 can't be scored: it is empty"),
            ("a [MASK]", {}, "blank"),
            ("cat " * 100, {}, "window"),
            ("a cat", {"metric": "bleu"}, "unknown score"),
            ("a cat", {"per": "letter"}, "per: expected"),
            ("a cat", {"support": "few"}, "support: expected"),
            ("a cat", {"orders": 3}, "chain"),
            (["a cat"] * 2, {"prefix": ["the"]}, "one prefix"),
            ("a cat", {"suffix": [1]}, "strings"),
        ],
    )
    def test_one_line_says_what_is_wrong(self, texts, options, said, mlm_of):
        with pytest.raises(UsageError, match=said) as caught:
            unmask.score_sentences(texts, **{"mlm": mlm_of("bert"), **options})
        assert "\n" not in str(caught.value)

    def test_a_causal_model_has_one_score_and_no_suffix(self, causal):
        lm = unmask.CausalLM.from_pretrained(causal, device="cpu")
        for options, said in (
            ({"metric": "pll"}, "whose score is chain"),
            ({"metric": "chain", "suffix": "at"}, "suffix"),
            ({"metric": "chain", "orders": 2}, "one order"),
            ({"metric": "chain", "support": "words"}, "support"),
        ):
            with pytest.raises(UsageError, match=said):
                unmask.score_sentences("the cat", mlm=lm, **options)
        with pytest.raises(UsageError, match="MaskedLM"):
            unmask.fill("the [MASK]", mlm=lm)

    def test_a_masked_checkpoint_is_no_causal_one(self, tmp_path):
        with pytest.raises(UsageError, match="causal"):
            unmask.CausalLM.from_pretrained(save_tiny("esm", tmp_path))
        with pytest.raises(UsageError, match="MaskedLM"):
            unmask.score_sentences("the cat", mlm="english")

    def test_a_causal_model_in_memory_needs_its_tokenizer(self, causal, plain_model):
        model = AutoModelForCausalLM.from_pretrained(causal)
        with pytest.raises(UsageError, match="tokenizer"):
            unmask.CausalLM(model, None)
        with pytest.raises(UsageError, match="expected a causal"):
            unmask.CausalLM(plain_model("bert"), AutoTokenizer.from_pretrained(causal))
