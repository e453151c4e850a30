"""Drawing: a function of seed and text alone, over pairs of tokens that a blank may hold."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from toy_data import SENTENCES

from unmask.errors import UsageError
from unmask.evaluation.sampling import Pairs, draw_examples


def drawn(mlm, texts, pairs="random", seed=0, examples=None, window=64):
    return draw_examples(
        texts, mlm.vocabulary, window, pairs=Pairs.parse(pairs), examples=examples, seed=seed
    )


@pytest.fixture
def mlm(mlm_of):
    return mlm_of("bert")


def plain(examples):
    return [(e.key, e.text, e.ids, e.blanks) for e in examples]


def test_neither_the_order_of_the_file_nor_what_else_is_in_it_has_a_say(mlm):
    texts = [*SENTENCES, *SENTENCES[:4]]
    first, _ = drawn(mlm, texts)
    again, _ = drawn(mlm, texts[::-1])
    assert plain(first) == plain(again)
    alone = {e.text: e.blanks for e in drawn(mlm, SENTENCES[:3])[0]}
    assert alone.items() <= {e.text: e.blanks for e in drawn(mlm, SENTENCES)[0]}.items()


def test_a_larger_sample_holds_the_smaller_one_and_another_seed_is_another(mlm):
    every, _ = drawn(mlm, SENTENCES)
    some, _ = drawn(mlm, SENTENCES, examples=5)
    assert plain(some) == plain(every)[:5]
    assert [e.number for e in every] == list(range(12))
    other, _ = drawn(mlm, SENTENCES, seed=1)
    assert [e.text for e in other] != [e.text for e in every]
    assert {e.text: e.blanks for e in other} != {e.text: e.blanks for e in every}


def test_a_sentence_that_comes_again_is_another_example(mlm):
    examples, _ = drawn(mlm, [SENTENCES[0]] * 20)
    assert len({e.key for e in examples}) == 20
    assert len({e.blanks for e in examples}) > 10


def test_blanks_hold_no_special_token_and_the_ids_are_those_of_the_text(mlm):
    examples, _ = drawn(mlm, [*SENTENCES, "The Ω man ♥ is 🎲 old."])
    idle = mlm.vocabulary.special_ids | mlm.vocabulary.unused_ids
    for e in examples:
        assert e.ids == tuple(mlm.tokenizer(e.text)["input_ids"])
        assert e.blanks[0] < e.blanks[1]
        assert not {*e.truth} & idle
        cloze = e.cloze(mlm.vocabulary)
        assert cloze.truth == e.truth
        assert [i for i, t in enumerate(cloze.ids) if t == mlm.vocabulary.mask_id] == list(e.blanks)
        assert all(t == e.ids[i] for i, t in enumerate(cloze.ids) if i not in e.blanks)


@pytest.mark.parametrize(
    ("pairs", "allowed"), [("contiguous", {1}), ("distance=3", {3}), ("distance=2..4", {2, 3, 4})]
)
def test_distances_are_those_asked_for(mlm, pairs, allowed):
    examples, _ = drawn(mlm, SENTENCES * 5, pairs=pairs)
    assert {e.distance for e in examples} == allowed


def test_short_and_long_sentences_are_passed_over_and_counted(mlm):
    texts = ["dog", "", ".", "a dog", SENTENCES[0], SENTENCES[0] * 8]
    examples, passed = drawn(mlm, texts, pairs="contiguous")
    assert {e.text for e in examples} == {"a dog", SENTENCES[0]}
    assert passed == {"too short": 3, "too long": 1}
    far, passed = drawn(mlm, texts, pairs="distance=2..5")
    assert [e.text for e in far] == [SENTENCES[0]]
    assert passed == {"too short": 4, "too long": 1}


def test_all_pairs_of_a_sentence_are_alike():
    """Chi-square over the 21 pairs of seven positions; false-alarm rate 1e-4, with fixed numbers."""
    import hashlib

    numbers = [int(hashlib.sha256(str(i).encode()).hexdigest(), 16) for i in range(6000)]
    for pairs, cells in ((Pairs.parse("random"), 21), (Pairs.parse("distance=1..3"), 15)):
        seen = Counter(pairs.draw(list(range(7)), n) for n in numbers)
        assert len(seen) == cells
        expected = [6000 / 21] * 21 if cells == 21 else [2000 / 6] * 6 + [2000 / 5] * 5 + [2000 / 4] * 4
        observed = [seen[key] for key in sorted(seen, key=lambda p: (p[1] - p[0] if cells == 15 else 0, p))]
        assert stats.chisquare(observed, expected).pvalue > 1e-4


@given(st.lists(st.integers(0, 30), unique=True, max_size=8).map(sorted), st.integers(0, 2**256 - 1))
def test_a_pair_is_of_the_positions_or_there_is_none(positions, number):
    for pairs in (Pairs(), Pairs(1, 1), Pairs(2, 6)):
        found = pairs.draw(positions, number)
        near, far = pairs.nearest or 1, pairs.furthest or 100
        possible = [(i, j) for i in positions for j in positions if near <= j - i <= far]
        assert found in possible if possible else found is None


@pytest.mark.parametrize(
    "given_", ["near", "distance", "distance=0", "distance=4..2", "distance=1..", "distance=-1"]
)
def test_pairs_that_cannot_be_are_misuse(given_):
    with pytest.raises(UsageError, match="expected pairs as random, contiguous"):
        Pairs.parse(given_)


def test_distances_beyond_the_sentence_cost_nothing():
    assert Pairs.parse("distance=2..999999999999").draw([1, 2, 3], 0) == (1, 3)
    assert Pairs.parse("distance=5..999999999999").draw([1, 2, 3], 0) is None
