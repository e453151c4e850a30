"""Texts with blanks and with braces become the right ids, in every tokenizer's manner."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tiny import ARCHITECTURES, CASED_WORDS, WINDOW
from unmask.errors import UsageError
from unmask.models.masked_lm import MaskedLM
from unmask.text.cloze import Cloze, parse_blanks, parse_braces

OF_TEXT = [name for name in ARCHITECTURES if name != "esm"]
Models = Callable[[str], MaskedLM]


def frame(architecture: str) -> tuple[str, tuple[str, str]]:
    """A text with two places for words, and the words that stood there, each one token."""
    if architecture == "esm":
        return "MK{}AYIA{}QR", ("T", "K")
    return "The old {} is playing {} the casino.", ("man", "at")


def blanks(mlm: MaskedLM, text: str, **options: bool) -> Cloze:
    return parse_blanks(text, mlm.vocabulary, mlm.window, **options)


def braces(mlm: MaskedLM, text: str, **options: bool) -> Cloze:
    return parse_braces(text, mlm.vocabulary, mlm.window, **options)


def ids_of(mlm: MaskedLM, text: str) -> list[int]:
    return list(mlm.tokenizer(text)["input_ids"])


def tokens(mlm: MaskedLM, ids: tuple[int, ...] | None) -> list[str]:
    return [mlm.vocabulary.token(i) for i in ids or ()]


def with_truth(cloze: Cloze) -> list[int]:
    """The ids with the true tokens back in the blanks."""
    ids = list(cloze.ids)
    for position, token_id in zip(cloze.blanks, cloze.truth or (), strict=True):
        ids[position] = token_id
    return ids


class TestBlanks:
    def test_a_blank_takes_the_place_of_the_word_and_moves_nothing_else(
        self, architecture: str, mlm: MaskedLM
    ) -> None:
        text, words = frame(architecture)
        whole = ids_of(mlm, text.format(*words))
        cloze = blanks(mlm, text.format("[MASK]", "[MASK]"))
        assert len(cloze.blanks) == 2
        expected = [mlm.vocabulary.mask_id if i in cloze.blanks else t for i, t in enumerate(whole)]
        assert list(cloze.ids) == expected
        assert tokens(mlm, tuple(whole[i] for i in cloze.blanks)) == [
            mlm.vocabulary.token(mlm.vocabulary.find(word)) for word in words
        ]
        assert cloze.truth is None

    @pytest.mark.parametrize("written", ["[MASK]", "___", "__________"])
    def test_a_blank_may_be_written_in_three_ways(
        self, architecture: str, mlm: MaskedLM, written: str
    ) -> None:
        text, _ = frame(architecture)
        own = blanks(mlm, text.format(mlm.tokenizer.mask_token, mlm.tokenizer.mask_token))
        other = blanks(mlm, text.format(written, mlm.tokenizer.mask_token))
        assert (other.ids, other.blanks, other.pieces) == (own.ids, own.blanks, own.pieces)

    def test_an_idle_mask_in_the_vocabulary_is_not_mistaken_for_the_models_own(self, mlm_of: Models) -> None:
        mpnet = mlm_of("mpnet")
        cloze = blanks(mpnet, "The [MASK] is old")
        assert mpnet.vocabulary.find("[MASK]") not in cloze.ids
        assert cloze.ids[cloze.blanks[0]] == mpnet.tokenizer.convert_tokens_to_ids("<mask>")

    def test_any_number_of_blanks_is_read(self, mlm: MaskedLM) -> None:
        assert len(blanks(mlm, "___").blanks) == 1
        assert len(blanks(mlm, "___ [MASK] ___ " + mlm.tokenizer.mask_token).blanks) == 4

    def test_two_underscores_are_no_blank(self, mlm: MaskedLM) -> None:
        with pytest.raises(UsageError, match="no blank"):
            blanks(mlm, "The __ is old")

    @pytest.mark.parametrize("text", ["", "  ", "\n\t"])
    def test_an_empty_text_is_refused(self, mlm: MaskedLM, text: str) -> None:
        with pytest.raises(UsageError, match="empty"):
            blanks(mlm, text)
        with pytest.raises(UsageError, match="empty"):
            braces(mlm, text)

    def test_without_a_blank_the_ways_to_write_one_are_named(self, mlm: MaskedLM) -> None:
        with pytest.raises(UsageError) as refusal:
            blanks(mlm, "The {man} is old")
        assert all(way in str(refusal.value) for way in ("[MASK]", "___", mlm.tokenizer.mask_token))


class TestBraces:
    def test_words_in_braces_become_blanks_with_known_tokens(self, architecture: str, mlm: MaskedLM) -> None:
        text, words = frame(architecture)
        cloze = braces(mlm, text.format(*(f"{{{word}}}" for word in words)))
        masked = blanks(mlm, text.format("[MASK]", "[MASK]"))
        assert (cloze.ids, cloze.blanks) == (masked.ids, masked.blanks)
        assert tokens(mlm, cloze.truth) == [mlm.vocabulary.token(mlm.vocabulary.find(w)) for w in words]
        assert with_truth(cloze) == ids_of(mlm, text.format(*words))
        assert cloze.notes == ()

    def test_a_word_of_several_tokens_is_several_blanks_and_the_user_is_told(
        self, architecture: str, mlm: MaskedLM
    ) -> None:
        word, pieces = ("TAY", 3) if architecture == "esm" else ("playing", 2)
        plain = f"MK{word}IA" if architecture == "esm" else f"The man is {word} at the casino."
        cloze = braces(mlm, plain.replace(word, f"{{{word}}}"))
        assert len(cloze.blanks) == pieces
        assert cloze.blanks == tuple(range(cloze.blanks[0], cloze.blanks[0] + pieces))
        assert with_truth(cloze) == ids_of(mlm, plain)
        (note,) = cloze.notes
        assert f"'{word}' is {pieces} tokens" in note
        assert " ".join(tokens(mlm, cloze.truth)) in note

    def test_two_words_in_one_brace_are_two_blanks(self, mlm_of: Models) -> None:
        cloze = braces(mlm_of("bert"), "the {old man} is")
        assert tokens(mlm_of("bert"), cloze.truth) == ["old", "man"]
        assert cloze.pieces == ("the ", " ", " is")

    @pytest.mark.parametrize("architecture", ["bert", "roberta", "albert"])
    def test_spaces_inside_braces_are_not_scored(self, architecture: str, mlm_of: Models) -> None:
        mlm = mlm_of(architecture)
        spaced, tight = braces(mlm, "The{ man }is"), braces(mlm, "The {man} is")
        assert (spaced.ids, spaced.truth, spaced.pieces) == (tight.ids, tight.truth, tight.pieces)

    @pytest.mark.parametrize(
        ("text", "plain", "word"),
        [
            ("{{ the {man} }}", "{ the man }", "man"),
            ("{{the}} {man}", "{the} man", "man"),
            ("{{{man}}} is", "{man} is", "man"),
            ("the {man}}} is", "the man} is", "man"),
            ("the { {{ } is", "the  {  is", "{"),
            ("the{ }} }is", "the } is", "}"),
        ],
    )
    def test_doubled_braces_stand_for_plain_ones(
        self, text: str, plain: str, word: str, mlm_of: Models
    ) -> None:
        mlm = mlm_of("bert")
        cloze = braces(mlm, text)
        assert with_truth(cloze) == ids_of(mlm, plain)
        assert [mlm.vocabulary.tokenizer.unk_token if word in "{}" else word] == tokens(mlm, cloze.truth)
        assert word.join(cloze.pieces) == plain

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("The {man is here", "does not close"),
            ("The man} is here", "character 8 that was never opened"),
            ("The {old {man}} is", "opens inside another one at character 10"),
            ("The {} is", "empty braces at character 6"),
            ("The {  } is", "empty braces"),
            ("The man is", "nothing is marked"),
            ("{{man}} is", "nothing is marked"),
        ],
    )
    def test_braces_that_do_not_match_are_refused(self, mlm: MaskedLM, text: str, message: str) -> None:
        with pytest.raises(UsageError, match=message):
            braces(mlm, text)

    @pytest.mark.parametrize("architecture", ["bert", "xlm-roberta"])
    def test_braces_around_a_part_of_a_token_are_refused(self, architecture: str, mlm_of: Models) -> None:
        with pytest.raises(UsageError, match=r"cut the token 'man'.*whole word"):
            braces(mlm_of(architecture), "The {ma}n is")

    def test_a_tokenizer_without_offsets_refuses_a_cut_token_too(self, mlm_of: Models) -> None:
        with pytest.raises(UsageError, match="cut a token"):
            braces(mlm_of("esm"), "MK{<c}ls>AY")

    @pytest.mark.parametrize("blank", ["[MASK]", "___", "own"])
    def test_braces_and_blanks_do_not_mix(self, mlm: MaskedLM, blank: str) -> None:
        blank = mlm.tokenizer.mask_token if blank == "own" else blank
        with pytest.raises(UsageError, match="both braces and a blank"):
            braces(mlm, f"The {{man}} {blank} here")

    def test_a_word_that_vanishes_in_tokenization_is_refused(self, mlm_of: Models) -> None:
        with pytest.raises(UsageError, match="no token at all"):
            braces(mlm_of("roberta"), "The {🦜} is")  # the tiny vocabulary lacks its bytes

    def test_slow_and_fast_tokenizers_are_both_among_the_tested(self, mlm_of: Models) -> None:
        assert {mlm_of(name).tokenizer.is_fast for name in ARCHITECTURES} == {True, False}


WORDS = st.one_of(
    st.sampled_from(
        [*CASED_WORDS, "playing", "houses", "walked", "don't", "man.", "[CLS]", "é", "ﬁne", "日本"]
    ),
    st.text(
        st.characters(exclude_categories=["Cs", "Cc", "Z"], exclude_characters="{}_"), min_size=1, max_size=8
    ),
)
SPACES = st.sampled_from([" ", "  ", "\n", " \t"])


@given(
    words=st.lists(st.tuples(WORDS, SPACES, st.booleans()), min_size=1, max_size=10),
    architecture=st.sampled_from(ARCHITECTURES),
)
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
def test_braces_leave_the_tokenization_of_the_text_as_it_is(
    words: list[tuple[str, str, bool]], architecture: str, mlm_of: Models
) -> None:
    mlm = mlm_of(architecture)
    plain = "".join(word + space for word, space, _ in words)
    marked = "".join((f"{{{word}}}" if braced else word) + space for word, space, braced in words)
    assume(any(braced for _, _, braced in words))
    assume(mlm.tokenizer.mask_token not in plain and "[MASK]" not in plain)  # mixed ways are refused
    assume(len(ids_of(mlm, plain)) <= mlm.window)
    try:
        cloze = braces(mlm, marked)
    except UsageError as refusal:
        assume("no token at all" not in str(refusal))  # a character that the tiny vocabulary has not
        raise
    assert with_truth(cloze) == ids_of(mlm, plain)
    assert [i for i, t in enumerate(cloze.ids) if t == mlm.vocabulary.mask_id] == list(cloze.blanks)
    assert len(cloze.pieces) == len(cloze.blanks) + 1
    assert len(cloze.truth or ()) >= sum(braced for _, _, braced in words)


SCRAPS = st.one_of(
    st.sampled_from(["{", "}", "{{", "}}", "[MASK]", "___", "<mask>", "[CLS]", "</s>", " ", "man", "▁", "Ġ"]),
    st.text(max_size=5),
    st.characters(categories=["Cs", "Cc", "Co", "Mn"]),
)


@given(scraps=st.lists(SCRAPS, max_size=12), architecture=st.sampled_from(ARCHITECTURES))
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_text_is_read_or_refused_in_words(scraps: list[str], architecture: str, mlm_of: Models) -> None:
    mlm, text = mlm_of(architecture), "".join(scraps)
    for parse in (parse_blanks, parse_braces):
        try:
            cloze = parse(text, mlm.vocabulary, mlm.window)
        except UsageError:
            continue
        assert 1 <= len(cloze.blanks) == len(cloze.pieces) - 1
        assert all(cloze.ids[position] == mlm.vocabulary.mask_id for position in cloze.blanks)
        cloze.filled([mlm.vocabulary.mask_id] * len(cloze.blanks))


class TestFilledText:
    def test_the_true_tokens_give_the_text_back(self, architecture: str, mlm: MaskedLM) -> None:
        text, words = frame(architecture)
        cloze = braces(mlm, text.format(*(f"{{{word}}}" for word in words)))
        assert cloze.filled(cloze.truth or ()) == text.format(*words)

    @pytest.mark.parametrize("architecture", OF_TEXT)
    def test_a_word_of_several_tokens_is_joined_again(self, architecture: str, mlm_of: Models) -> None:
        cloze = braces(mlm_of(architecture), "The man is {playing} at {the casino}.")
        assert cloze.filled(cloze.truth or ()) == "The man is playing at the casino."

    @pytest.mark.parametrize("architecture", OF_TEXT)
    def test_a_token_that_goes_on_inside_a_word_joins_it(self, architecture: str, mlm_of: Models) -> None:
        mlm = mlm_of(architecture)
        cloze = blanks(mlm, "The man is [MASK] [MASK] here")
        suffix = "##ing" if mlm.vocabulary.has_inside_mark else "ing"
        ids = [mlm.vocabulary.find("play"), mlm.vocabulary.find(suffix)]
        assert cloze.filled(ids) == "The man is playing here"

    @pytest.mark.parametrize("architecture", OF_TEXT)
    def test_a_word_at_the_very_start_gets_no_space(self, architecture: str, mlm_of: Models) -> None:
        mlm = mlm_of(architecture)
        assert blanks(mlm, "[MASK] man is").filled([mlm.vocabulary.find("old")]) == "old man is"

    @pytest.mark.parametrize(("architecture", "text"), [("bert", "the oldman"), ("roberta", "the old man")])
    def test_a_word_start_mark_is_a_space_where_the_text_has_none(
        self, architecture: str, text: str, mlm_of: Models
    ) -> None:
        mlm = mlm_of(architecture)
        assert blanks(mlm, "the old[MASK]").filled([mlm.vocabulary.find("man")]) == text

    def test_special_tokens_are_shown_by_name(self, architecture: str, mlm: MaskedLM) -> None:
        pad = mlm.tokenizer.pad_token
        shown = blanks(mlm, "A [MASK] B").filled([mlm.tokenizer.pad_token_id])
        assert shown == f"A {pad} B"

    def test_the_number_of_tokens_must_be_that_of_the_blanks(self, mlm_of: Models) -> None:
        with pytest.raises(ValueError, match="zip"):
            blanks(mlm_of("bert"), "The [MASK] is").filled([20, 21])


class TestWindow:
    def test_a_text_as_long_as_the_window_passes_and_one_token_more_is_refused(
        self, architecture: str, mlm: MaskedLM
    ) -> None:
        word = "A" if architecture == "esm" else " a"
        fits = "[MASK]" + word * (mlm.window - 3)
        assert len(blanks(mlm, fits).ids) == mlm.window
        with pytest.raises(UsageError, match=rf"{mlm.window + 1} tokens.*holds {mlm.window}.*truncate"):
            blanks(mlm, fits + word)

    def test_truncation_drops_the_end_but_keeps_the_closing_token(
        self, architecture: str, mlm: MaskedLM
    ) -> None:
        word = "A" if architecture == "esm" else " a"
        whole = ids_of(mlm, mlm.tokenizer.mask_token + word * 100)
        cloze = blanks(mlm, "[MASK]" + word * 100, truncate=True)
        assert list(cloze.ids) == [*whole[: mlm.window - 1], whole[-1]]
        assert cloze.notes == (f"the text was cut from {len(whole)} to {mlm.window} tokens",)

    def test_truncation_says_nothing_where_there_is_nothing_to_cut(self, mlm: MaskedLM) -> None:
        assert blanks(mlm, "[MASK] a", truncate=True) == blanks(mlm, "[MASK] a")

    def test_a_blank_in_the_part_that_is_dropped_is_refused(self, architecture: str, mlm: MaskedLM) -> None:
        word = "A" if architecture == "esm" else " a"
        last = mlm.window - 2  # the position of the last token that is kept before the closing one
        assert blanks(mlm, word * (last - 1) + "[MASK]" + word, truncate=True).blanks == (last,)
        with pytest.raises(UsageError, match=rf"token {last + 2}, in the part.*drops: move it forward"):
            blanks(mlm, word * last + "[MASK]" + word, truncate=True)

    def test_braces_are_cut_the_same_way(self, mlm_of: Models) -> None:
        bert = mlm_of("bert")
        cloze = braces(bert, "The {man} is" + " a" * WINDOW, truncate=True)
        assert len(cloze.ids) == WINDOW
        assert tokens(bert, cloze.truth) == ["man"]
        with pytest.raises(UsageError, match="in the part"):
            braces(bert, "a " * WINDOW + "{man}", truncate=True)


class TestOddText:
    @pytest.mark.parametrize("text", ["caf\udce9 [MASK]", "{caf\udce9} is"])
    def test_half_characters_are_refused(self, mlm: MaskedLM, text: str) -> None:
        parse = braces if "{" in text else blanks
        with pytest.raises(UsageError, match=r"not valid Unicode from character \d.*UTF-8"):
            parse(mlm, text)

    @pytest.mark.parametrize(
        "odd", ["\u202eabc", "👩‍👩‍👧", "e\u0301\u0301", "\ufeff", "ﷺ", "𝔘𝔫𝔦", "\u200b", "a\x00b", "日本語"]
    )
    def test_odd_characters_around_a_blank_change_nothing_about_it(self, mlm: MaskedLM, odd: str) -> None:
        cloze = blanks(mlm, f"{odd} [MASK] {odd}")
        assert len(cloze.blanks) == 1
        assert cloze.filled([mlm.vocabulary.mask_id]) == f"{odd} {mlm.tokenizer.mask_token} {odd}"

    def test_a_text_of_special_tokens_alone_has_no_blank(self, mlm: MaskedLM) -> None:
        with pytest.raises(UsageError, match="no blank"):
            blanks(mlm, f"{mlm.tokenizer.cls_token} {mlm.tokenizer.sep_token}")
