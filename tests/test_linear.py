"""Linear layers by oneDNN, held to torch's own."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from unmask import linear as module
from unmask.linear import FastLinear, for_inference, gelu_of_linear, linear

SHAPES = [(7,), (0, 7), (1, 7), (5, 7), (2, 3, 7), (2, 0, 7)]


@pytest.fixture(params=["here", "onednn"])
def way(request, monkeypatch):
    """What this processor is given, and oneDNN, which AMD's are given."""
    if request.param == "onednn":
        if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
            pytest.skip("this torch has no oneDNN")
        monkeypatch.setattr(module, "onednn_is_faster", lambda: True)


@pytest.mark.usefixtures("way")
class TestLikeTorch:
    @pytest.mark.parametrize("shape", SHAPES)
    @pytest.mark.parametrize("with_bias", [True, False])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_any_shape_with_and_without_a_bias(self, shape, with_bias, dtype):
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(shape, generator=generator, dtype=dtype)
        weight = torch.randn(4, 7, generator=generator, dtype=dtype)
        bias = torch.randn(4, generator=generator, dtype=dtype) if with_bias else None
        expected = functional.linear(x, weight, bias)
        torch.testing.assert_close(linear(x, weight, bias), expected, atol=1e-6, rtol=1e-6)
        torch.testing.assert_close(
            gelu_of_linear(x, weight, bias), functional.gelu(expected), atol=1e-6, rtol=1e-6
        )

    def test_parts_of_other_tensors(self):
        """A slice of positions, every other weight, a transposed weight: none of them contiguous."""
        generator = torch.Generator().manual_seed(1)
        x = torch.randn(6, 9, 8, generator=generator)[:, ::2]
        weights = torch.randn(10, 8, generator=generator)
        for weight in (weights[::2], weights[3:7], torch.randn(8, 5, generator=generator).T):
            torch.testing.assert_close(linear(x, weight), functional.linear(x, weight), atol=1e-5, rtol=1e-5)

    def test_gradients_flow_where_something_is_learned(self):
        layer = FastLinear(7, 4)
        layer(torch.randn(3, 7)).sum().backward()
        torch.testing.assert_close(layer.bias.grad, torch.full((4,), 3.0))


@pytest.mark.usefixtures("way")
def test_a_model_for_inference_has_the_same_weights_and_the_same_answers():
    model = nn.Sequential(nn.Linear(7, 5), nn.Dropout(), nn.Linear(5, 2, bias=False))
    weights, x = model.state_dict(), torch.randn(3, 7)
    expected = model.eval()(x)
    ready = for_inference(model.train())
    assert not any(part.training for part in ready.modules())
    assert not any(weight.requires_grad for weight in ready.parameters())
    assert all(ready.state_dict()[name].data_ptr() == weight.data_ptr() for name, weight in weights.items())
    torch.testing.assert_close(ready(x), expected, atol=1e-6, rtol=1e-6)


def test_adapted_layers_are_left_alone(monkeypatch):
    monkeypatch.setattr(module, "onednn_is_faster", lambda: True)

    class Adapted(nn.Linear):
        pass

    model = for_inference(nn.Sequential(Adapted(3, 3), nn.Linear(3, 3)))
    assert [type(part) for part in model] == [Adapted, FastLinear]
