"""Sentence scores against plain implementations, and the chains as true language models."""

import copy
import itertools
import math

import pytest
import torch

from tiny import ARCHITECTURES, sentence
from unmask import MaskedLM, UsageError
from unmask.inference import model_conditionals
from unmask.inference.lengths import counted, geometric, given, parse_lengths, uniform
from unmask.inference.model_conditionals import ModelConditionals
from unmask.inference.sentence_scores import SCORES, SentenceScorer
from unmask.inference.sentences import SentenceReader
from unmask.joints.chain import Chain
from unmask.text.cloze import Cloze
from unmask.text.support import Support


def score_sentences(mlm, sentences, name, **how):
    return SentenceScorer(mlm, [name], **how)(sentences)[name]


def plain(mlm, model, ids, place, hidden):
    """log p(t_place) with `hidden` places masked, by Hugging Face's own model and one text a pass."""
    masked = torch.tensor([ids])
    masked[0, list(hidden)] = mlm.vocabulary.mask_id
    with torch.no_grad():
        logits = model(masked).logits[0, place, : mlm.vocabulary.size].double()
    return float(logits.log_softmax(0)[ids[place]])


def in_float64(mlm, model):
    """Both in double precision, where neither is off by its rounding."""
    double = copy.deepcopy(model).double()
    return MaskedLM(copy.deepcopy(double), mlm.tokenizer, device="cpu"), double


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_pll_is_that_of_a_plain_implementation(architecture, mlm_of, plain_model):
    """To 1e-5 a sentence in float64; no worse than the plain one in float32, where that is off by 3e-5."""
    mlm, model = mlm_of(architecture), plain_model(architecture)
    read = SentenceReader(mlm)
    texts = [sentence(architecture), sentence(architecture)[:5], sentence(architecture)[::-1]]
    sentences = [read(text) for text in texts]
    assert [list(s.ids) for s in sentences] == [mlm.tokenizer(t)["input_ids"] for t in texts]
    precise, double = in_float64(mlm, model)
    exact = [[plain(mlm, double, s.ids, p, [p]) for p in s.positions] for s in sentences]
    for score, expected in zip(score_sentences(precise, sentences, "pll"), exact, strict=True):
        assert score.log_probs == pytest.approx(expected, abs=1e-9)
        assert score.log_prob == pytest.approx(sum(expected), abs=1e-5)

    def error(rounded):
        rows = zip(rounded, exact, strict=True)
        return max(abs(a - b) for row, truth in rows for a, b in zip(row, truth, strict=True))

    ours = error([score.log_probs for score in score_sentences(mlm, sentences, "pll")])
    theirs = error([[plain(mlm, model, s.ids, p, [p]) for p in s.positions] for s in sentences])
    assert ours <= max(2 * theirs, 1e-5)


def test_the_chain_masks_all_that_follows(mlm_of, plain_model):
    mlm, model = in_float64(mlm_of("bert"), plain_model("bert"))
    s = SentenceReader(mlm)("The old man is playing at the casino.")
    (score,) = score_sentences(mlm, [s], "chain")
    expected = [plain(mlm, model, s.ids, p, range(p, s.positions[-1] + 1)) for p in s.positions]
    assert score.log_probs == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("architecture", ["bert", "roberta", "xlm-roberta"])
def test_pll_word_hides_the_rest_of_a_split_word(architecture, mlm_of, plain_model):
    mlm, model = in_float64(mlm_of(architecture), plain_model(architecture))
    s = SentenceReader(mlm)("The houses playing casino.")
    tokens = [mlm.vocabulary.surface(t) for t in s.tokens]
    words = [[t for t, w in zip(tokens, s.words, strict=True) if w == n] for n in range(s.words[-1] + 1)]
    assert ["house", "s"] in words
    assert ["play", "ing"] in words
    assert words[-1] == ["."]
    (score,) = score_sentences(mlm, [s], "pll-word")
    (pll,) = score_sentences(mlm, [s], "pll")
    for n, (found, without) in enumerate(zip(score.log_probs, pll.log_probs, strict=True)):
        later = [s.positions[i] for i in range(n, len(s)) if s.words[i] == s.words[n]]
        assert found == pytest.approx(plain(mlm, model, s.ids, s.positions[n], later), abs=1e-9)
        assert (found == without) == (len(later) == 1)


@pytest.mark.parametrize("architecture", ["bert", "roberta", "xlm-roberta"])
def test_a_word_starts_after_a_mark_of_punctuation(architecture, mlm_of):
    """Also where words are marked at their start, and this one is not."""
    mlm = mlm_of(architecture)
    s = SentenceReader(mlm)("The old-man is.")
    tokens = [mlm.vocabulary.surface(t) for t in s.tokens]
    words = [
        "".join(t for t, w in zip(tokens, s.words, strict=True) if w == n) for n in range(s.words[-1] + 1)
    ]
    assert [word.lower() for word in words] == ["the", "old", "-", "man", "is", "."]


def test_sentences_of_all_lengths_come_back_in_their_order(mlm_of):
    mlm = mlm_of("bert")
    read = SentenceReader(mlm)
    sentences = [
        read(t) for t in ("a dog", "the old man is at the casino.", "cat", "a man", "the red dog is")
    ]
    for name in SCORES:
        together = score_sentences(mlm, sentences, name)
        for s, score in zip(sentences, together, strict=True):
            (alone,) = score_sentences(mlm, [s], name)
            assert score.log_probs == pytest.approx(alone.log_probs, abs=1e-5)
            assert len(score.log_probs) == len(s)


@pytest.mark.parametrize(
    ("name", "largest_exact"), [("chain", 512), ("ag-chain", 512), ("ag-chain with a backoff", 0)]
)
def test_all_sentences_of_up_to_four_tokens_sum_to_one(name, largest_exact, mlm_of, monkeypatch):
    monkeypatch.setattr(model_conditionals, "LARGEST_EXACT_PAIR", largest_exact)
    name = name.removesuffix(" with a backoff")
    mlm, most = mlm_of("bert"), 4
    support = Support(torch.tensor([mlm.vocabulary.find(w) for w in ("man", "dog", "is")]), mlm.vocabulary)
    read = SentenceReader(mlm)
    every = [
        read.of_ids(ids)
        for n in range(1, most + 1)
        for ids in itertools.product(support.ids.tolist(), repeat=n)
    ]
    assert len(every) == 3 + 9 + 27 + 81
    scores = score_sentences(mlm, every, name, support=support, candidates=2)
    for lengths in (uniform(most), given({1: 0.1, 2: 0.2, 3: 0.3, 4: 0.4})):
        total = sum(
            math.exp(score.log_prob + lengths.log_prob(len(s)))
            for s, score in zip(every, scores, strict=True)
        )
        assert total == pytest.approx(1, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("largest_exact", [512, 0])
def test_the_chain_of_pairs_is_the_joint_of_that_name_token_by_token(largest_exact, mlm_of, monkeypatch):
    """Against the chain's own log_prob, and the chain rule inside each block by its whole table."""
    monkeypatch.setattr(model_conditionals, "LARGEST_EXACT_PAIR", largest_exact)
    mlm = mlm_of("bert")
    support = Support.words(mlm.vocabulary)
    read = SentenceReader(mlm)
    sentences = [read(t) for t in ("the old man is", "the old dog", "the man is at the casino .")]
    found = score_sentences(mlm, sentences, "ag-chain", support=support, candidates=40)
    differs = 0
    for s, score in zip(sentences, found, strict=True):
        cloze = Cloze.of_ids(s.ids, s.positions, mlm.vocabulary)
        conditionals = ModelConditionals(mlm, cloze, (support,) * len(s), candidates=40)
        chain = Chain(conditionals, block=2)
        assert score.log_prob == pytest.approx(float(chain.log_prob(s.tokens)), abs=1e-5)
        first = conditionals.pair(conditionals.all_masked[0], (0, 1))
        table = first.log_prob(first.enumerate_support()).exp().reshape(len(support), len(support))
        a, b = support.indices(torch.tensor(s.tokens[:2])).tolist()
        expected = [float(table[a].sum().log()), float((table[a, b] / table[a].sum()).log())]
        assert score.log_probs[:2] == pytest.approx(expected, abs=1e-5)
        (plainly,) = score_sentences(mlm, [s], "chain", support=support)
        differs += score.log_prob != pytest.approx(plainly.log_prob, abs=1e-4)
    assert differs, "no block was in a grid: the test shows nothing"


def test_what_scores_and_sentences_share_goes_through_the_model_once(mlm_of, monkeypatch):
    """Of all masked copies of two sentences of one beginning no two are alike."""
    mlm = mlm_of("bert")
    sentences = [
        SentenceReader(mlm)(t) for t in ("the old houses at the casino", "the old houses at the man")
    ]
    seen = []
    original = mlm.states_each
    monkeypatch.setattr(
        mlm, "states_each", lambda ids, *rest: seen.extend(map(tuple, ids.tolist())) or original(ids, *rest)
    )
    together = SentenceScorer(mlm, ["pll", "pll-word", "chain"])(sentences)
    length = len(sentences[0])
    # pll: two copies a place, but one at the last, where the sentences differ; pll-word: two more, at the
    # first piece of "house ##s"; the chain: one a place, the last of which is that of pll
    assert len(seen) == len(set(seen)) == 2 * length - 1 + 2 + length - 1
    for name, scores in together.items():
        for s, score in zip(sentences, scores, strict=True):
            (alone,) = score_sentences(mlm, [s], name)
            assert score.log_probs == pytest.approx(alone.log_probs, abs=1e-5)


@pytest.mark.parametrize(
    "lengths",
    [
        counted([3, 3, 5, 9]),
        counted([1, 1]),
        counted([1] * 99 + [2]),
        geometric(4.0),
        geometric(1.0),
        uniform(7),
        given({2: 0.5, 30: 0.5}),
    ],
)
def test_length_distributions_sum_to_one(lengths):
    assert sum(math.exp(lengths.log_prob(n)) for n in range(1, 500)) == pytest.approx(1, abs=1e-9)
    assert lengths.log_prob(0) == -math.inf


def test_counted_lengths_make_none_impossible_and_follow_the_counts():
    lengths = counted([3] * 60 + [5] * 40)
    assert math.exp(lengths.log_prob(3)) == pytest.approx(0.6, abs=0.01)
    assert math.isfinite(lengths.log_prob(77))
    assert math.isfinite(counted([1, 1]).log_prob(2))
    assert math.isfinite(counted([1] * 99 + [2]).log_prob(40_000))


def test_lengths_are_read_from_files(tmp_path):
    table, text = tmp_path / "lengths.json", tmp_path / "lines.txt"
    table.write_text('{"1": 0.25, "2": 0.75}')
    text.write_text("a b\n\nc\n")

    def count(path):
        return [len(line.split()) for line in path.read_text().splitlines()]

    assert parse_lengths(str(table), count, text).log_prob(2) == pytest.approx(math.log(0.75))
    assert parse_lengths("empirical", count, text).log_prob(1) == pytest.approx(
        parse_lengths(str(text), count, table).log_prob(1)
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("uniform:0", "1 or more"),
        ("uniform:x", "expected a number after 'uniform:'"),
        ("geometric:0.5", "from 1 on"),
        ("poisson:3", "which is no file"),
        ("nowhere.txt", "which is no file"),
    ],
)
def test_lengths_that_cannot_be_are_refused(text, complaint, tmp_path):
    with pytest.raises(UsageError, match=complaint):
        parse_lengths(text, lambda path: [], tmp_path)
    nan = '{"1": NaN, "2": 1.0}', '{"1": 1.0, "2": NaN}', '{"1": Infinity, "2": -Infinity}'
    for bad in ('{"1": 0.5}', '{"0": 1.0}', "[1]", "{", "{}", '{"1": 2.0, "2": -1.0}', *nan):
        (tmp_path / "bad.json").write_text(bad)
        with pytest.raises(UsageError):
            parse_lengths(str(tmp_path / "bad.json"), lambda path: [], tmp_path)
    with pytest.raises(UsageError, match="no lengths to count"):
        counted([0, 0])


def test_an_unknown_score_is_refused(mlm_of):
    with pytest.raises(UsageError, match="unknown score 'bleu': expected one of pll"):
        score_sentences(mlm_of("bert"), [], "bleu")


def test_no_batch_is_larger_than_its_bound(mlm_of, monkeypatch):
    """The longest sentence that the window holds goes through in pieces."""
    mlm = mlm_of("bert")
    s = SentenceReader(mlm)("old " * 62)
    assert len(s.ids) == mlm.window
    largest = 0
    original = mlm.states_each

    def watched(ids, positions, *rest):
        nonlocal largest
        largest = max(largest, ids.numel())
        return original(ids, positions, *rest)

    monkeypatch.setattr("unmask.inference.sentence_scores.ROWS_AT_ONCE", 8)
    monkeypatch.setattr(mlm, "states_each", watched)
    score_sentences(mlm, [s] * 3, "pll")
    assert 0 < largest <= 8 * mlm.window
