"""The masking rule keeps its promises: rates within 3σ, special tokens left alone, replacements from the
unigram.
"""

import numpy as np
import pytest
from scipy.stats import chisquare

from unmask.errors import UsageError
from unmask.training.masking import IGNORED, Masking, Unigram, Vocabulary, mask

SIZE, MASK, SPECIAL = 60, 4, [0, 1, 2, 3, 4]
TOKENS = 1_000_000


@pytest.fixture(scope="module")
def vocabulary():
    special = np.zeros(SIZE, dtype=bool)
    special[SPECIAL] = True
    continues = np.zeros(SIZE, dtype=bool)
    continues[40:] = True
    return Vocabulary(MASK, special, continues)


@pytest.fixture(scope="module")
def unigram():
    return Unigram.of(1.0 / (1 + np.arange(SIZE)), SPECIAL)


@pytest.fixture(scope="module")
def ids():
    return np.random.default_rng(1).integers(0, SIZE, TOKENS)


def within(count, total, chance):
    """The count lies within 3σ of its expectation (false alarm: 0.3%, but the seed is fixed)."""
    return abs(count - total * chance) < 3 * np.sqrt(total * chance * (1 - chance))


@pytest.mark.parametrize(
    "rule",
    [Masking(), Masking(mlm_probability=0.4, mask_replace_prob=0.5, random_replace_prob=0.3)],
    ids=["bert", "other"],
)
def test_rates_over_a_million_tokens_are_within_three_sigma(rule, ids, vocabulary, unigram):
    corrupted, labels = mask(ids, rule, vocabulary, unigram, np.random.default_rng(2))
    ordinary = ~vocabulary.special[ids]
    chosen = labels != IGNORED
    assert within(chosen.sum(), ordinary.sum(), rule.mlm_probability)
    assert not chosen[~ordinary].any()
    assert (labels[chosen] == ids[chosen]).all()
    assert (corrupted[~chosen] == ids[~chosen]).all()
    masked = (corrupted == MASK) & chosen
    assert within(masked.sum(), chosen.sum(), rule.mask_replace_prob)
    # a draw may hit the token itself: such a replacement looks like a token that stays
    hit = float((unigram.counts / unigram.counts.sum())[ids[chosen]].mean())
    changed = chosen & ~masked & (corrupted != ids)
    assert within(changed.sum(), chosen.sum(), rule.random_replace_prob * (1 - hit))


def test_replacements_follow_the_unigram_distribution_and_are_never_special(ids, vocabulary, unigram):
    rule = Masking(mlm_probability=0.5, mask_replace_prob=0.0, random_replace_prob=1.0)
    corrupted, labels = mask(ids, rule, vocabulary, unigram, np.random.default_rng(3))
    drawn = np.bincount(corrupted[labels != IGNORED], minlength=SIZE)
    assert drawn[SPECIAL].sum() == 0
    expected = unigram.counts / unigram.counts.sum() * drawn.sum()
    ordinary = expected > 0
    assert chisquare(drawn[ordinary], expected[ordinary]).pvalue > 1e-3  # false alarm: 1 seed in 1000


def test_mask_only_leaves_no_other_trace(ids, vocabulary, unigram):
    corrupted, labels = mask(ids, Masking(0.15, 1.0, 0.0), vocabulary, unigram, np.random.default_rng(4))
    assert (corrupted[labels != IGNORED] == MASK).all()


def test_whole_words_are_chosen_together_at_the_same_rate(ids, vocabulary, unigram):
    rule = Masking(whole_word_mask=True)
    corrupted, labels = mask(ids, rule, vocabulary, unigram, np.random.default_rng(5))
    chosen = labels != IGNORED
    masked = (corrupted[chosen] == vocabulary.mask).mean()
    kept = (corrupted[chosen] == ids[chosen]).mean()
    assert abs(masked - 0.8) < 0.006  # fates are drawn by the token or the word: within 3σ of either
    assert 0.094 < kept < 0.13  # a tenth, and the replacements that happen to be the token itself
    piece = vocabulary.continues[ids]
    after_ordinary = np.r_[False, ~vocabulary.special[ids[:-1]]]
    inside = piece & after_ordinary
    assert (chosen[inside] == np.r_[False, chosen[:-1]][inside]).all()
    assert not chosen[vocabulary.special[ids]].any()
    ordinary = (~vocabulary.special[ids]).sum()
    assert (
        abs(chosen.sum() / ordinary - 0.15) < 0.003
    )  # words of several tokens widen the 3σ of single tokens


def test_a_range_gives_each_row_its_own_share(ids, vocabulary, unigram):
    rule, generator = Masking(mlm_probability=(0.1, 0.5)), np.random.default_rng(8)
    ordinary = ids[~vocabulary.special[ids]]
    rows = ordinary[: len(ordinary) // 2000 * 2000].reshape(-1, 2000)
    shares = np.array(
        [(mask(row, rule, vocabulary, unigram, generator)[1] != IGNORED).mean() for row in rows]
    )
    noise = 3 * np.sqrt(0.25 / 2000)
    assert shares.min() > 0.1 - noise
    assert shares.max() < 0.5 + noise
    low, high = (shares < 0.2).mean(), (shares > 0.4).mean()
    assert abs(low - 0.25) < 0.07  # 3σ of a quarter of 450 rows
    assert abs(high - 0.25) < 0.07


def test_the_same_generator_gives_the_same_masks_and_another_others(ids, vocabulary, unigram):
    first, second, other = (
        mask(ids[:1000], Masking(), vocabulary, unigram, np.random.default_rng(seed))[0] for seed in (6, 6, 7)
    )
    assert (first == second).all()
    assert (first != other).any()


@pytest.mark.parametrize(
    "rates",
    [
        {"mlm_probability": 0.0},
        {"mlm_probability": 1.0},
        {"mlm_probability": (0.5, 0.1)},
        {"mlm_probability": (0.0, 0.5)},
        {"mask_replace_prob": 0.9, "random_replace_prob": 0.2},
        {"mask_replace_prob": -0.1},
    ],
)
def test_impossible_rates_are_refused(rates):
    with pytest.raises(UsageError, match="expected"):
        Masking(**rates)


def test_a_corpus_of_special_tokens_only_has_no_unigram():
    with pytest.raises(UsageError, match="other than special"):
        Unigram.of(np.ones(5), SPECIAL)


class Spelled:
    """As much of a tokenizer as masking asks for."""

    mask_token_id, all_special_ids = 0, (0,)

    def __init__(self, *tokens):
        self.tokens = ["[MASK]", *tokens]

    def __len__(self):
        return len(self.tokens)

    def convert_ids_to_tokens(self, ids):
        return [self.tokens[i] for i in ids]


@pytest.mark.parametrize("stray", ["▁", "Ġ", "Ġan"])
def test_a_stray_mark_makes_no_other_words(stray):
    """▁ is a character and Ġ a letter of Maltese: a WordPiece vocabulary may hold a token that starts so."""
    vocabulary = Vocabulary.of(
        Spelled(stray, "dog", "##s", "run", "##ning", "cat", *(f"w{n}" for n in range(30)))
    )
    assert vocabulary.continues.nonzero()[0].tolist() == [3, 5]


def test_words_marked_at_their_start_go_on_without_a_mark():
    vocabulary = Vocabulary.of(Spelled("▁dog", "s", "▁run", "ning", "##"))
    assert vocabulary.continues.nonzero()[0].tolist() == [2, 4, 5]
