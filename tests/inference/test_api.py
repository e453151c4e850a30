"""The public functions agree with what one computes by hand from plain forward passes."""

import math
from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

import unmask
from unmask.errors import RunError, UsageError
from unmask.inference import infer as inference
from unmask.inference.query import Query
from unmask.models.masked_lm import MaskedLM
from unmask.tables.pair_conditionals import PairConditionals
from unmask.text.cloze import parse_blanks
from unmask.text.support import Support

Models = Callable[[str], MaskedLM]
PlainModels = Callable[[str], PreTrainedModel]
CLOSE = {"atol": 1e-5, "rtol": 1e-5}


def two_blanks(architecture: str) -> str:
    return "MK[MASK]AYIA[MASK]QR" if architecture == "esm" else "The old [MASK] is playing [MASK] the casino."


def one_blank(architecture: str) -> str:
    return "MK[MASK]AYIAKQR" if architecture == "esm" else "The old [MASK] is playing at the casino."


def braces(architecture: str) -> str:
    return "MK{T}AYIA{K}QR" if architecture == "esm" else "The old {man} is playing {at} the casino."


class Hand(NamedTuple):
    """The tables of a pair by plain forward passes: logits of A given b and of B given a, both [a, b]."""

    a_given_b: Tensor
    b_given_a: Tensor
    a_alone: Tensor
    b_alone: Tensor

    @property
    def l2r(self) -> Tensor:
        return self.a_alone.log_softmax(0)[:, None] + self.b_given_a.log_softmax(1)

    @property
    def r2l(self) -> Tensor:
        return self.b_alone.log_softmax(0) + self.a_given_b.log_softmax(0)

    @property
    def product(self) -> Tensor:
        return self.a_alone.log_softmax(0)[:, None] + self.b_alone.log_softmax(0)

    @property
    def mrf_prob(self) -> Tensor:
        both = self.a_given_b.log_softmax(0) + self.b_given_a.log_softmax(1)
        return both - both.logsumexp((0, 1))

    @property
    def mrf_logit(self) -> Tensor:
        both = self.a_given_b + self.b_given_a
        return both - both.logsumexp((0, 1))

    @property
    def hcb(self) -> Tensor:
        p, r = self.a_given_b.log_softmax(0), self.b_given_a.log_softmax(1)
        pivot = self.a_alone.argmax()
        both = p - p[pivot] + r[pivot]
        return both - both.logsumexp((0, 1))


@torch.no_grad()
def by_hand(mlm: MaskedLM, model: PreTrainedModel, text: str, tokens: Tensor) -> Hand:
    """Fill each blank with each token in turn and read the whole output of the model, in float64."""
    masked = text.replace("[MASK]", mlm.tokenizer.mask_token)
    ids = mlm.tokenizer(masked, return_tensors="pt")["input_ids"]
    a, b = (ids[0] == mlm.tokenizer.mask_token_id).nonzero().flatten().tolist()

    def logits(rows: Tensor, position: int) -> Tensor:
        out = model(input_ids=rows, attention_mask=torch.ones_like(rows)).logits
        return out[:, position][:, tokens].double()

    with_b, with_a = ids.repeat(len(tokens), 1), ids.repeat(len(tokens), 1)
    with_b[:, b], with_a[:, a] = tokens, tokens
    return Hand(logits(with_b, a).T, logits(with_a, b), logits(ids, a)[0], logits(ids, b)[0])


def table_of(joint: unmask.Joint) -> Tensor:
    """All log-probabilities of a joint of two blanks, [a, b]."""
    sizes = [len(support) for support in joint.supports]
    return joint.log_prob(joint.enumerate_support()).reshape(sizes)


class TestOneBlank:
    @pytest.mark.parametrize("support", ["words", "all", "auto"])
    def test_it_is_the_plain_model_over_the_support(
        self, architecture: str, support: str, mlm: MaskedLM, plain_model: PlainModels
    ) -> None:
        joint = unmask.fill(one_blank(architecture), mlm=mlm, support=support)
        tokens = (Support.everything if support == "all" else Support.words)(mlm.vocabulary).ids
        text = one_blank(architecture).replace("[MASK]", mlm.tokenizer.mask_token)
        ids = mlm.tokenizer(text, return_tensors="pt")["input_ids"]
        place = int((ids[0] == mlm.tokenizer.mask_token_id).nonzero())
        with torch.no_grad():
            logits = plain_model(architecture)(input_ids=ids).logits[0, place, tokens].double()
        torch.testing.assert_close(joint.log_prob(tokens[:, None]), logits.log_softmax(0), **CLOSE)
        assert joint.supports[0].ids.tolist() == tokens.tolist()
        best = joint.top(1)[0]
        assert best.ids == (int(tokens[logits.argmax()]),)
        assert best.text == parse_blanks(text, mlm.vocabulary, mlm.window).filled(best.ids)

    def test_a_number_of_likeliest_tokens_is_the_plain_model_cut_to_them(self, mlm_of: Models) -> None:
        bert = mlm_of("bert")
        whole = unmask.fill("The [MASK] is", mlm=bert)
        few = unmask.fill("The [MASK] is", mlm=bert, support=5)
        best = whole.top(5)
        inside = sum(math.exp(filling.log_prob) for filling in best)
        assert [f.ids for f in few.top(78)] == [f.ids for f in best]
        assert [f.log_prob for f in few.top(5)] == pytest.approx(
            [f.log_prob - math.log(inside) for f in best]
        )
        assert few.diagnostics.mass_outside_support == pytest.approx([1 - inside])

    def test_the_method_does_not_matter(self, mlm_of: Models) -> None:
        answers = [unmask.fill("The [MASK] is", mlm=mlm_of("bert"), method=m).top(5) for m in ("ag", "l2r")]
        assert answers[0] == answers[1]


class TestTwoBlanks:
    def test_exact_conditionals_are_those_made_by_hand(
        self, architecture: str, mlm: MaskedLM, plain_model: PlainModels
    ) -> None:
        text = two_blanks(architecture)
        cloze = parse_blanks(text, mlm.vocabulary, mlm.window)
        table = inference.conditionals(mlm, cloze, Query(candidates="all", support="words"))
        assert isinstance(table, PairConditionals)
        hand = by_hand(mlm, plain_model(architecture), text, table.a_support.ids)
        assert table.diagnostics.passes == 2 * len(table.a_support) + 1
        torch.testing.assert_close(table.a_given_b().double(), hand.a_given_b.log_softmax(0), **CLOSE)
        torch.testing.assert_close(table.b_given_a().double(), hand.b_given_a.log_softmax(1), **CLOSE)
        torch.testing.assert_close(table.a_alone, hand.a_alone.log_softmax(0), **CLOSE)
        torch.testing.assert_close(table.b_alone, hand.b_alone.log_softmax(0), **CLOSE)
        torch.testing.assert_close(table.a_log_z, hand.a_given_b.logsumexp(0), **CLOSE)
        torch.testing.assert_close(table.b_log_z, hand.b_given_a.logsumexp(1), **CLOSE)

    @pytest.mark.parametrize("method", ["product", "l2r", "r2l", "mrf-prob", "mrf-logit", "hcb"])
    def test_joints_are_those_made_by_hand(
        self, architecture: str, method: str, mlm: MaskedLM, plain_model: PlainModels
    ) -> None:
        text = two_blanks(architecture)
        joint = unmask.fill(text, mlm=mlm, method=method, candidates="all")
        hand = by_hand(mlm, plain_model(architecture), text, joint.supports[0].ids)
        expected = getattr(hand, method.replace("-", "_"))
        torch.testing.assert_close(table_of(joint), expected, atol=3e-5, rtol=1e-5)
        assert joint.method == method

    def test_the_support_of_all_tokens_includes_the_special_ones(
        self, mlm_of: Models, plain_model: PlainModels
    ) -> None:
        bert, text = mlm_of("bert"), two_blanks("bert")
        joint = unmask.fill(text, mlm=bert, method="mrf-prob", support="all")
        tokens = torch.arange(len(bert.tokenizer))
        hand = by_hand(bert, plain_model("bert"), text, tokens)
        assert joint.supports[0].ids.tolist() == tokens.tolist()
        torch.testing.assert_close(table_of(joint), hand.mrf_prob, atol=3e-5, rtol=1e-5)

    def test_a_support_of_the_likeliest_tokens_is_exact_within_itself(
        self, mlm_of: Models, plain_model: PlainModels
    ) -> None:
        bert, text = mlm_of("bert"), two_blanks("bert")
        joint = unmask.fill(text, mlm=bert, method="l2r", support=20)
        words = Support.words(bert.vocabulary).ids
        hand = by_hand(bert, plain_model("bert"), text, words)
        a, b = (
            sorted(alone.topk(20).indices.tolist()) for alone in (hand.a_alone, hand.b_alone)
        )  # each blank has its own
        assert joint.supports[0].ids.tolist() == words[a].tolist()
        assert joint.supports[1].ids.tolist() == words[b].tolist()
        cut = Hand(hand.a_given_b[a][:, b], hand.b_given_a[a][:, b], hand.a_alone[a], hand.b_alone[b])
        torch.testing.assert_close(table_of(joint), cut.l2r, atol=3e-5, rtol=1e-5)
        outside = [1 - float(m.softmax(0)[kept].sum()) for m, kept in ((hand.a_alone, a), (hand.b_alone, b))]
        assert joint.diagnostics.mass_outside_support == pytest.approx(outside, abs=1e-6)

    @pytest.mark.parametrize("method", list(unmask.CONSTRUCTIONS))
    @pytest.mark.parametrize("candidates", ["auto", "all", 1, 2, 20])
    def test_any_number_of_candidates_gives_a_distribution_over_all_pairs(
        self, method: str, candidates: int | str, mlm_of: Models
    ) -> None:
        joint = unmask.fill(two_blanks("bert"), mlm=mlm_of("bert"), method=method, candidates=candidates)
        table = table_of(joint)
        assert table.shape == (78, 78)
        assert torch.isfinite(table).all()
        assert float(table.logsumexp((0, 1))) == pytest.approx(0.0, abs=1e-5)

    def test_as_many_candidates_as_tokens_is_exact(self, mlm_of: Models) -> None:
        exact, cross = (
            unmask.fill(two_blanks("roberta"), mlm=mlm_of("roberta"), candidates=k) for k in ("all", 98)
        )
        torch.testing.assert_close(table_of(cross), table_of(exact), **CLOSE)

    def test_auto_is_exact_for_small_vocabularies_and_cross_for_large_ones(
        self, mlm_of: Models, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = {"mlm": mlm_of("bert"), "method": "l2r"}
        assert unmask.fill(two_blanks("bert"), **asked).diagnostics.conditionals == "exact"
        monkeypatch.setattr(inference, "LARGEST_AUTO_EXACT", 50)
        diagnostics = unmask.fill(two_blanks("bert"), **asked).diagnostics
        assert (diagnostics.conditionals, diagnostics.candidates) == ("cross", 64)
        few = unmask.fill(two_blanks("bert"), support=10, **asked)
        assert table_of(few).shape == (10, 10)

    def test_the_same_seed_gives_the_same_answer(self, mlm_of: Models) -> None:
        tables = [
            table_of(unmask.fill(two_blanks("bert"), mlm=mlm_of("bert"), candidates=10, seed=seed))
            for seed in (3, 3, 4)
        ]
        assert torch.equal(tables[0], tables[1])
        assert not torch.equal(tables[0], tables[2])

    def test_options_reach_the_construction(self, mlm_of: Models) -> None:
        ab, ba = (
            unmask.fill(two_blanks("bert"), mlm=mlm_of("bert"), method="hcb", order=order)
            for order in ("ab", "ba")
        )
        assert (ab.diagnostics.options["order"], ba.diagnostics.options["order"]) == ("ab", "ba")
        assert not torch.allclose(table_of(ab), table_of(ba))

    def test_progress_hears_of_every_forward_pass(self, mlm_of: Models) -> None:
        class Counter(unmask.progress.Progress):
            units = 0

            def advanced(self, units: int) -> None:
                self.units += units

        counter = Counter()
        unmask.fill(two_blanks("bert"), mlm=mlm_of("bert"), method="l2r", progress=counter)
        assert counter.units == 2 * 78


class TestFillings:
    def test_a_filling_is_found_by_words_and_by_ids(self, mlm_of: Models) -> None:
        bert = mlm_of("bert")
        joint = unmask.fill(two_blanks("bert"), mlm=bert, method="l2r")
        ids = [bert.vocabulary.find(word) for word in ("man", "at")]
        assert float(joint.log_prob(["man", "at"])) == float(joint.log_prob(ids))
        assert joint.log_prob([["man", "at"], ["dog", "in"]]).shape == (2,)

    @pytest.mark.parametrize(
        ("filling", "message"),
        [
            (("playing", "at"), "'playing' is 2 tokens for this model .*but a blank holds one"),
            (("日", "at"), "'日' is not in the model's vocabulary"),
            (("[SEP]", "at"), "special or unused token"),
            ((10_000, "at"), "10000 is no token of this model"),
            (("man",), "expected 2 tokens, one per blank, got 1"),
        ],
    )
    def test_a_filling_that_is_not_one_token_a_blank_is_refused(
        self, filling: tuple[int | str, ...], message: str, mlm_of: Models
    ) -> None:
        joint = unmask.fill(two_blanks("bert"), mlm=mlm_of("bert"), method="product")
        with pytest.raises(UsageError, match=message):
            joint.log_prob(filling)


class TestScore:
    @pytest.mark.parametrize("candidates", ["all", 8])
    def test_it_is_the_joints_answer_for_the_true_tokens(
        self, architecture: str, candidates: int | str, mlm: MaskedLM
    ) -> None:
        score = unmask.score(braces(architecture), mlm=mlm, method="ag", candidates=candidates)
        first, second = score.filling.ids
        words = ("T", "K") if architecture == "esm" else ("man", "at")
        assert score.filling.ids == tuple(mlm.vocabulary.find(word) for word in words)
        assert score.filling.log_prob == pytest.approx(float(score.joint.log_prob([first, second])))
        given = (
            float(score.joint.conditional(0, {1: second}).log_prob(first)),
            float(score.joint.conditional(1, {0: first}).log_prob(second)),
        )
        assert score.conditional_log_probs == pytest.approx(given)
        assert score.filling.text == braces(architecture).replace("{", "").replace("}", "")

    def test_it_is_what_fill_gives_for_the_same_blanks(self, architecture: str, mlm: MaskedLM) -> None:
        joint = unmask.fill(two_blanks(architecture), mlm=mlm, method="mrf-prob")
        score = unmask.score(braces(architecture), mlm=mlm, method="mrf-prob")
        assert score.filling.log_prob == pytest.approx(float(joint.log_prob(score.filling.ids)), abs=1e-6)

    def test_the_true_tokens_are_always_among_the_candidates(self, mlm_of: Models) -> None:
        bert = mlm_of("bert")
        for text in ("The {dog} {?} here", "The {-} {z} here"):
            score = unmask.score(text, mlm=bert, candidates=2)
            for side, token in enumerate(score.filling.ids):
                evaluated = score.joint.supports[side].ids[score.joint.conditionals.evaluated[side]]
                assert token in evaluated.tolist()

    def test_the_true_tokens_are_always_in_the_support(self, mlm_of: Models) -> None:
        score = unmask.score("The {dog} {?} here", mlm=mlm_of("bert"), support=1, candidates="all")
        for side, token in enumerate(score.filling.ids):
            assert token in score.joint.supports[side].ids.tolist()

    def test_one_word_is_scored_by_the_plain_model(self, mlm_of: Models) -> None:
        bert = mlm_of("bert")
        score = unmask.score("The old {man} is", mlm=bert)
        plain = unmask.fill("The old [MASK] is", mlm=bert)
        assert score.filling.log_prob == pytest.approx(float(plain.log_prob("man")))
        assert score.conditional_log_probs == pytest.approx((score.filling.log_prob,))

    def test_a_word_of_two_tokens_is_scored_as_two_blanks(self, mlm_of: Models) -> None:
        score = unmask.score("The man is {playing}", mlm=mlm_of("bert"))
        assert score.filling.tokens == ("play", "##ing")
        assert score.joint.cloze is not None
        assert "'playing' is 2 tokens" in score.joint.cloze.notes[0]

    @pytest.mark.parametrize("candidates", ["all", 8])
    def test_an_unknown_word_is_refused_before_any_work(
        self, candidates: int | str, mlm_of: Models, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def no_work(*_: object) -> None:
            pytest.fail("the model was asked")

        monkeypatch.setattr(MaskedLM, "states", no_work)
        with pytest.raises(UsageError, match=r"'\[UNK\]' \(id 6\) is this model's unknown token.*'all'"):
            unmask.score("The {日} {is} here", mlm=mlm_of("bert"), candidates=candidates)


class TestCompare:
    def test_every_construction_answers_from_the_same_conditionals(self, mlm_of: Models) -> None:
        joints = unmask.compare(two_blanks("bert"), mlm=mlm_of("bert"))
        assert list(joints) == list(unmask.CONSTRUCTIONS)
        assert len({id(joint.conditionals) for joint in joints.values()}) == 1
        for name, joint in joints.items():
            alone = unmask.fill(two_blanks("bert"), mlm=mlm_of("bert"), method=name)
            torch.testing.assert_close(table_of(joint), table_of(alone))
            assert joint.top(1)[0].text.endswith(" the casino.")

    def test_one_blank_is_refused(self, mlm_of: Models) -> None:
        with pytest.raises(UsageError, match="expected a text with two blanks"):
            unmask.compare("The [MASK] is", mlm=mlm_of("bert"))


class TestMisuse:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"method": "magic"}, r"unknown method 'magic': expected one of product, mrf-logit.*r2l"),
            ({"candidates": -1}, r"candidates: expected a whole number from 0 on.*got -1"),
            ({"candidates": 79}, r"expected from 1 to 78 candidates.*got 79"),
            ({"candidates": -3}, r"candidates: expected a whole number from 0 on.*got -3"),
            ({"candidates": "some"}, r"candidates: expected a whole number.* 'auto' or 'all', got 'some'"),
            ({"candidates": 2.5}, r"candidates: expected a whole number.* 'auto' or 'all', got 2.5"),
            ({"support": 20, "candidates": 50}, r"expected from 1 to 20 candidates.*got 50"),
            ({"completion": "guess"}, r"completion: expected 'learned' or 'plain', got 'guess'"),
            ({"support": "verbs"}, r"support: expected .*'auto', 'words' or 'all', got 'verbs'"),
            ({"support": 0}, r"support: expected a whole number from 1 on.*got 0"),
            ({"seed": -1}, r"seed: expected a whole number from 0 to 2\^63 - 1, got -1"),
            ({"seed": 2**63}, r"seed: expected a whole number from 0 to"),
        ],
    )
    @pytest.mark.parametrize("text", ["The [MASK] [MASK] here", "The [MASK] is here"])
    def test_a_setting_that_cannot_be_is_refused(
        self, text: str, settings: dict[str, object], message: str, mlm_of: Models
    ) -> None:
        with pytest.raises(UsageError, match=message):
            unmask.fill(text, mlm=mlm_of("bert"), **settings)

    @pytest.mark.parametrize("text", ["[MASK] [MASK] [MASK]", "___ man ___ at ___ casino ___"])
    def test_constructions_of_three_blanks_are_not_compared(self, text: str, mlm_of: Models) -> None:
        count = text.count("[MASK]") or text.count("___")
        with pytest.raises(UsageError, match=f"got {count}: leave two"):
            unmask.compare(text, mlm=mlm_of("bert"))

    def test_tables_beyond_the_memory_budget_are_refused_where_they_cannot_be_recomputed(
        self, mlm_of: Models, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bert = mlm_of("bert")
        small = MaskedLM(bert.model, bert.tokenizer, device="cpu", memory="48kB")
        monkeypatch.setattr(small, "output_weights", lambda _ids: None)  # its output layer is not linear
        monkeypatch.setattr(small, "batch_size", lambda _length: 8)
        with pytest.raises(RunError, match=r"78 by 78 tokens need 48.7 kB.*raise memory, or take a support"):
            unmask.fill("[MASK] [MASK]", mlm=small)


@pytest.mark.slow
@pytest.mark.parametrize("method", list(unmask.CONSTRUCTIONS))
@pytest.mark.parametrize("architecture", ["bert", "roberta"])
def test_tables_beyond_the_memory_budget_are_computed_wherever_they_are_read(
    method: str, architecture: str, mlm_of: Models
) -> None:
    large = mlm_of(architecture)
    small = MaskedLM(large.model, large.tokenizer, device="cpu", memory="60kB")
    held, recomputed = (
        unmask.fill(two_blanks(architecture), mlm=mlm, method=method, candidates="all")
        for mlm in (large, small)
    )
    assert (held.conditionals.is_lazy, recomputed.conditionals.is_lazy) == (False, True)
    torch.testing.assert_close(table_of(recomputed), table_of(held), atol=1e-4, rtol=0)
    assert recomputed.entropy() == pytest.approx(float(held.entropy()), abs=1e-5)
    assert recomputed.top(5)[0].ids == held.top(5)[0].ids


def test_loading_by_path_names_the_model_by_it(checkpoint: Callable[[str], object]) -> None:
    mlm = unmask.load(str(checkpoint("bert")), device="cpu", memory="1GB")
    assert (mlm.name, mlm.memory) == (str(checkpoint("bert")), 10**9)


def test_only_the_public_names_are_offered() -> None:
    assert set(dir(unmask)) == set(unmask.__all__)
    assert all(getattr(unmask, name) is not None for name in unmask.__all__)
    with pytest.raises(AttributeError, match="no attribute 'magic'"):
        _ = unmask.magic


class TestQuestions:
    @pytest.mark.parametrize("text", [None, 3])
    def test_a_text_is_one_string(self, mlm_of: Models, text: object) -> None:
        with pytest.raises(UsageError, match="expected one text, as a string"):
            unmask.fill(text, mlm=mlm_of("bert"))  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="expected one text, as a string"):
            unmask.compare(text, mlm=mlm_of("bert"))  # type: ignore[arg-type]

    def test_the_model_goes_by_another_name(self) -> None:
        with pytest.raises(UsageError, match=r"mlm=unmask\.load"):
            unmask.fill("The [MASK] is", model="bert")

    def test_joints_and_models_say_what_they_are(self, mlm_of: Models) -> None:
        assert repr(mlm_of("bert")) == "<MaskedLM 'bert': bert, 88 tokens, window 64, cpu>"
        joint = unmask.fill("The [MASK] is [MASK].", mlm=mlm_of("bert"))
        assert repr(joint) == "<ag joint over 78 × 78 tokens of 'The [MASK] is [MASK].'>"
