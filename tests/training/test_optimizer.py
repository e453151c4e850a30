"""The optimiser: which parameters are in which group, and that it can be saved and restored."""

import torch
from transformers import AutoConfig, AutoModelForMaskedLM

from unmask.training.loop import build_optimizer
from unmask.training.settings import Settings


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


def test_a_restored_optimizer_goes_on_as_if_nothing_had_happened():
    settings = Settings()
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
    groups = build_optimizer(network, Settings()).param_groups
    members = [id(weight) for group in groups for weight in group["params"]]
    assert sorted(members) == sorted(id(weight) for weight in network.parameters())
    for group in groups:
        assert all((weight.dim() > 1) == (group["weight_decay"] > 0) for weight in group["params"])


def test_the_encoder_has_its_own_learning_rate():
    network = model()
    lr = {
        id(weight): group["lr"]
        for group in build_optimizer(network, Settings(encoder_lr=2e-4, head_lr=7e-4)).param_groups
        for weight in group["params"]
    }
    for name, weight in network.named_parameters():
        assert lr[id(weight)] == (2e-4 if "encoder.layer" in name else 7e-4)
