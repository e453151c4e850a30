"""Reaching into a forward pass leaves the model as it was."""

import pytest
import torch
from torch import Tensor, nn

from unmask.models.hooks import input_of, output_cut, output_given


class Encoder(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor]:
        return (2 * x,)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.head, self.idle = Encoder(), nn.Identity(), nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(x)[0])  # type: ignore[no-any-return]


X = torch.arange(12.0).reshape(2, 3, 2)


def test_the_input_of_a_module_is_caught() -> None:
    model = Model()
    found = input_of(model.head, lambda: model(X))
    assert found is not None
    torch.testing.assert_close(found, 2 * X)


def test_a_module_that_is_not_reached_has_no_input() -> None:
    model = Model()
    assert input_of(model.idle, lambda: model(X)) is None


def test_the_output_is_cut_to_positions_for_a_while() -> None:
    model = Model()
    with output_cut(model.encoder, [2, 0]):
        torch.testing.assert_close(model(X), 2 * X[:, [2, 0]])
    torch.testing.assert_close(model(X), 2 * X)


def test_an_output_is_given_for_a_while() -> None:
    model = Model()
    with output_given(model.encoder, X):
        torch.testing.assert_close(model(X[:1]), X)
        assert model.encoder(X).last_hidden_state is X
    torch.testing.assert_close(model(X), 2 * X)


def test_the_model_is_as_it_was_after_an_error_too() -> None:
    model = Model()
    with pytest.raises(ZeroDivisionError), output_cut(model.encoder, [0]), output_given(model.encoder, X):
        1 / 0  # noqa: B018
    torch.testing.assert_close(model(X), 2 * X)
    with pytest.raises(TypeError):
        input_of(model.head, lambda: model("text", "and more"))
    torch.testing.assert_close(model(X), 2 * X)


def test_a_forward_that_others_have_put_there_comes_back() -> None:
    model = Model()
    model.encoder.forward = lambda x: (3 * x,)  # type: ignore[method-assign, assignment]
    with output_given(model.encoder, X):
        torch.testing.assert_close(model(X), X)
    torch.testing.assert_close(model(X), 3 * X)
