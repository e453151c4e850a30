"""Dependence of two tokens: the reference against brute force, every proxy against its definition."""

import random

import numpy as np
import pytest
import torch
from scipy import stats
from toy_data import SENTENCES, text_file
from transformers import AutoModelForMaskedLM

from head_toy import with_head
from unmask import UsageError
from unmask.evaluation.dependence import (
    DependenceSettings,
    Measurer,
    choose_tokens,
    estimate_information,
    exact_information,
    halves,
    measure_dependence,
)
from unmask.evaluation.dependence_proxies import PROXIES, attention_weights, kl_rows
from unmask.evaluation.dependence_summary import (
    explained,
    rank_correlations,
    rising_fit,
    summarise_dependence,
)
from unmask.inference.parallel_decoding import Pass
from unmask.text.cloze import parse_blanks
from unmask.text.support import Support

TEXT = "The old ___ is playing ___ the casino."


@pytest.fixture(scope="module")
def mlm(mlm_of):
    return with_head(mlm_of("bert"))


@pytest.fixture(scope="module")
def seen(mlm):
    cloze = parse_blanks(TEXT, mlm.vocabulary, mlm.window)
    return Pass(mlm, cloze, (Support.words(mlm.vocabulary),) * 2)


def own_conditionals(seen, filled, asked):
    """log p(asked | filled) for every token, by plain passes."""
    texts = torch.tensor([seen.cloze.ids]).repeat(len(seen.supports[filled]), 1)
    texts[:, seen.cloze.blanks[filled]] = seen.supports[filled].ids
    logits = seen.mlm.logits(texts, seen.cloze.blanks[asked])[:, seen.supports[asked].ids]
    return logits.double().log_softmax(-1)


def table_information(joint):
    a, b = joint.sum(1, keepdim=True), joint.sum(0, keepdim=True)
    return float((joint * (joint / (a * b)).log()).sum())


@pytest.fixture(scope="module")
def truth(seen):
    """The mutual information of m(a) p(b|a) and of m(b) p(a|b), averaged."""
    tables = [
        seen.log_probs[filled].exp()[:, None] * own_conditionals(seen, filled, asked).exp()
        for filled, asked in ((0, 1), (1, 0))
    ]
    return sum(map(table_information, tables)) / 2


def test_with_a_pass_for_every_token_the_estimate_is_the_mutual_information(seen, truth):
    found = estimate_information(seen, 10_000, 1, random.Random(0))
    assert found.estimate == pytest.approx(truth, abs=1e-5)
    assert found.halves == pytest.approx((found.estimate, found.estimate))
    assert found.left == 0
    assert found.upper >= found.estimate
    assert exact_information(seen.mlm, seen.cloze, seen.supports[0]) == pytest.approx(truth, abs=1e-4)


def test_with_few_passes_the_estimates_bracket_it_on_average(seen, truth):
    found = [estimate_information(seen, 6, 6, random.Random(n)) for n in range(60)]
    low, high, left = (np.mean([one[part] for one in found]) for part in range(3))
    noise = np.std([one.estimate for one in found]) / len(found) ** 0.5
    assert low <= truth + 2 * noise
    assert high >= truth - 1e-6
    assert 0 < left < 1


def test_the_draws_stand_for_the_tokens_that_have_no_pass_of_their_own():
    weights = torch.tensor([0.4, 0.3, 0.1, 0.08, 0.06, 0.06], dtype=torch.float64)
    total = torch.zeros(6, dtype=torch.float64)
    for start in np.linspace(0.0005, 0.9995, 1000):
        which, share = choose_tokens(weights, 2, 2, float(start))
        assert which[:2].tolist() == [0, 1]
        assert float(share.sum()) == pytest.approx(1)
        total.index_add_(0, which, share / 1000)
    torch.testing.assert_close(total, weights, atol=2e-3, rtol=0)


def test_the_halves_of_the_draws_tell_the_noise_of_the_estimate(seen):
    """Over 200 starts the spread of halves is that of estimates of half the draws; false alarms < 1e-3."""
    found = [estimate_information(seen, 6, 8, random.Random(n)) for n in range(200)]
    few = [estimate_information(seen, 6, 4, random.Random(1000 + n)).estimate for n in range(200)]
    by_halves = np.concatenate([[one.halves[0] for one in found], [one.halves[1] for one in found]])
    assert np.mean(by_halves) == pytest.approx(np.mean(few), rel=0.1)
    assert np.std(by_halves) == pytest.approx(np.std(few), rel=0.5)


def test_half_of_the_draws_stand_for_the_same_share():
    share = torch.tensor([0.5, 0.2, 0.1, 0.1, 0.1], dtype=torch.float64)
    even, odd = halves(share, 2)
    torch.testing.assert_close(even, torch.tensor([0.5, 0.2, 0.15, 0, 0.15], dtype=torch.float64))
    torch.testing.assert_close(odd, torch.tensor([0.5, 0.2, 0, 0.3, 0], dtype=torch.float64))


class TestProxies:
    def test_confidence_is_the_product_of_the_best_probabilities(self, seen):
        best = [float(line.exp().max()) for line in seen.log_probs]
        assert np.exp(-PROXIES["confidence"].of(seen)) == pytest.approx(best[0] * best[1])

    def test_the_entropy_bound_is_the_smaller_entropy_and_bounds_the_information(self, seen):
        entropies = [stats.entropy(line.exp().numpy()) for line in seen.log_probs]
        bound = PROXIES["entropy bound"].of(seen)
        assert bound == pytest.approx(min(entropies))
        joint = seen.log_probs[0].exp()[:, None] * own_conditionals(seen, 0, 1).exp()
        assert table_information(joint) <= stats.entropy(seen.log_probs[0].exp().numpy()) + 1e-9

    def test_the_kl_of_steps_is_the_largest_over_blanks_and_steps(self, seen):
        cloze, mlm = seen.cloze, seen.mlm
        idle = mlm.vocabulary.special_ids | mlm.vocabulary.unused_ids
        others = [i for i, t in enumerate(cloze.ids) if t not in idle and i not in cloze.blanks]
        hidden = random.Random(repr((cloze.ids, cloze.blanks))).sample(others, 2)
        lines = []
        for count in (0, 1, 2):
            text = torch.tensor([cloze.ids])
            text[0, hidden[:count]] = mlm.vocabulary.mask_id
            lines.append([mlm.logits(text, p)[0, seen.supports[0].ids].softmax(-1) for p in cloze.blanks])
        steps = [
            stats.entropy(lines[n][blank].numpy(), lines[n + 1][blank].numpy())
            for n in (0, 1)
            for blank in (0, 1)
        ]
        assert PROXIES["KL of steps"].of(seen) == pytest.approx(max(steps), abs=1e-4)

    def test_the_kl_of_filling_is_that_of_the_less_confident_blank(self, seen):
        filled = int(torch.stack([line.max() for line in seen.log_probs]).argmax())
        row = own_conditionals(seen, filled, 1 - filled)[int(seen.log_probs[filled].argmax())]
        expected = stats.entropy(row.exp().numpy(), seen.log_probs[1 - filled].exp().numpy())
        assert PROXIES["KL of filling"].of(seen) == pytest.approx(expected, abs=1e-4)

    @pytest.mark.parametrize("architecture", ["bert", "roberta", "albert", "distilbert"])
    def test_attention_is_what_the_library_says(self, architecture, mlm_of, checkpoint):
        found = mlm_of(architecture)
        model = AutoModelForMaskedLM.from_pretrained(checkpoint(architecture), attn_implementation="eager")
        ids = torch.tensor([found.tokenizer("The old man is here")["input_ids"]])
        with torch.inference_mode():
            expected = torch.stack(model.eval()(input_ids=ids, output_attentions=True).attentions)
        torch.testing.assert_close(attention_weights(found, ids), expected, atol=1e-5, rtol=0)

    def test_attention_of_an_unknown_architecture_is_refused(self, mlm_of):
        with pytest.raises(UsageError, match="can't be read"):
            attention_weights(mlm_of("modernbert"), torch.tensor([[1, 2, 3]]))

    def test_the_pair_head_is_the_information_of_its_own_conditionals(self, mlm, seen):
        few = (Support(seen.supports[0].ids[:20], mlm.vocabulary),) * 2
        small = Pass(mlm, seen.cloze, few)
        found = 0.0
        for filled, asked in ((0, 1), (1, 0)):
            guessed = mlm.pair_head.states(
                small.states[filled],
                small.states[asked],
                mlm.input_embeddings[few[0].ids],
                seen.cloze.blanks[asked] - seen.cloze.blanks[filled],
            )
            rows = mlm.decoder(few[0].ids)(guessed).double().softmax(-1)
            found += table_information(small.log_probs[filled].exp()[:, None] * rows) / 2
        assert PROXIES["pair head"].of(small) == pytest.approx(found, abs=1e-5)

    def test_distance_falls_and_kl_is_that_of_scipy(self, seen):
        assert PROXIES["distance"].of(seen) == seen.cloze.blanks[0] - seen.cloze.blanks[1]
        one, other = torch.tensor([[0.2, 0.8]]).log(), torch.tensor([[0.5, 0.5]]).log()
        assert float(kl_rows(one, other)) == pytest.approx(stats.entropy([0.2, 0.8], [0.5, 0.5]))


class TestSummary:
    def test_the_correlation_is_spearmans_with_ties(self):
        rng = np.random.default_rng(0)
        truth, scores = rng.normal(size=50), rng.integers(0, 5, size=(3, 50)).astype(float)
        value, drawn = rank_correlations(truth, scores, resamples=20)
        assert value == pytest.approx([stats.spearmanr(truth, row).statistic for row in scores])
        assert drawn.shape == (20, 3)

    def test_a_rising_function_of_the_truth_explains_it_and_noise_does_not(self):
        rng = np.random.default_rng(0)
        truth = rng.uniform(size=500)
        assert explained(np.exp(3 * truth), truth)["low"] > 0.99
        assert explained(rng.normal(size=500), truth)["value"] < 0.1

    def test_pairs_of_one_score_are_predicted_by_their_mean(self):
        score, truth = np.array([1.0, 1.0, 2.0, 2.0, 3.0]), np.array([4.0, 0.0, 3.0, 5.0, 1.0])
        assert rising_fit(score, truth, np.array([1.0, 2.0, 3.0])).tolist() == [2.0, 3.0, 3.0]

    def test_a_killed_run_is_resumed_and_its_records_make_a_summary(self, mlm, tmp_path, monkeypatch):
        monkeypatch.setattr("unmask.evaluation.dependence.weights_digest", lambda _: "w")
        data = [f"text={text_file(tmp_path / 'texts.txt')}"]
        settings = DependenceSettings(tokens=8, draws=4, exact=2)
        out = tmp_path / "pairs.jsonl"
        first = measure_dependence(mlm, data, settings, out=out)
        out.write_text("".join(out.read_text().splitlines(keepends=True)[:4]))
        again = measure_dependence(mlm, data, settings, out=out)
        assert again == first
        assert len(first) == len(SENTENCES) + 2
        found = summarise_dependence(first)
        assert found["pairs"] == len(SENTENCES)
        assert found["reference"]["exact_pairs"] == 2
        assert found["reference"]["upper"] >= found["reference"]["information"]
        assert found["reference"]["noise"] >= 0
        assert -1 <= found["reference"]["halves_spearman"] <= 1
        told = found["groups"]["all"]["spearman"]
        assert set(told) == set(PROXIES)
        assert all(-1 <= entry["low"] <= entry["high"] <= 1 for entry in told.values())

    def test_a_record_is_that_of_its_pair(self, mlm, seen):
        task = {"key": "k", "ids": list(seen.cloze.ids), "blanks": list(seen.cloze.blanks), "exact": False}
        (record,) = Measurer(mlm, DependenceSettings(tokens=10_000))([task])
        assert record["proxies"]["confidence"] == pytest.approx(PROXIES["confidence"].of(seen), abs=1e-6)

    def test_bad_settings_and_a_model_without_a_head_are_refused(self, mlm_of):
        with pytest.raises(UsageError, match="expected draws of at least 1, got 0"):
            DependenceSettings(draws=0).check()
        with pytest.raises(UsageError, match="measuring dependence needs a pair head"):
            measure_dependence(mlm_of("bert"), [], DependenceSettings())
