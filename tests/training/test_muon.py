"""Muon: the step is the orthogonal factor, head by head, and the optimiser can be saved and restored."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForMaskedLM

from unmask.errors import UsageError
from unmask.training.muon import Muon, orthogonal_factor
from unmask.training.optimizer import build_optimizer
from unmask.training.settings import Settings


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 6, 20)])
def test_the_factor_has_the_singular_vectors_and_nearly_unit_singular_values(shape):
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    factor = orthogonal_factor(matrices)
    left, _, right = torch.linalg.svd(matrices, full_matrices=False)
    core = left.mT @ factor @ right.mT
    values = torch.diagonal(core, dim1=-2, dim2=-1)
    assert (values > 0.3).all()
    assert (values < 1.3).all()
    assert (core - torch.diag_embed(values)).abs().max() < 1e-3


def test_a_step_has_the_size_of_an_adam_step():
    weight = torch.nn.Parameter(torch.zeros(32, 64))
    weight.grad = torch.randn(32, 64, generator=torch.Generator().manual_seed(1))
    Muon([{"params": [weight]}], lr=1e-2).step()
    assert 0.1e-2 < weight.square().mean().sqrt() < 0.3e-2


def test_heads_are_orthogonalised_each_by_itself():
    gradient = torch.randn(4, 8, generator=torch.Generator().manual_seed(2))
    gradient[:2] *= 1000  # one head must not drown the other
    weight = torch.nn.Parameter(torch.zeros(4, 8))
    weight.grad = gradient
    Muon([{"params": [weight], "heads": 2}], lr=1.0).step()
    first, second = weight.detach()[:2].norm(), weight.detach()[2:].norm()
    assert 0.7 < first / second < 1.4
    turned = torch.nn.Parameter(torch.zeros(8, 4))
    turned.grad = gradient.T.contiguous()
    Muon([{"params": [turned], "heads": -2}], lr=1.0).step()
    torch.testing.assert_close(turned.detach().T, weight.detach())


def model(kind="bert"):
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    config = AutoConfig.for_model(kind, vocab_size=30, max_position_embeddings=16, **shape)
    return AutoModelForMaskedLM.from_config(config).eval()


def step(network, optimizer, seed):
    ids = torch.randint(5, 30, (2, 8), generator=torch.Generator().manual_seed(seed))
    network(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_a_restored_optimizer_goes_on_as_if_nothing_had_happened(name):
    settings = Settings(optimizer=name)
    unbroken = model()
    optimizer = build_optimizer(unbroken, settings)
    for seed in range(3):
        step(unbroken, optimizer, seed)
    weights = {key: value.clone() for key, value in unbroken.state_dict().items()}
    saved = torch.load(_saved(optimizer), weights_only=True)
    step(unbroken, optimizer, 3)
    resumed = model()
    resumed.load_state_dict(weights)
    again = build_optimizer(resumed, settings)
    again.load_state_dict(saved)
    step(resumed, again, 3)
    for left, right in zip(unbroken.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(left, right)


def _saved(optimizer):
    import io

    stream = io.BytesIO()
    torch.save(optimizer.state_dict(), stream)
    stream.seek(0)
    return stream


def test_every_parameter_is_in_one_group_and_only_matrices_decay():
    network = model()
    for name in ("adamw", "muon"):
        groups = build_optimizer(network, Settings(optimizer=name)).param_groups
        members = [id(weight) for group in groups for weight in group["params"]]
        assert sorted(members) == sorted(id(weight) for weight in network.parameters())
        for group in groups:
            assert all((weight.dim() > 1) == (group["weight_decay"] > 0) for weight in group["params"])


def test_muon_for_an_unknown_architecture_is_refused():
    network = model()
    network.config.model_type = "other"
    with pytest.raises(UsageError, match="use adamw"):
        build_optimizer(network, Settings(optimizer="muon"))
