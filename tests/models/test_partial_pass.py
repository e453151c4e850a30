"""Partial passes: two positions computed anew, and the rest of the text as it was with both masked."""

import pytest
import torch

import unmask
from tiny import save_tiny
from unmask.models.engine import read_encoder
from unmask.models.partial_pass import FrozenText, active_positions
from unmask.text.cloze import parse_blanks

TEXT = "the [MASK] is [MASK] at the casino ."


@pytest.fixture(scope="module", params=["bert", "roberta", "distilbert", "albert"])
def mlm(request, tmp_path_factory):
    return unmask.load(save_tiny(request.param, tmp_path_factory.mktemp(request.param)))


def frozen_twin(layers, context, own, active, changed, asked):
    """The plain way: whole layers over the whole text, the frozen positions put back after each."""
    masked = context[None]
    x = context.repeat(len(own), 1, 1)
    x[:, changed] = own
    for layer in layers:
        masked, new = layer(masked), layer(x)
        x = masked.repeat(len(own), 1, 1)
        x[:, active] = new[:, active]
    return x[:, asked]


@pytest.mark.parametrize(
    ("length", "active"), [(2, [0, 1]), (3, [0, 2]), (7, [1, 4]), (9, [0, 1, 2, 5, 6, 8])]
)
@pytest.mark.parametrize("backwards", [False, True])
def test_a_partial_pass_is_whole_layers_with_the_rest_put_back(mlm, length, active, backwards):
    changed, asked = (active[-1], active[0]) if backwards else (active[0], active[-1])
    layers = read_encoder(mlm.model).layers
    generator = torch.Generator().manual_seed(0)
    features = layers[0].query.in_features
    context, own = (torch.randn(n, features, generator=generator) for n in (length, 5))
    with torch.inference_mode():
        found = FrozenText(layers, context, active)(own, changed, asked)
        torch.testing.assert_close(found, frozen_twin(layers, context, own, active, changed, asked))


def test_with_every_position_active_it_is_a_whole_pass(mlm):
    """Nothing is frozen then, so that nothing is approximated."""
    encoder = read_encoder(mlm.model)
    generator = torch.Generator().manual_seed(1)
    features = encoder.layers[0].query.in_features
    context, own = (torch.randn(n, features, generator=generator) for n in (5, 4))
    with torch.inference_mode():
        partial = FrozenText(encoder.layers, context, range(5))(own, 0, 3)
        torch.testing.assert_close(partial, encoder(context, own, 0, 3))


@pytest.mark.parametrize(
    ("length", "blanks", "expected"),
    [
        (5, (1, 2), None),
        (6, (1, 2), [1, 2]),
        (31, (4, 3), [3, 4]),
        (32, (3, 4), [2, 3, 4, 5]),
        (47, (3, 20), [3, 20]),
        (48, (3, 20), [2, 3, 4, 19, 20, 21]),
        (48, (0, 20), [0, 1, 19, 20, 21]),
    ],
)
def test_a_long_text_has_the_neighbours_computed_too(length, blanks, expected):
    assert active_positions(length, blanks) == expected


def test_the_masked_token_itself_gives_the_state_with_both_masked(mlm):
    cloze = parse_blanks(TEXT, mlm.vocabulary, mlm.window)
    mask = torch.tensor([mlm.tokenizer.mask_token_id])
    partial = mlm.partial_states(cloze, (0, mask))[0]
    masked = mlm.states_at(torch.tensor([cloze.ids]), cloze.blanks)[0, 1:]
    torch.testing.assert_close(partial, masked, atol=1e-5, rtol=1e-4)


def test_partial_passes_come_near_to_whole_ones_where_a_model_has_learned_something():
    mlm = unmask.load()
    cloze = parse_blanks("Two [MASK] are [MASK] in the park.", mlm.vocabulary, mlm.window)
    tokens = mlm.logits(torch.tensor([cloze.ids]), cloze.blanks[0])[0].topk(50).indices
    whole = mlm.filled_states(cloze, 0, tokens, cloze.blanks[1])
    partial = mlm.partial_states(cloze, (0, tokens))[0]
    masked = mlm.states_at(torch.tensor([cloze.ids]), cloze.blanks)[0, 1]

    def divergence(states):
        p, q = (mlm.decode(x).log_softmax(-1) for x in (whole, states))
        return float((p.exp() * (p - q)).sum(-1).mean())

    assert divergence(partial) < 0.3 * divergence(masked.expand_as(whole))
