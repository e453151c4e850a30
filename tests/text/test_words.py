"""A word's tokens are those that stand for its characters, and no others, for every kind of tokenizer."""

import unicodedata
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import pre_tokenizers
from transformers import RobertaTokenizer

from tiny import _KINDS, ARCHITECTURES, FAIRSEQ_SPECIALS, MARKS, SUFFIXES, WORDS
from unmask.text.reading import Reader, find_stretches, find_words, join_words, tokens_of

WINDOW = 512
RESIDUES = "LAGVSERTIDPKQNFYMHWC"
FAST = [name for name in ARCHITECTURES if name != "esm"]
BYTE_LEVEL = {"roberta", "modernbert"}  # tiny ones lack most bytes; `whole_bytes` below has all 256
ODD = "éßñ漢字かな한글😀👩‍👧’“”—…\u0301\u200d\u00a0\ufeff§½①ǅﬁİ\t_"


@cache
def tokenizer_of(name):
    if name == "whole_bytes":
        tokens = [*FAIRSEQ_SPECIALS, *sorted(pre_tokenizers.ByteLevel.alphabet()), "<mask>"]
        return RobertaTokenizer(vocab={token: i for i, token in enumerate(tokens)}, merges=[])
    return _KINDS[name].tokenizer()


lexical = st.builds(
    lambda stem, suffix: stem + suffix, st.sampled_from(WORDS), st.sampled_from(["", *SUFFIXES])
)
known = st.lists(
    st.one_of(lexical, st.sampled_from(MARKS), st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=4)),
    min_size=1,
    max_size=12,
)
odd = st.lists(
    st.one_of(lexical, st.sampled_from(MARKS), st.text(ODD + "aTx.", min_size=1, max_size=5)),
    min_size=1,
    max_size=12,
).map(lambda words: [word for word in words if word.strip()])


def spelled(tokenizer, ids):
    """The letters that tokens stand for, without the marks of a word's start or inside."""
    return "".join(tokenizer.convert_ids_to_tokens(ids)).replace("##", "").replace("Ġ", "").replace("▁", "")


@pytest.mark.parametrize("name", FAST)
@settings(max_examples=40)
@given(words=known)
def test_the_tokens_of_a_word_spell_the_word(name, words):
    """By the vocabulary's own spelling, offsets aside; words repeat, and punctuation stands among them."""
    tokenizer = tokenizer_of(name)
    reading = Reader(tokenizer, WINDOW).read_words(words)
    assert [unit.name for unit in reading.units] == words
    for unit in reading.units:
        assert spelled(tokenizer, [reading.ids[token] for token in unit.tokens]) == unit.name
    used = [token for unit in reading.units for token in unit.tokens]
    assert used == sorted(set(used))  # in order, none twice: a repeated word has its own tokens
    alone = {i for i, token in enumerate(tokenizer.convert_ids_to_tokens(reading.ids)) if token in ("Ġ", "▁")}
    assert set(used) | alone == set(range(len(reading.ids)))  # and none is left over but bare spaces


@settings(max_examples=40)
@given(words=st.lists(st.text(RESIDUES, min_size=1, max_size=6), min_size=1, max_size=6))
def test_a_tokenizer_without_offsets_is_asked_word_by_word(words):
    tokenizer = tokenizer_of("esm")
    reading = Reader(tokenizer, WINDOW).read_words(words)
    assert reading.ids == tokenizer(" ".join(words), add_special_tokens=False)["input_ids"]
    spellings = [spelled(tokenizer, [reading.ids[t] for t in unit.tokens]) for unit in reading.units]
    assert spellings == words


@pytest.mark.parametrize("name", [*FAST, "whole_bytes"])
@settings(max_examples=60)
@given(words=odd)
def test_odd_characters_go_to_the_word_that_they_stand_in(name, words):
    """Character by character: a word has exactly the tokens whose characters it holds."""
    tokenizer = tokenizer_of(name)
    text, spans = join_words(words)
    encoded = tokenizer(text, return_offsets_mapping=True, add_special_tokens=False)
    owner = {place: word for word, (start, end) in enumerate(spans) for place in range(start, end)}
    expected = [[] for _ in words]
    for token, (first, last) in enumerate(encoded["offset_mapping"]):
        for word in sorted({owner[place] for place in range(first, last) if place in owner}):
            expected[word].append(token)
    assert tokens_of(spans, encoded["offset_mapping"]) == expected
    reading = Reader(tokenizer, WINDOW).read_words(words)
    assert [(u.name, list(u.tokens)) for u in reading.units] == [
        (word, tokens) for word, tokens in zip(words, expected, strict=True) if tokens
    ]
    assert reading.vanished == sum(not tokens for tokens in expected)


@settings(max_examples=60)
@given(words=odd)
def test_odd_characters_go_to_their_word_where_there_are_no_offsets(words):
    """No character can be followed there: what a word has are the tokens of itself alone, side by side."""
    tokenizer = tokenizer_of("esm")
    own = [tokenizer(word, add_special_tokens=False)["input_ids"] for word in words]
    reading = Reader(tokenizer, WINDOW).read_words(words)
    assert reading.ids == [token for tokens in own for token in tokens]
    assert [(u.name, [reading.ids[t] for t in u.tokens]) for u in reading.units] == [
        (word, tokens) for word, tokens in zip(words, own, strict=True) if tokens
    ]
    assert [t for unit in reading.units for t in unit.tokens] == list(range(len(reading.ids)))
    assert reading.vanished == sum(not tokens for tokens in own)


@settings(max_examples=100)
@given(words=odd)
def test_bytes_spell_every_character_of_the_word(words):
    """With all 256 bytes nothing vanishes, and the bytes of a word's tokens are the word in UTF-8."""
    tokenizer = tokenizer_of("whole_bytes")
    reading = Reader(tokenizer, WINDOW).read_words(words)
    decode = {character: byte for byte, character in bytes_by_character().items()}
    assert [unit.name for unit in reading.units] == words
    for unit in reading.units:
        tokens = "".join(tokenizer.convert_ids_to_tokens([reading.ids[t] for t in unit.tokens]))
        assert bytes(decode[c] for c in tokens).decode().strip(" ") == unit.name.strip(" ")


@cache
def bytes_by_character():
    """GPT-2's table: the printable bytes as they are, the others from U+0100 on."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in plain]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(rest)}


@settings(max_examples=200)
@given(text=st.text("ab1_'’.- \t\n" + ODD, max_size=30))
def test_words_cover_everything_but_white_space_and_keep_marks_with_their_letter(text):
    for find in (find_words, find_stretches):
        spans = find(text)
        covered = [place for start, end in spans for place in range(start, end)]
        assert covered == sorted(set(covered))
        assert all(not text[place].isspace() for place in covered)
        assert all(c.isspace() for place, c in enumerate(text) if place not in set(covered))
    for start, _ in find_words(text):
        attached = start and not text[start - 1].isspace()
        assert not (attached and unicodedata.category(text[start]) == "Mn")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The man's dog, 'Rex', isn't.", ["The", "man's", "dog", ",", "'", "Rex", "'", ",", "isn't", "."]),
        ("e\u0301te\u0301 naïve", ["e\u0301te\u0301", "naïve"]),
        ("well-known 3.5%", ["well", "-", "known", "3", ".", "5", "%"]),
        ("", []),
    ],
)
def test_words_are_those_that_a_person_sees(text, words):
    assert [text[start:end] for start, end in find_words(text)] == words
