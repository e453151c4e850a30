"""Vectors are the model's own hidden states, at the tokens of the unit and nowhere else."""

from functools import cache

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from tiny import ARCHITECTURES, WINDOW, save_causal, sentence
from unmask.embeddings.encoder import Encoder
from unmask.embeddings.layers import choose_layers
from unmask.errors import RunError, UsageError
from unmask.text.reading import Reader

TEXTS = ["The old man is playing at the casino.", "the dog walks", "a cat, a dog and the man", "the the the"]
PROTEINS = ["MKT AYIAKQR", "MKTAYI", "A A A"]


@pytest.fixture(scope="module")
def encoder_of(checkpoint):
    return cache(lambda name: Encoder.load(checkpoint(name), device="cpu"))


@pytest.fixture(scope="module")
def plain_of(checkpoint):
    return cache(lambda name: AutoModel.from_pretrained(checkpoint(name)).eval())


def texts_of(name):
    return PROTEINS if name == "esm" else TEXTS


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_words_vector_is_the_mean_of_the_states_of_exactly_its_tokens(name, encoder_of, plain_of):
    encoder, model = encoder_of(name), plain_of(name)
    reader = encoder.reader()
    for layer in range(encoder.depth + 1):
        vectors, readings = encoder.vectors(texts_of(name), layers=layer, reader=reader)
        expected = []
        for reading in readings:
            ids = torch.tensor([reader.with_special_tokens(reading.ids)])
            with torch.inference_mode():
                states = model(input_ids=ids, output_hidden_states=True).hidden_states[layer][0]
            bare = states[len(reader.prefix) :]
            expected += [torch.stack([bare[t] for t in unit.tokens]).mean(0) for unit in reading.units]
        np.testing.assert_allclose(vectors, torch.stack(expected).numpy(), atol=2e-5)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_text_is_framed_as_the_tokenizer_frames_it(name, encoder_of, checkpoint):
    reader = encoder_of(name).reader()
    tokenizer = AutoTokenizer.from_pretrained(checkpoint(name))
    assert (
        reader.with_special_tokens(reader.read(sentence(name)).ids) == tokenizer(sentence(name))["input_ids"]
    )


def test_the_pass_ends_at_the_deepest_layer_asked_for(encoder_of):
    encoder = encoder_of("roberta")
    ran = []
    handle = encoder._layer_list[1].register_forward_hook(lambda *_: ran.append(1))
    try:
        encoder.vectors(TEXTS, layers=1)
        assert not ran
        encoder.vectors(TEXTS, layers=2)
        assert ran
    finally:
        handle.remove()


@pytest.mark.parametrize("name", ["bert", "albert", "esm"])
def test_layers_are_combined_as_their_name_says(name, encoder_of):
    encoder = encoder_of(name)
    one, two = (encoder.vectors(texts_of(name), layers=i)[0] for i in (1, 2))
    mean = encoder.vectors(texts_of(name), layers="last4")[0]
    both = encoder.vectors(texts_of(name), layers="concat:1,2")[0]
    np.testing.assert_allclose(mean, (one + two) / 2, atol=1e-6)
    np.testing.assert_allclose(both, np.concatenate([one, two], axis=1), atol=1e-6)
    np.testing.assert_allclose(encoder.vectors(texts_of(name), layers=-1)[0], two, atol=1e-6)


def test_static_vectors_know_no_context(encoder_of):
    encoder = encoder_of("bert")
    vectors, (reading,) = encoder.vectors(["the dog the dog"], layers="static")
    np.testing.assert_array_equal(vectors[:2], vectors[2:])
    row = encoder.model.embeddings["word_embeddings"].weight[reading.ids[0]]
    np.testing.assert_allclose(vectors[0], row.numpy())
    contextual, _ = encoder.vectors(["the dog the dog"], layers=0)
    assert np.abs(contextual[0] - contextual[2]).max() > 1e-3  # positions are in layer 0


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_static_vectors_are_rows_of_the_embedding_matrix_however_wide(name, encoder_of, plain_of):
    encoder = encoder_of(name)
    matrix = plain_of(name).get_input_embeddings().weight.detach()
    vectors, readings = encoder.vectors(texts_of(name), layers="static")
    rows = [
        matrix[[reading.ids[t] for t in unit.tokens]].mean(0)
        for reading in readings
        for unit in reading.units
    ]
    np.testing.assert_allclose(vectors, torch.stack(rows).numpy(), atol=1e-6)


def test_sentences_are_pooled_by_mean_or_by_the_token_in_front(encoder_of, plain_of):
    encoder, model = encoder_of("roberta"), plain_of("roberta")
    ids = encoder.tokenizer(TEXTS[0], return_tensors="pt")
    with torch.inference_mode():
        states = model(**ids).last_hidden_state[0]
    mean, _ = encoder.vectors(TEXTS[:1], reader=encoder.reader(unit="sentence"))
    cls, _ = encoder.vectors(TEXTS[:1], reader=encoder.reader(unit="sentence", pooling="cls"))
    np.testing.assert_allclose(mean[0], states[1:-1].mean(0).numpy(), atol=1e-5)
    np.testing.assert_allclose(cls[0], states[0].numpy(), atol=1e-5)
    tokens, (reading,) = encoder.vectors(TEXTS[:1], reader=encoder.reader(unit="token"))
    np.testing.assert_allclose(tokens, states[1:-1].numpy(), atol=1e-5)
    assert [unit.name for unit in reading.units] == encoder.tokenizer.tokenize(TEXTS[0])
    places = encoder.tokenizer(TEXTS[0], add_special_tokens=False, return_offsets_mapping=True)
    assert [(unit.start, unit.end) for unit in reading.units] == list(map(tuple, places["offset_mapping"]))


def test_a_long_text_is_split_between_words_cut_or_refused(encoder_of):
    encoder = encoder_of("bert")
    room = WINDOW - 2
    words = ["playing"] * 45  # of two tokens each: the window would end inside none of 31
    split = encoder.reader().read_words(words)
    assert split.overlong
    assert split.pieces == [(0, room), (room, len(split.ids))]
    odd = encoder.reader().read_words(["the", *words])
    assert odd.pieces[0] == (0, room - 1)  # a word would have been cut in two
    vectors = encoder.vectors([words])[0]
    pieces = [encoder.vectors([part])[0] for part in (words[:31], words[31:])]
    np.testing.assert_allclose(vectors, np.concatenate(pieces), atol=1e-5)
    cut = encoder.reader(long="truncate").read_words(words)
    assert (len(cut.units), cut.vanished, cut.overlong) == (31, 0, True)
    with pytest.raises(UsageError, match="longer than the 62"):
        encoder.reader(long="refuse").read_words(words)
    whole = Reader(encoder.tokenizer, WINDOW).read("x" * 90)  # one word longer than the window
    assert max(end - start for start, end in whole.pieces) == room


def test_an_encoder_needs_no_head_but_all_its_layers(tmp_path, checkpoint):
    from safetensors.torch import load_file, save_file

    bare = tmp_path / "bare"
    AutoModel.from_pretrained(checkpoint("mpnet")).save_pretrained(bare)
    AutoTokenizer.from_pretrained(checkpoint("mpnet")).save_pretrained(bare)
    ours = Encoder.load(bare, device="cpu").vectors(TEXTS)[0]
    np.testing.assert_allclose(ours, Encoder.load(checkpoint("mpnet")).vectors(TEXTS)[0], atol=1e-6)
    weights = load_file(bare / "model.safetensors")
    kept = {name: weight for name, weight in weights.items() if "layer.1." not in name}
    save_file(kept, bare / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(RunError, match="lacks weights"):
        Encoder.load(bare)


def test_a_causal_model_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no masked-language-model head"):
        Encoder.load(save_causal(tmp_path))


@pytest.mark.parametrize("name", ["7", "-8", "best", "mean:9", "concat:"])
def test_unknown_layers_are_refused(name):
    with pytest.raises(UsageError):
        choose_layers(name, 6)


@pytest.mark.parametrize(
    "options", [{"unit": "line"}, {"pooling": "cls"}, {"unit": "sentence", "pooling": "first"}, {"long": "x"}]
)
def test_unknown_ways_of_reading_are_refused(options, encoder_of):
    with pytest.raises(UsageError):
        encoder_of("bert").reader(**options)
