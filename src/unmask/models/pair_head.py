"""PairHead: what a blank would say if another one were filled, from one pass with both masked.

A small network, trained once per checkpoint (`unmask distill`), predicts the state before the output layer at
blank B when blank A holds the token a, from what the model left at both when both were masked:

    h_B(a) = h_B + s(d) * g(h_A, h_B, d) * f(h_A, h_B, e(a), d)

e(a) is the input embedding of a, standardised; d is how many tokens B lies behind A; f has a bilinear term in
the states and e(a), and a hidden layer; g is a learned gate between 0 and 1, and s(d) one fitted afterwards
on held-out text, so that the head does nothing at distances at which it has learned nothing. The state then
goes through the model's own output layer. Two states and a token in, a conditional out: no further pass.

A head belongs to the weights that it was trained with. Its file is a safetensors file of half precision
with the digest of those weights, and with the error that it had on held-out text, by distance
(`PairHeadCard`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from unmask.errors import RunError, UsageError
from unmask.linear_layers import for_inference
from unmask.models.digests import parameters_digest
from unmask.values import shown

FILE = "pair_head.safetensors"
FORMAT = "unmask pair head 1"
FARTHEST = 32
"""Distances beyond this count as this."""


@dataclass(frozen=True)
class HeldOut:
    """The error of a head on held-out text at one distance.

    Attributes:
        distance: tokens from one blank to the other.
        pairs: how many conditionals it was measured on.
        kl: mean KL divergence of the model's conditional from the predicted one, in nats.
        kl_without: the same without the head: of the answer with both blanks masked.
        shift: mean absolute error of the log-probability of the true token, in nats.
    """

    distance: int
    pairs: int
    kl: float
    kl_without: float
    shift: float


@dataclass(frozen=True)
class PairHeadCard:
    """Where a head comes from: the model, its weights' digest, the training, the held-out error."""

    model: str
    weights: str
    hidden_size: int
    width: int
    training: Mapping[str, Any]
    held_out: tuple[HeldOut, ...]

    def at(self, distance: int) -> HeldOut:
        """Return the held-out error at a distance, or at the nearest one that was measured."""
        return min(self.held_out, key=lambda entry: abs(entry.distance - abs(distance)))

    def to_dict(self) -> dict[str, Any]:
        """Return the card as plain data."""
        return asdict(self)


class PairHead(nn.Module):
    """The network; `forward` predicts states, `card` says where it comes from.

    Args:
        hidden_size: features of the model's states.
        embedding_size: features of the model's input embeddings.
        width: features of the hidden layers.
    """

    card: PairHeadCard | None = None
    scale: Tensor
    embedding_mean: Tensor
    embedding_std: Tensor

    def __init__(self, hidden_size: int, embedding_size: int, width: int = 768) -> None:
        super().__init__()
        self.width, self.shape = width, (hidden_size, embedding_size, width)
        self.norm_there, self.norm_here = nn.LayerNorm(hidden_size), nn.LayerNorm(hidden_size)
        self.context = nn.Linear(2 * hidden_size, 2 * width)
        self.token = nn.Linear(embedding_size, 2 * width)
        self.distance = nn.Embedding(2 * FARTHEST + 1, width)
        self.gate = nn.Linear(width, 1)
        self.hidden = nn.Linear(width, width)
        self.out = nn.Linear(width, hidden_size)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)
        self.register_buffer("scale", torch.ones(2 * FARTHEST + 1))
        self.register_buffer("embedding_mean", torch.zeros(embedding_size))
        self.register_buffer("embedding_std", torch.ones(embedding_size))

    def forward(self, there: Tensor, here: Tensor, embeddings: Tensor, distance: Tensor) -> Tensor:
        """Predict the states at one blank once another one is filled.

        Args:
            there: states at the blank that is filled, all blanks masked, [..., features].
            here: states at the blank that is asked, likewise.
            embeddings: input embeddings of the tokens that are filled in, [..., embedding features].
            distance: how many tokens the asked blank lies behind the filled one, [...].
        """
        where = distance.clamp(-FARTHEST, FARTHEST) + FARTHEST
        states = torch.cat([self.norm_there(there), self.norm_here(here)], -1)
        shift, factor = self.context(states).chunk(2, -1)
        own, product = self.token((embeddings - self.embedding_mean) / self.embedding_std).chunk(2, -1)
        seen = shift + self.distance(where)
        x = functional.gelu(seen + own + factor * product)
        x = x + functional.gelu(self.hidden(x))
        size = torch.sigmoid(self.gate(functional.gelu(seen)) + 2) * self.scale[where][..., None]
        moved: Tensor = here + size * self.out(x)
        return moved

    @torch.inference_mode()
    def states(self, there: Tensor, here: Tensor, embeddings: Tensor, distance: int) -> Tensor:
        """Predict for one pair of blanks and many tokens: states [features] each, [tokens, features]."""
        found: Tensor = self(
            there[None], here[None], embeddings, torch.tensor([distance], device=there.device)
        )
        return found


def save_pair_head(head: PairHead, path: Path) -> None:
    """Write a head with its card, in half precision."""
    from safetensors.torch import save

    assert head.card is not None
    metadata = {FORMAT: json.dumps(head.card.to_dict())}  # one entry: several would be in a random order
    weights = {name: value.half().contiguous() for name, value in head.state_dict().items()}
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(save(weights, metadata=metadata))
    partial.replace(path)


def how_to_make(name: str) -> str:
    """Return the remedy of whoever has no head for a model."""
    return f"make one with unmask distill --model {name} --corpus NAME=FILE --out DIRECTORY"


def pair_head_file(path: Path) -> Path:
    """Return the file of a head: the one in a directory, or the path itself."""
    return path / FILE if path.is_dir() else path


def read_pair_head(path: Path) -> PairHead:
    """Read a head from its file or its directory, whatever model it is of."""
    from safetensors import SafetensorError, safe_open

    path = pair_head_file(path)
    if not path.is_file():
        raise UsageError(f"no pair head at {path}: {how_to_make('MODEL')}")
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            if FORMAT not in metadata:
                raise UsageError(f"{path} is no pair head: expected what unmask distill writes")
            weights = {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118
        said = json.loads(metadata[FORMAT])
        held_out = tuple(HeldOut(**entry) for entry in said.pop("held_out"))
        card = PairHeadCard(**said, held_out=held_out)
        head = PairHead(card.hidden_size, len(weights["embedding_mean"]), card.width)
        head.load_state_dict(weights)
    except UsageError:
        raise
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError, OSError):
        raise RunError(f"{path} is damaged: get it anew, or make it with unmask distill") from None
    if not held_out or not all(bool(torch.isfinite(value).all()) for value in weights.values()):
        raise RunError(f"{path} is damaged: get it anew, or make it with unmask distill")
    head.card = card
    return for_inference(head)


def check_belongs(head: PairHead, model: nn.Module, path: Path, name: str) -> None:
    """Raise unless the head was trained with these very weights."""
    assert head.card is not None
    if head.card.weights != parameters_digest(model):
        raise UsageError(
            f"the pair head {path} belongs to other weights (of '{head.card.model}') than those of '{name}': "
            f"{how_to_make(name)}"
        )


def find_pair_head(
    model: nn.Module, name: str, directory: Path | None, wanted: str | Path | None
) -> PairHead | None:
    """Read the head that goes with a model, if there is one in its directory or one is named."""
    if wanted is not None and not isinstance(wanted, str | Path):
        raise UsageError(f"pair_head: expected auto, a file, a directory or None, got {shown(wanted)}")
    beside = None if directory is None else directory / FILE
    if wanted is None or (wanted == "auto" and (beside is None or not beside.is_file())):
        return None
    path = beside if wanted == "auto" and beside is not None else Path(wanted)
    path = pair_head_file(path)
    head = read_pair_head(path)
    check_belongs(head, model, path, name)
    return head.to(next(model.parameters()).device)


def held_out_errors(distances: Tensor, kl: Tensor, kl_without: Tensor, shift: Tensor) -> tuple[HeldOut, ...]:
    """Average errors [pairs] by distance [pairs]."""
    entries: Sequence[int] = distances.abs().unique().tolist()
    found = []
    for distance in entries:
        of = distances.abs() == distance
        values = (float(x[of].mean()) for x in (kl, kl_without, shift))
        found.append(HeldOut(int(distance), int(of.sum()), *values))
    return tuple(found)
