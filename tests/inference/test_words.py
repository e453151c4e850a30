"""Words of several tokens, on one scale with words of one."""

import itertools
import math

import pytest
import torch

from unmask import UsageError
from unmask.inference.model_conditionals import ModelConditionals
from unmask.inference.words import expanded, fill_words
from unmask.joints.chain import Chain
from unmask.text.cloze import parse_blanks
from unmask.text.support import Support
from unmask.text.vocabulary import word_parts

TEXT = "The old [MASK] is at the casino."


def cloze_of(mlm, text=TEXT):
    return parse_blanks(text, mlm.vocabulary, mlm.window)


@pytest.mark.parametrize("architecture", ["bert", "roberta", "xlm-roberta"])
def test_the_best_words_are_those_of_brute_force_over_all_token_sequences(architecture, mlm_of):
    mlm = mlm_of(architecture)
    cloze, support = cloze_of(mlm), Support.words(mlm.vocabulary)
    prior = (0.6, 0.4)
    found = fill_words(mlm, cloze, most_tokens=2, prior=prior, top=15, beam=200)
    start, inside = word_parts(mlm.vocabulary)
    worth, total = {}, 0.0
    for length in (1, 2):
        chain = Chain(ModelConditionals(mlm, expanded(cloze, [length]), (support,) * length))
        table = chain.table.log_q + math.log(prior[length - 1])
        total += float(table.exp().sum())
        for where in itertools.product(range(len(support)), repeat=length):
            ids = tuple(int(support.ids[i]) for i in where)
            if start[ids[0]] and all(inside[i] for i in ids[1:]):
                worth[ids] = float(table[where])
    assert total == pytest.approx(1, abs=1e-6)  # all lengths and all sequences share one unit of mass
    assert sum(math.exp(v) for v in worth.values()) < 1
    best = sorted(worth, key=lambda ids: -worth[ids])[:15]
    assert [f.ids[0] for f in found.fillings] == best
    assert [f.log_prob for f in found.fillings] == pytest.approx([worth[b] for b in best], abs=1e-5)


def test_a_word_is_one_start_and_what_goes_on_inside_it(mlm_of):
    for architecture in ("bert", "roberta", "albert"):
        mlm = mlm_of(architecture)
        for filling in fill_words(mlm, cloze_of(mlm), top=40).fillings:
            ((first, *rest),) = filling.ids
            assert not mlm.vocabulary.goes_on_inside_a_word(first)
            assert all(mlm.vocabulary.goes_on_inside_a_word(token) for token in rest)
            assert filling.words[0] in filling.text
            assert " " not in filling.words[0]


def test_several_blanks_combine_their_lengths(mlm_of):
    mlm = mlm_of("bert")
    cloze = cloze_of(mlm, "The [MASK] is at the [MASK].")
    found = fill_words(mlm, cloze, most_tokens=2, top=200, beam=200)
    assert {tuple(map(len, f.ids)) for f in found.fillings} >= {(1, 1), (1, 2), (2, 1)}
    for filling in found.fillings[::40]:
        longer = expanded(cloze, [len(part) for part in filling.ids])
        support = Support.words(mlm.vocabulary)
        chain = Chain(ModelConditionals(mlm, longer, (support,) * len(longer.blanks)))
        flat = [token for part in filling.ids for token in part]
        assert filling.log_prob == pytest.approx(float(chain.log_prob(flat)) + 2 * math.log(0.5), abs=1e-5)


def test_a_prior_that_leaves_out_a_length_leaves_out_its_words(mlm_of):
    mlm = mlm_of("bert")
    found = fill_words(mlm, cloze_of(mlm), most_tokens=3, prior=(0.0, 1.0, 0.0)).fillings
    assert {len(f.ids[0]) for f in found} == {2}


def test_what_cannot_be_is_refused(mlm_of):
    bert, esm = mlm_of("bert"), mlm_of("esm")
    with pytest.raises(UsageError, match="at most 4 blanks, and the text has 5"):
        fill_words(bert, cloze_of(bert, "[MASK] " * 5))
    with pytest.raises(UsageError, match="1 to 3 tokens, got 4"):
        fill_words(bert, cloze_of(bert), most_tokens=4)
    with pytest.raises(UsageError, match="sum to 1"):
        fill_words(bert, cloze_of(bert), prior=(0.5, 0.2, 0.1))
    with pytest.raises(UsageError, match="no tokens that go on inside a word"):
        fill_words(esm, parse_blanks("M K [MASK] A", esm.vocabulary, esm.window))
    with pytest.raises(UsageError, match="window holds 64"):
        fill_words(bert, cloze_of(bert, "The [MASK] " + "old " * 59))
    assert torch.is_inference_mode_enabled() is False
