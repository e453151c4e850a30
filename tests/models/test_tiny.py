"""The tiny models that the other tests stand on are what they claim to be."""

from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForMaskedLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from tiny import ARCHITECTURES, CASED_WORDS, SUFFIXES, WINDOW, WORDS, save_causal, save_tiny, sentence


class Traits(NamedTuple):
    """What a checkpoint of an architecture is known by; ids below 0 count from the vocabulary's end."""

    model: str
    tokenizer: str
    first: str
    last: str
    pad_id: int
    mask_id: int


TRAITS = {
    "bert": Traits("BertForMaskedLM", "BertTokenizer", "[CLS]", "[SEP]", 0, 9),
    "bert-cased": Traits("BertForMaskedLM", "BertTokenizer", "[CLS]", "[SEP]", 0, 9),
    "roberta": Traits("RobertaForMaskedLM", "RobertaTokenizer", "<s>", "</s>", 1, -1),
    "xlm-roberta": Traits("XLMRobertaForMaskedLM", "XLMRobertaTokenizer", "<s>", "</s>", 1, -1),
    "albert": Traits("AlbertForMaskedLM", "AlbertTokenizer", "[CLS]", "[SEP]", 0, 4),
    "distilbert": Traits("DistilBertForMaskedLM", "DistilBertTokenizer", "[CLS]", "[SEP]", 0, 9),
    "electra": Traits("ElectraForMaskedLM", "BertTokenizer", "[CLS]", "[SEP]", 0, 9),
    "mpnet": Traits("MPNetForMaskedLM", "MPNetTokenizer", "<s>", "</s>", 1, -1),
    "modernbert": Traits("ModernBertForMaskedLM", "TokenizersBackend", "[CLS]", "[SEP]", -7, -6),
    "esm": Traits("EsmForMaskedLM", "EsmTokenizer", "<cls>", "<eos>", 1, -1),
}
CASED = {"bert-cased", "roberta", "xlm-roberta", "modernbert"}
OF_TEXT = [name for name in ARCHITECTURES if name != "esm"]
LIMITED_BY_A_TABLE = [name for name in ARCHITECTURES if name not in {"modernbert", "esm"}]
A, B = 3, 7  # positions of two blanks in the sentence


class Checkpoint(NamedTuple):
    name: str
    path: Path
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase


def load(path: Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    model = AutoModelForMaskedLM.from_pretrained(path, local_files_only=True)
    return model.eval(), AutoTokenizer.from_pretrained(path, local_files_only=True)


@pytest.fixture(scope="module", params=ARCHITECTURES)
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    path = save_tiny(request.param, tmp_path_factory.mktemp(request.param))
    return Checkpoint(request.param, path, *load(path))


def a_given_b(checkpoint: Checkpoint, b: torch.Tensor) -> torch.Tensor:
    """The distributions at A, masked, for each filling of B: [len(b), outputs]."""
    text = checkpoint.tokenizer(sentence(checkpoint.name), return_tensors="pt")["input_ids"]
    ids = text.repeat(len(b), 1)
    ids[:, A] = checkpoint.tokenizer.mask_token_id
    ids[:, B] = b
    with torch.no_grad():
        return checkpoint.model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[:, A].softmax(-1)


def test_every_architecture_is_described() -> None:
    assert tuple(TRAITS) == ARCHITECTURES


def test_a_saved_checkpoint_loads_as_its_own_kind(checkpoint: Checkpoint) -> None:
    traits = TRAITS[checkpoint.name]
    assert type(checkpoint.model).__name__ == traits.model
    assert type(checkpoint.tokenizer).__name__ == traits.tokenizer
    assert (checkpoint.path / "model.safetensors").exists()
    _, report = AutoModelForMaskedLM.from_pretrained(checkpoint.path, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]


def test_special_ids_lie_where_they_do_at_full_size(checkpoint: Checkpoint) -> None:
    traits, tokenizer = TRAITS[checkpoint.name], checkpoint.tokenizer
    assert tokenizer.pad_token_id == traits.pad_id % len(tokenizer)
    assert tokenizer.mask_token_id == traits.mask_id % len(tokenizer)
    assert checkpoint.model.config.pad_token_id == tokenizer.pad_token_id


def test_ids_are_consecutive_and_all_within_the_output_layer(checkpoint: Checkpoint) -> None:
    ids = sorted(checkpoint.tokenizer.get_vocab().values())
    assert ids == list(range(checkpoint.model.config.vocab_size))


def test_the_sentence_is_known_and_framed_by_special_tokens(checkpoint: Checkpoint) -> None:
    traits, tokenizer = TRAITS[checkpoint.name], checkpoint.tokenizer
    ids = tokenizer(sentence(checkpoint.name))["input_ids"]
    tokens = tokenizer.convert_ids_to_tokens(ids)
    assert len(ids) == 12
    assert (tokens[0], tokens[-1]) == (traits.first, traits.last)
    assert tokenizer.unk_token_id not in ids
    assert not set(ids[1:-1]) & set(tokenizer.all_special_ids)


def test_the_mask_is_recognised_inside_a_text(checkpoint: Checkpoint) -> None:
    tokenizer, mask = checkpoint.tokenizer, checkpoint.tokenizer.mask_token
    text = f"MK{mask}AY" if checkpoint.name == "esm" else f"The {mask} is at"
    ids = tokenizer(text)["input_ids"]
    whole = tokenizer(text.replace(mask, "T" if checkpoint.name == "esm" else "man"))["input_ids"]
    place = ids.index(tokenizer.mask_token_id)
    assert ids.count(tokenizer.mask_token_id) == 1
    assert ids[:place] + ids[place + 1 :] == whole[:place] + whole[place + 1 :]


@pytest.mark.parametrize("name", OF_TEXT)
def test_words_are_one_token_and_inflected_ones_are_two(name: str, tmp_path: Path) -> None:
    _, tokenizer = load(save_tiny(name, tmp_path))

    def length(word: str) -> int:
        return len(tokenizer(f"The {word}")["input_ids"]) - 3

    words = CASED_WORDS if name in CASED else WORDS
    assert {word: length(word) for word in words} == dict.fromkeys(words, 1)
    assert {suffix: length(f"walk{suffix}") for suffix in SUFFIXES} == dict.fromkeys(SUFFIXES, 2)
    same = tokenizer("The Bill")["input_ids"] == tokenizer("The bill")["input_ids"]
    assert same == (name not in CASED)


def test_what_the_model_says_of_a_blank_depends_on_the_other(checkpoint: Checkpoint) -> None:
    special = set(checkpoint.tokenizer.all_special_ids)
    p = a_given_b(checkpoint, torch.tensor([i for i in range(len(checkpoint.tokenizer)) if i not in special]))
    total_variation = torch.pdist(p, p=1) / 2
    entropy = torch.special.entr(p).sum(-1).mean()
    assert total_variation.mean() > 0.2
    assert 0.5 < entropy < torch.tensor(float(p.shape[-1])).log() - 1


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_extra_logits_widen_the_output_and_change_nothing_else(name: str, tmp_path: Path) -> None:
    exact, tokenizer = load(save_tiny(name, tmp_path / "exact"))
    wide, same_tokenizer = load(save_tiny(name, tmp_path / "wide", extra_logits=5))
    ids = tokenizer(sentence(name), return_tensors="pt")["input_ids"]
    with torch.no_grad():
        expected, widened = exact(input_ids=ids).logits, wide(input_ids=ids).logits
    assert same_tokenizer.get_vocab() == tokenizer.get_vocab()
    assert expected.shape[-1] == len(tokenizer)
    assert widened.shape[-1] == len(tokenizer) + 5
    torch.testing.assert_close(widened[..., :-5], expected)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_seed_decides_the_weights(name: str, tmp_path: Path) -> None:
    first, again, other = (
        load_file(save_tiny(name, tmp_path / str(i), seed=seed) / "model.safetensors")
        for i, seed in enumerate((0, 0, 1))
    )
    assert first.keys() == again.keys() == other.keys()
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not all(torch.equal(first[key], other[key]) for key in first)


def test_the_weights_are_saved_in_the_precision_asked_for(tmp_path: Path) -> None:
    model, _ = load(save_tiny("bert", tmp_path, dtype=torch.bfloat16))
    assert model.dtype == torch.bfloat16


@pytest.mark.parametrize("name", LIMITED_BY_A_TABLE)
def test_the_window_is_the_same_whatever_the_position_offset(name: str, tmp_path: Path) -> None:
    model, tokenizer = load(save_tiny(name, tmp_path))
    letter = tokenizer.convert_tokens_to_ids("a")
    model(input_ids=torch.full((1, WINDOW), letter))
    with pytest.raises((IndexError, RuntimeError)):
        model(input_ids=torch.full((1, WINDOW + 1), letter))


def test_a_causal_model_has_no_mask_token(tmp_path: Path) -> None:
    path = save_causal(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)
    assert tokenizer.mask_token is None
    assert len(tokenizer(sentence("roberta"))["input_ids"]) == 10
    with pytest.raises(ValueError, match="GPT2Config"):
        AutoModelForMaskedLM.from_pretrained(path, local_files_only=True)
