"""Linear layers by oneDNN, held to torch's own."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from unmask import linear_layers
from unmask.linear_layers import FEWEST_ROWS, SIZES, FastLinear, for_inference

SHAPES = [(7,), (0, 7), (1, 7), (9, 7), (16, 7), (17, 7), (3, 5, 7), (2, 0, 7), (SIZES[-1] + 9, 7)]


@pytest.fixture(params=["onednn", "torch"])
def way(request, monkeypatch):
    """Both libraries, whichever is faster here; a test of the server may have switched oneDNN off."""
    if request.param == "onednn" and not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        pytest.skip("this torch has no oneDNN")
    monkeypatch.setattr(linear_layers, "onednn_is_faster", lambda: request.param == "onednn")
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", True)
    return request.param


def layer_of(bias: bool = True, dtype: torch.dtype = torch.float32, outputs: int = 4) -> FastLinear:
    torch.manual_seed(0)
    return FastLinear(7, outputs, bias=bias, dtype=dtype)


@pytest.fixture
def products(monkeypatch):
    """The numbers of rows that oneDNN is given, while the test runs."""
    rows, product = [], torch.ops.mkldnn._linear_pointwise
    monkeypatch.setattr(
        torch.ops.mkldnn, "_linear_pointwise", lambda x, *rest: rows.append(len(x)) or product(x, *rest)
    )
    return rows


@pytest.mark.usefixtures("way")
class TestLikeTorch:
    @torch.inference_mode()
    @pytest.mark.parametrize("shape", SHAPES)
    @pytest.mark.parametrize("bias", [True, False])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
    def test_any_shape_with_and_without_a_bias(self, shape, bias, dtype):
        layer, x = layer_of(bias, dtype), torch.randn(shape).to(dtype)
        expected = functional.linear(x, layer.weight, layer.bias)
        torch.testing.assert_close(layer(x), expected, atol=1e-6, rtol=1e-6)
        torch.testing.assert_close(layer.gelu(x), functional.gelu(expected), atol=1e-6, rtol=1e-6)

    @torch.inference_mode()
    def test_parts_of_other_tensors(self):
        layer, x = layer_of(), torch.randn(6, 9, 14)[:, ::2, 3:10]
        expected = functional.linear(x.contiguous(), layer.weight, layer.bias)
        torch.testing.assert_close(layer(x), expected, atol=1e-6, rtol=1e-6)

    @torch.inference_mode()
    def test_no_row_knows_of_another(self):
        layer, x = layer_of(), torch.randn(40, 7)
        hurt = x.clone()
        hurt[-1] = torch.nan
        torch.testing.assert_close(layer(hurt)[:-1], layer(x)[:-1], atol=0, rtol=0)

    @pytest.mark.parametrize("learned", ["x", "weight", "bias"])
    def test_gradients_of_each(self, learned):
        layer, x = layer_of().requires_grad_(False), torch.randn(20, 7)
        leaf = x if learned == "x" else getattr(layer, learned)
        leaf.requires_grad_()
        layer(x).square().sum().backward()
        found, leaf.grad = leaf.grad, None
        functional.linear(x, layer.weight, layer.bias).square().sum().backward()
        torch.testing.assert_close(found, leaf.grad)

    @pytest.mark.parametrize("without_gradients", [True, False])
    def test_derivatives_forward(self, without_gradients):
        layer, x, direction = layer_of().requires_grad_(False), torch.randn(20, 7), torch.randn(20, 7)
        with torch.set_grad_enabled(not without_gradients):
            _, found = torch.func.jvp(layer, (x,), (direction,))
        torch.testing.assert_close(found, functional.linear(direction, layer.weight))

    @torch.inference_mode()
    def test_autocast(self):
        with torch.autocast("cpu", torch.bfloat16):
            assert layer_of()(torch.randn(20, 7)).dtype == torch.bfloat16


@pytest.mark.parametrize("way", ["onednn"], indirect=True)
class TestOnednn:
    @torch.inference_mode()
    def test_it_is_given_few_shapes(self, way, products):
        layer = layer_of()
        for rows in range(SIZES[-1] + 200):
            layer(torch.zeros(rows, 7))
        assert set(products) == set(SIZES)

    @torch.inference_mode()
    def test_few_rows_and_what_the_user_switched_off_are_left_to_torch(self, way, products, monkeypatch):
        layer = layer_of()
        layer(torch.zeros(FEWEST_ROWS - 1, 7))
        assert not products
        layer(torch.zeros(FEWEST_ROWS, 7))
        assert products == [SIZES[0]]
        monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
        layer(torch.zeros(FEWEST_ROWS, 7))
        assert products == [SIZES[0]]


@pytest.mark.usefixtures("way")
def test_a_model_for_inference_has_the_same_weights_and_the_same_answers():
    model = nn.Sequential(nn.Linear(7, 5), nn.Dropout(), nn.Linear(5, 2, bias=False))
    weights, x = model.state_dict(), torch.randn(20, 7)
    expected = model.eval()(x)
    ready = for_inference(model.train())
    assert not any(part.training for part in ready.modules())
    assert not any(weight.requires_grad for weight in ready.parameters())
    assert all(ready.state_dict()[name].data_ptr() == weight.data_ptr() for name, weight in weights.items())
    with torch.inference_mode():
        torch.testing.assert_close(ready(x), expected, atol=1e-6, rtol=1e-6)


def test_adapted_layers_are_left_alone(monkeypatch):
    monkeypatch.setattr(linear_layers, "onednn_is_faster", lambda: True)

    class Adapted(nn.Linear):
        pass

    model = for_inference(nn.Sequential(Adapted(3, 3), nn.Linear(3, 3)))
    assert [type(part) for part in model] == [Adapted, FastLinear]
