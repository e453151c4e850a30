"""Features: the first sub-token of a word is labelled and no other; long texts are cut or split as asked."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiny import _KINDS, ARCHITECTURES, MARKS, SUFFIXES, WORDS
from unmask.errors import UsageError
from unmask.tasks.encoding import IGNORED, Encoder
from unmask.tasks.files import Example, Tagged

LABELS = ["O", "B-X", "I-X"]
words = st.lists(
    st.one_of(
        st.builds(str.__add__, st.sampled_from(WORDS), st.sampled_from(["", *SUFFIXES])),
        st.sampled_from(MARKS),
    ),
    min_size=1,
    max_size=12,
)
proteins = st.lists(st.text("LAGVSERTIDPKQ", min_size=1, max_size=5), min_size=1, max_size=5)


@cache
def tokenizer_of(name):
    return _KINDS[name].tokenizer()


def encoder(name, task="tag", window=512, long="split"):
    return Encoder(task, tokenizer_of(name), window, labels=LABELS, long=long)


@pytest.mark.parametrize("name", ARCHITECTURES)
@settings(max_examples=30)
@given(data=st.data())
def test_the_first_sub_token_of_each_word_has_the_label_and_no_other(name, data):
    own = data.draw(proteins if name == "esm" else words)
    tags = [data.draw(st.sampled_from(LABELS)) for _ in own]
    (feature,) = encoder(name).encode([Tagged(1, own, tags)]).features
    tokenizer = tokenizer_of(name)
    labelled = [i for i, label in enumerate(feature["labels"]) if label != IGNORED]
    assert [LABELS[feature["labels"][i]] for i in labelled] == tags
    tokens = tokenizer.convert_ids_to_tokens(feature["input_ids"])
    assert feature["input_ids"] == tokenizer(" ".join(own))["input_ids"]
    for word, first, end in zip(own, labelled, [*labelled[1:], len(tokens) - 1], strict=True):
        spelled = "".join(tokens[first:end]).replace("##", "").replace("Ġ", "").replace("▁", "")
        assert spelled == word


def test_a_long_sentence_is_split_with_all_its_tags_or_cut_with_a_count():
    own = ["playing"] * 20
    tags = ["B-X"] * 20
    split = encoder("bert", window=12).encode([Tagged(1, own, tags)])
    assert split.overlong == 1
    assert len(split.features) == 4
    assert sum(label == 1 for feature in split.features for label in feature["labels"]) == 20
    assert sorted(word for places in split.places for _, word in places) == list(range(20))
    cut = encoder("bert", window=12, long="truncate").encode([Tagged(1, own, tags)])
    assert (len(cut.features), cut.overlong, len(cut.places[0])) == (1, 1, 5)
    with pytest.raises(UsageError, match="line 1: longer than max_length, which is 12"):
        encoder("bert", window=12, long="refuse").encode([Tagged(1, own, tags)])


def test_long_texts_and_pairs_are_cut_split_or_refused_and_counted():
    text = Example(3, ("the dog " * 10,), "O")
    split = encoder("bert", "classify", 12).encode([text, Example(4, ("a cat",), "B-X")])
    assert split.homes == [0, 0, 1]
    assert [feature["labels"] for feature in split.features] == [0, 0, 1]
    assert (split.overlong, max(len(f["input_ids"]) for f in split.features)) == (1, 12)
    pair = Example(3, ("the dog " * 10, "a cat"), None)
    cut = encoder("bert", "pairs", 12, "truncate").encode([pair])
    (feature,) = cut.features
    assert (len(feature["input_ids"]), cut.overlong) == (12, 1)
    tokens = tokenizer_of("bert").convert_ids_to_tokens(feature["input_ids"])
    assert tokens[-3:] == ["a", "cat", "[SEP]"]  # the longer text has lost its end
    assert feature["token_type_ids"][-3:] == [1, 1, 1]
    with pytest.raises(
        UsageError, match="line 3: longer than max_length, which is 12 tokens: --long truncate"
    ):
        encoder("bert", "pairs", 12, "refuse").encode([pair])
    with pytest.raises(UsageError, match=r"t\.tsv, line 3: .*: --long split or truncate"):
        encoder("bert", "classify", 12, "refuse").encode([text], "t.tsv")


def test_a_word_that_vanishes_has_no_label_and_is_counted():
    encoded = encoder("bert").encode([Tagged(1, ["the", "\u200d", "dog"], ["O", "B-X", "I-X"])])
    assert encoded.vanished == 1
    assert [label for label in encoded.features[0]["labels"] if label != IGNORED] == [0, 2]
