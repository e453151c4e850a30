"""Vocabularies: trained to the asked size, drawn in a stratified way, and cut without losing a letter."""

import numpy as np
import pytest
import toy
from tokenizers import Tokenizer, models, pre_tokenizers

from unmask.errors import UsageError
from unmask.training.corpus import Corpus
from unmask.training.tokenfile import write
from unmask.training.vocabulary import XLM_R_SPECIAL, cut, train_vocabulary, wrap


@pytest.mark.parametrize(
    ("tokenizer_type", "size", "frame"),
    [("wordpiece", 80, ("[CLS]", "[SEP]")), ("unigram", 50, ("<s>", "</s>"))],
)
def test_a_trained_vocabulary_has_the_asked_size_and_frame(toy_corpus, tokenizer_type, size, frame):
    tokenizer = train_vocabulary(
        [toy_corpus], tokenizer_type=tokenizer_type, size=size, alpha=1.0, lowercase=True, seed=0
    )
    assert len(tokenizer) == size or (tokenizer_type == "unigram" and 0.75 * size <= len(tokenizer) < size)
    sentence = "the jax nbz vcz the nax ."
    ids = tokenizer(sentence)["input_ids"]
    tokens = tokenizer.convert_ids_to_tokens(ids)
    assert (tokens[0], tokens[-1]) == frame
    assert tokenizer.unk_token not in tokens
    assert tokenizer.decode(ids, skip_special_tokens=True).replace(" ", "") == sentence.replace(" ", "")
    pair = tokenizer("the nax", "the nbz")
    assert ("token_type_ids" in pair) == (tokenizer_type == "wordpiece")
    if tokenizer_type == "wordpiece":
        types = pair["token_type_ids"]
        assert types == sorted(types)
        assert set(types) == {0, 1}


def test_a_vocabulary_larger_than_the_corpus_supports_is_refused(tmp_path):
    path = tmp_path / "small.txt"
    path.write_text("a few words only\n")
    for tokenizer_type in ("wordpiece", "unigram"):
        with pytest.raises(UsageError, match="ask for fewer tokens"):
            train_vocabulary(
                [Corpus("small", path)],
                tokenizer_type=tokenizer_type,
                size=5000,
                alpha=1.0,
                lowercase=True,
                seed=0,
            )


def test_a_small_language_gets_a_larger_part_of_the_vocabulary_with_a_small_alpha(tmp_path):
    large, small = tmp_path / "large.txt", tmp_path / "small.txt"
    toy.write_corpus(large, documents=600)
    words = ["qo", "qi", "qe", "qa", "qoqi", "qiqe", "qeqa", "qaqo", "qoqa", "qeqi"]
    chance = np.random.default_rng(0)
    small.write_text("\n".join(" ".join(chance.choice(words, 8)) for _ in range(60)))
    both = [Corpus("large", large), Corpus("small", small)]
    found = {}
    for alpha in (1.0, 0.0):
        tokenizer = train_vocabulary(
            both, tokenizer_type="wordpiece", size=60, alpha=alpha, lowercase=True, seed=0
        )
        found[alpha] = sum("q" in token for token in tokenizer.get_vocab())
    assert found[0.0] > found[1.0]


def test_an_unknown_kind_is_refused(toy_corpus):
    with pytest.raises(UsageError, match="wordpiece or unigram"):
        train_vocabulary([toy_corpus], tokenizer_type="bpe", size=80, alpha=1.0, lowercase=True, seed=0)


def test_a_cut_keeps_special_tokens_letters_and_the_most_frequent(toy_corpus, tmp_path):
    toy_tokenizer = train_vocabulary(
        [toy_corpus], tokenizer_type="wordpiece", size=150, alpha=1.0, lowercase=True, seed=0
    )
    counts = write(toy_corpus, toy_tokenizer, tmp_path, "toy").counts
    shares = counts / counts.sum()
    size = int((counts > 0).sum())
    smaller, old = cut(toy_tokenizer, shares, size)
    assert len(smaller) == len(old) == size
    tokens = toy_tokenizer.convert_ids_to_tokens(old)
    assert smaller.convert_ids_to_tokens(range(size)) == tokens
    assert smaller.convert_ids_to_tokens(smaller.all_special_ids) == toy_tokenizer.convert_ids_to_tokens(
        toy_tokenizer.all_special_ids
    )
    dropped = set(range(len(toy_tokenizer))) - set(old)
    kept_words = [
        index for index in old if len(toy_tokenizer.convert_ids_to_tokens(index).removeprefix("##")) > 1
    ]
    kept_words = [index for index in kept_words if index not in toy_tokenizer.all_special_ids]
    assert max(shares[list(dropped)]) <= min(shares[kept_words])
    sentence = "the jax nbz vcz the nax ."
    assert smaller.unk_token_id not in smaller(sentence)["input_ids"]
    assert (
        smaller.decode(smaller(sentence)["input_ids"], skip_special_tokens=True) == "the jax nbz vcz the nax."
    )


def test_a_unigram_vocabulary_can_be_cut_too(toy_corpus, tmp_path):
    tokenizer = train_vocabulary(
        [toy_corpus], tokenizer_type="unigram", size=50, alpha=1.0, lowercase=True, seed=0
    )
    counts = write(toy_corpus, tokenizer, tmp_path, "unigram").counts
    supported = int((counts > 0).sum()) + len(tokenizer.all_special_ids)
    smaller, old = cut(tokenizer, counts / counts.sum(), supported - 2)
    assert len(smaller) == len(old) == supported - 2
    assert smaller.mask_token == "<mask>"
    assert smaller.unk_token_id not in smaller("the jax nbz")["input_ids"]


@pytest.mark.parametrize(("size", "message"), [(10_000, "ask for fewer"), (8, "ask for more")])
def test_an_impossible_cut_is_refused(toy_tokenizer, toy_tokens, size, message):
    with pytest.raises(UsageError, match=message):
        cut(toy_tokenizer, toy_tokens.counts / toy_tokens.counts.sum(), size)


def test_a_unigram_vocabulary_stays_one_though_it_has_a_token_of_double_crosses():
    """As text in Markdown gives it; it is no mark of WordPiece."""
    special = list(XLM_R_SPECIAL.values())
    tokens = [*special, "▁the", "▁jax", "##"]
    backend = Tokenizer(models.Unigram([(token, -1.0) for token in tokens], unk_id=special.index("<unk>")))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.add_special_tokens(special)
    tokenizer = wrap(backend, XLM_R_SPECIAL)
    found = tokenizer("the jax")
    assert "token_type_ids" not in found
    assert tokenizer.decode(found["input_ids"], skip_special_tokens=True) == "the jax"


def test_the_numbers_of_a_trained_vocabulary_do_not_depend_on_the_run(toy_corpus):
    numbers = [
        train_vocabulary(
            [toy_corpus], tokenizer_type="wordpiece", size=90, alpha=1.0, lowercase=True, seed=0
        ).get_vocab()
        for _ in range(3)
    ]
    shared = set.intersection(*(set(found) for found in numbers))
    assert len(shared) > 80
    for found in numbers:
        ordinary = [token for token, _ in sorted(found.items(), key=lambda item: item[1])][5:]
        assert ordinary == sorted(ordinary)


def test_a_vocabulary_too_small_for_the_letters_is_told_to_be_larger(toy_corpus):
    with pytest.raises(UsageError, match="more than the 10 tokens of vocabulary: ask for more"):
        train_vocabulary([toy_corpus], tokenizer_type="wordpiece", size=10, alpha=1.0, lowercase=True, seed=0)
