"""Tokens are found by the words that people write, and a blank can hold what belongs into a text."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers
from transformers import BertTokenizer, RobertaTokenizer

from tiny import ARCHITECTURES, BERT_SPECIALS, FAIRSEQ_SPECIALS, MADE_UP, UNUSED
from unmask.errors import UsageError
from unmask.models.masked_lm import MaskedLM
from unmask.text.support import Support
from unmask.text.vocabulary import Vocabulary

Models = Callable[[str], MaskedLM]

LEFT_OUT = {
    **{name: set(BERT_SPECIALS) for name in ("bert", "bert-cased", "distilbert", "electra")},
    "roberta": {*FAIRSEQ_SPECIALS, *MADE_UP, "<mask>"},
    "xlm-roberta": {*FAIRSEQ_SPECIALS, "<mask>"},
    "albert": {"<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"},
    "mpnet": {*FAIRSEQ_SPECIALS, *BERT_SPECIALS, "<mask>"},
    "modernbert": {"<|padding|>", "<|endoftext|>", "[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]", *UNUSED},
    "esm": {"<cls>", "<pad>", "<eos>", "<unk>", "<mask>"},
}
START_MARKS = {"roberta": "Ġ", "modernbert": "Ġ", "xlm-roberta": "▁", "albert": "▁"}


def byte_level(*words: str) -> Vocabulary:
    """RoBERTa's kind of tokenizer with all 256 bytes, in which the given words are whole after a space."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([f" {word}" for word in words] * 2, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    tokens = [*FAIRSEQ_SPECIALS, *sorted(model["vocab"], key=model["vocab"].get), "<mask>"]
    known = RobertaTokenizer(
        vocab={token: i for i, token in enumerate(tokens)}, merges=[tuple(pair) for pair in model["merges"]]
    )
    return Vocabulary(known, len(known))


class TestSupport:
    def test_every_architecture_is_described(self) -> None:
        assert set(LEFT_OUT) == set(ARCHITECTURES)

    def test_words_leave_out_special_and_unused_tokens_and_nothing_else(
        self, architecture: str, mlm: MaskedLM
    ) -> None:
        words, everything = Support.words(mlm.vocabulary), Support.everything(mlm.vocabulary)
        left_out = set(everything.ids.tolist()) - set(words.ids.tolist())
        assert {mlm.vocabulary.token(i) for i in left_out} == LEFT_OUT[architecture]
        assert everything.ids.tolist() == list(range(len(mlm.tokenizer)))
        assert (words.name, everything.name) == ("words", "all")

    def test_an_index_is_the_place_of_a_token_in_the_table(self, mlm: MaskedLM) -> None:
        support = Support.words(mlm.vocabulary)
        assert [support.index(i) for i in support.ids.tolist()] == list(range(len(support)))
        assert support.ids[support.index("A")] == mlm.vocabulary.find("A")

    def test_many_tokens_keep_their_shape(self, mlm_of: Models) -> None:
        support = Support.words(mlm_of("bert").vocabulary)
        ids = support.ids[torch.tensor([[3, 1], [4, 1]])]
        assert support.indices(ids).tolist() == [[3, 1], [4, 1]]
        assert support.indices(["man", "dog"]).tolist() == [support.index("man"), support.index("dog")]
        assert support.indices("man").shape == ()

    @pytest.mark.parametrize(
        ("token", "message"),
        [
            ("[MASK]", r"'\[MASK\]' \(id 9\) is a special or unused token.*support 'all'"),
            (9, r"'\[MASK\]' \(id 9\) is a special or unused token.*support 'all'"),
            ("[unused3]", r"special or unused"),
            (-1, "-1 is no token of this model: expected an id from 0 to 87"),
            (88, "88 is no token of this model: expected an id from 0 to 87"),
            (2.5, "expected a token or its id, got 2.5"),
            (None, "expected a token or its id, got None"),
            ("xyzzy", r"'xyzzy' is 5 tokens for this model \(x ##y ##z ##z ##y\), but a blank holds one"),
            ("日", "'日' is not in the model's vocabulary"),
            ("", "'' is not in the model's vocabulary"),
        ],
    )
    def test_a_token_outside_the_support_is_refused(self, token: Any, message: str, mlm_of: Models) -> None:
        support = Support.words(mlm_of("bert").vocabulary)
        for ask in (support.index, support.indices):
            with pytest.raises(UsageError, match=message):
                ask(token)

    def test_a_support_of_the_likeliest_tokens_names_itself_when_it_lacks_one(self, mlm_of: Models) -> None:
        words = Support.words(mlm_of("bert").vocabulary)
        log_probs = torch.zeros(len(words))
        log_probs[[4, 2]] = 1.0
        few = words.likeliest(log_probs, 2, include=[words.ids[9]])
        assert few.ids.tolist() == words.ids[[2, 4, 9]].tolist()
        with pytest.raises(
            UsageError, match=r"'man' \(id 45\) is not among the 3 likeliest tokens.*take more"
        ):
            few.index("man")
        with pytest.raises(UsageError, match="special or unused"):
            few.index("[MASK]")

    def test_the_support_of_everything_holds_the_special_tokens(self, mlm_of: Models) -> None:
        assert Support.everything(mlm_of("bert").vocabulary).index("[MASK]") == 9

    def test_a_table_without_a_vocabulary_knows_indices_only(self) -> None:
        support = Support.numbered(4)
        assert support.index(3) == 3
        with pytest.raises(UsageError, match="'man' means nothing to it: give an index"):
            support.index("man")
        with pytest.raises(UsageError, match="4 is outside this table: expected an index from 0 to 3"):
            support.index(4)

    def test_a_vocabulary_of_special_tokens_alone_leaves_no_words(self) -> None:
        tokenizer = BertTokenizer(vocab={token: i for i, token in enumerate(BERT_SPECIALS)})
        with pytest.raises(UsageError, match=r"nothing but special and unused tokens.*'all'"):
            Support.words(Vocabulary(tokenizer, len(tokenizer)))


class TestFind:
    @pytest.mark.parametrize("name", [name for name in ARCHITECTURES if name != "esm"])
    def test_a_bare_word_is_the_token_that_starts_a_word(self, name: str, mlm_of: Models) -> None:
        vocabulary = mlm_of(name).vocabulary
        assert vocabulary.start_mark == START_MARKS.get(name)
        expected = START_MARKS.get(name, "") + "man"
        assert vocabulary.token(vocabulary.find("man")) == expected
        assert vocabulary.find(expected) == vocabulary.find("man") == vocabulary.find(" man")

    @pytest.mark.parametrize(
        ("name", "text", "token"),
        [
            ("bert", "##ing", "##ing"),
            ("bert", "Man", "man"),  # uncased: the tokenizer would read it so
            ("bert-cased", "Bill", "Bill"),
            ("roberta", "ing", "ing"),
            ("roberta", "The", "ĠThe"),
            ("xlm-roberta", "ing", "ing"),
            ("albert", "Man", "▁man"),
            ("modernbert", ".", "."),
            ("esm", "K", "K"),
            ("esm", "<mask>", "<mask>"),
        ],
    )
    def test_each_tokenizers_spelling_is_known(
        self, name: str, text: str, token: str, mlm_of: Models
    ) -> None:
        vocabulary = mlm_of(name).vocabulary
        assert vocabulary.token(vocabulary.find(text)) == token

    def test_a_byte_level_word_is_found_by_its_letters(self) -> None:
        vocabulary = byte_level("café", "man")
        assert vocabulary.token(vocabulary.find("café")) == "ĠcafÃ©"
        assert vocabulary.surface(vocabulary.find("café")) == "café"

    @pytest.mark.parametrize("name", [name for name in ARCHITECTURES if name != "esm"])
    def test_a_word_of_several_tokens_is_refused_with_its_pieces(self, name: str, mlm_of: Models) -> None:
        with pytest.raises(UsageError, match=r"'playing' is 2 tokens.*play.*ing.*one blank for each token"):
            mlm_of(name).vocabulary.find("playing")

    @pytest.mark.parametrize("half", ["\ud800", "man\udfff"])
    def test_half_a_character_is_refused_in_words_that_can_be_printed(
        self, half: str, mlm_of: Models
    ) -> None:
        for name in ("bert", "roberta"):
            with pytest.raises(UsageError, match="not valid Unicode") as refusal:
                mlm_of(name).vocabulary.find(half)
            str(refusal.value).encode()


class TestSpelling:
    def test_only_marked_tokens_go_on_inside_a_word(self, mlm_of: Models) -> None:
        bert, roberta, esm = (mlm_of(name).vocabulary for name in ("bert", "roberta", "esm"))
        inside = [(bert, "##ing"), (roberta, "ing"), (roberta, ".")]
        starting = [(bert, "man"), (roberta, "man"), (bert, "[MASK]"), (roberta, "<mask>"), (esm, "K")]
        assert all(v.goes_on_inside_a_word(v.find(t)) for v, t in inside)
        assert not any(v.goes_on_inside_a_word(v.find(t)) for v, t in starting)

    def test_a_token_looks_in_a_text_as_it_is_written(self, mlm_of: Models) -> None:
        shown = [
            mlm_of(name).vocabulary.surface(mlm_of(name).vocabulary.find(token))
            for name, token in [
                ("bert", "##ing"),
                ("roberta", "man"),
                ("xlm-roberta", "man"),
                ("esm", "<mask>"),
            ]
        ]
        assert shown == ["ing", "man", "man", "<mask>"]


class TestSize:
    def test_outputs_beyond_the_tokenizer_are_cut(self, mlm: MaskedLM) -> None:
        tokens = len(mlm.tokenizer)
        assert Vocabulary(mlm.tokenizer, tokens + 7).size == tokens
        assert Vocabulary(mlm.tokenizer, tokens - 3).size == tokens - 3

    def test_holes_in_the_numbering_are_unused_and_cut_nothing_off(self) -> None:
        tokens = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "man": 6, "dog": 9}
        vocabulary = Vocabulary(BertTokenizer(vocab=tokens), 10)
        assert vocabulary.size == 10
        assert Support.words(vocabulary).ids.tolist() == [6, 9]
        assert vocabulary.token(8) == "<8>"

    def test_special_tokens_added_later_are_special(self) -> None:
        tokenizer = BertTokenizer(vocab={token: i for i, token in enumerate([*BERT_SPECIALS, "man"])})
        tokenizer.add_tokens([AddedToken("[E1]", special=True), AddedToken("fish", special=False)])
        words = Support.words(Vocabulary(tokenizer, len(tokenizer)))
        assert [tokenizer.convert_ids_to_tokens(i) for i in words.ids.tolist()] == ["man", "fish"]
