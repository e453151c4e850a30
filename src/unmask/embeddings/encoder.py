"""Encoder: the vectors inside a masked language model, at any layer.

Texts of one length are read together, so nothing is padded and no pass computes what nobody asked for. The
states that enter a layer are captured by a hook, and the pass ends at the deepest layer asked for, where
the model has its layers in a list; whether the captured ones are the model's own hidden states is tried
out once, and if not the library's slower `output_hidden_states` is taken.
A plain BERT, such as the embedded model, is opened by light code of our own, anything else by transformers;
an encoder without a masked-language-model head will do, since the head is not used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unmask.embeddings.layers import STATIC, Layers, choose_layers
from unmask.models.checkpoint import open_encoder
from unmask.models.device import choose_device
from unmask.models.digests import weights_digest
from unmask.models.embedded import locate
from unmask.models.light import open_light
from unmask.models.light.tokenizer import LightTokenizer
from unmask.models.window import window_of
from unmask.progress import Progress, silent
from unmask.text.reading import Reader, Reading

TOKENS_PER_PASS = 4096


class _DeepestLayerReached(Exception):
    """Ends a pass at the deepest layer that was asked for."""


class Encoder:
    """An encoder with its tokenizer: token ids to states of every layer, texts to vectors.

    Args:
        model: a Hugging Face encoder (`...Model`, without a head) or the light one.
        tokenizer: the tokenizer that goes with it.
        name: what to call it in reports.
        device: `auto`, `cpu`, `cuda`, `mps`.
    """

    def __init__(self, model: Any, tokenizer: Any, *, name: str = "model", device: str = "auto") -> None:
        self.device = choose_device(device)
        self.model = model.to(self.device).eval()
        self.tokenizer, self.name = tokenizer, name
        self.window = window_of(model, tokenizer)
        self._light = isinstance(tokenizer, LightTokenizer)
        self.depth = int(model.config.num_hidden_layers)
        self._layer_list = self._find_layers()

    @classmethod
    def load(
        cls, source: str | Path = "english", *, device: str = "auto", allow_pickle: bool = False
    ) -> Encoder:
        """Open a checkpoint: `english` (embedded), a directory or a hub name."""
        place = locate(str(source))
        opened = open_light(place)
        if opened is None:
            opened = open_encoder(place, allow_pickle=allow_pickle)
        else:
            opened = (opened[0].base_model, opened[1])
            opened[0].config = _config_of(place)
        return cls(*opened, name=str(source), device=device)

    @property
    def width(self) -> int:
        """The features of a state."""
        config = self.model.config
        return int(getattr(config, "hidden_size", 0) or config.dim)

    def width_of(self, choice: Layers) -> int:
        """The features of a vector; the embedding matrix may be narrower than the states (as in ALBERT)."""
        if choice.numbers == (STATIC,):
            return int(self._words().weight.shape[1])
        return self.width * (len(choice.numbers) if choice.how == "concat" else 1)

    @property
    def weights(self) -> str | None:
        """A digest of the checkpoint's weights, None on the hub; what is fitted to them is for no others."""
        return weights_digest(self.name)

    def layers(self, name: str | int) -> Layers:
        """Return the layers that a name stands for in this encoder."""
        return choose_layers(name, self.depth)

    def reader(self, **options: Any) -> Reader:
        """Return a reader for this encoder; see `Reader` for the options."""
        return Reader(self.tokenizer, self.window, **options)

    @torch.inference_mode()
    def vectors(
        self,
        texts: Iterable[str | Sequence[str]],
        *,
        layers: str | int = "last",
        reader: Reader | None = None,
    ) -> tuple[np.ndarray[Any, Any], list[Reading]]:
        """Return one vector per unit, [units, features], ordered by texts and words, and the readings."""
        reader = reader or self.reader()
        readings = list(reader.read_all(texts))
        return self.embed(readings, reader, [self.layers(layers)])[0], readings

    @torch.inference_mode()
    def embed(
        self,
        readings: Sequence[Reading],
        reader: Reader,
        choices: Sequence[Layers],
        progress: Progress = silent,
    ) -> list[np.ndarray[Any, Any]]:
        """Return for each choice of layers the mean state of each unit's tokens, [units, features]."""
        first_row = np.cumsum([0, *(len(reading.units) for reading in readings)])
        sums = [torch.zeros(int(first_row[-1]), self.width_of(choice)) for choice in choices]
        wanted = sorted({number for choice in choices for number in choice.numbers})
        pieces = [(text, piece) for text, r in enumerate(readings) for piece in range(len(r.pieces))]
        for batch in progress.over(_batches(readings, pieces), total=len(pieces), size=len, stage="texts"):
            ids, rows, tokens = _assemble(readings, reader, first_row, batch)
            states = self.states(ids, wanted)
            for found, choice in zip(sums, choices, strict=True):
                flat = choice.combine(states).flatten(0, 1).cpu()
                found.index_add_(0, rows, flat[tokens])
        counts = torch.tensor([len(unit.tokens) for reading in readings for unit in reading.units])
        return [(found / counts[:, None].clamp(min=1)).numpy() for found in sums]

    @torch.inference_mode()
    def states(self, ids: Tensor, numbers: Sequence[int]) -> dict[int, Tensor]:
        """Return the states of the layers, each [texts, length, features]; `ids` is [texts, length]."""
        ids = ids.to(self.device)
        found: dict[int, Tensor] = {}
        if STATIC in numbers:
            found[STATIC] = self._words()(ids)
        contextual = [number for number in numbers if number != STATIC]
        if not contextual:
            return found
        if self._layer_list is None:
            hidden = self.model(
                input_ids=ids, attention_mask=torch.ones_like(ids), output_hidden_states=True
            ).hidden_states
            return found | {number: hidden[number] for number in contextual}
        return found | self._capture(ids, contextual, self._layer_list)

    def _capture(self, ids: Tensor, numbers: Sequence[int], modules: Any) -> dict[int, Tensor]:
        with _capturing(modules, numbers) as found:
            try:
                last = self._run(ids)
            except _DeepestLayerReached:
                return found
        return found | {self.depth: last}

    def _run(self, ids: Tensor) -> Tensor:
        """Run the whole encoder and return its output."""
        if self._light:
            return self.model(ids)[0]  # type: ignore[no-any-return]
        return self.model(input_ids=ids, attention_mask=torch.ones_like(ids))[0]  # type: ignore[no-any-return]

    def _words(self) -> Any:
        if self._light:
            return self.model.embeddings["word_embeddings"]
        return self.model.get_input_embeddings()

    @torch.inference_mode()
    def _find_layers(self) -> Any:
        """Return the list of layers if the states that enter them are the model's hidden states."""
        for module in self.model.modules():
            if isinstance(module, torch.nn.ModuleList) and len(module) == self.depth:
                if self._light:
                    return module
                ids = torch.tensor([[0, 1, 2, 3]], device=self.device)
                mask = torch.ones_like(ids)
                plain = self.model(input_ids=ids, attention_mask=mask, output_hidden_states=True)
                try:
                    captured = self._capture(ids, range(self.depth + 1), module)
                except Exception:  # layers that are called in a way of their own
                    return None
                same = len(captured) == self.depth + 1 and all(
                    captured[i].shape == plain.hidden_states[i].shape
                    and torch.allclose(captured[i], plain.hidden_states[i], atol=1e-5)
                    for i in range(self.depth + 1)
                )
                return module if same else None
        return None


@contextmanager
def _capturing(modules: Any, numbers: Sequence[int]) -> Iterator[dict[int, Tensor]]:
    """Capture the states that enter the layers after `numbers`; the pass ends at the deepest of them."""
    found: dict[int, Tensor] = {}
    deepest = max(numbers)
    handles = []

    def capture(number: int) -> Any:
        def hook(_module: Any, given: tuple[Any, ...], named: dict[str, Any]) -> None:
            found[number] = given[0] if given else named["hidden_states"]
            if number == deepest:
                raise _DeepestLayerReached

        return hook

    for number in numbers:
        if number < len(modules):
            handles.append(modules[number].register_forward_pre_hook(capture(number), with_kwargs=True))
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


def _batches(readings: Sequence[Reading], pieces: list[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    """Group pieces of one length, the longest first, so that want of memory shows at once."""

    def length(piece: tuple[int, int]) -> int:
        start, end = readings[piece[0]].pieces[piece[1]]
        return end - start

    batch: list[tuple[int, int]] = []
    for piece in sorted(pieces, key=length, reverse=True):
        if batch and (
            length(batch[0]) != length(piece) or (len(batch) + 1) * length(piece) > TOKENS_PER_PASS
        ):
            yield batch
            batch = []
        batch.append(piece)
    if batch:
        yield batch


def _assemble(
    readings: Sequence[Reading], reader: Reader, first_row: Any, batch: list[tuple[int, int]]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the framed ids [texts, length], and for each token of a unit the unit's row and its place."""
    framed, rows, tokens = [], [], []
    front = len(reader.prefix)
    for text, piece in batch:
        reading = readings[text]
        start, end = reading.pieces[piece]
        framed.append(reader.with_special_tokens(reading.ids[start:end]))
        base = (len(framed) - 1) * len(framed[0]) + front - start
        for row, unit in enumerate(reading.units, int(first_row[text])):
            for token in unit.tokens:
                if start <= token < end:
                    rows.append(row)
                    tokens.append(base + token)
                elif token < 0 and piece == 0:  # the token in front of the text
                    rows.append(row)
                    tokens.append(base + start - front)
    return torch.tensor(framed), torch.tensor(rows, dtype=torch.long), torch.tensor(tokens, dtype=torch.long)


def _config_of(place: str) -> Any:
    import json
    from types import SimpleNamespace

    return SimpleNamespace(**json.loads((Path(place) / "config.json").read_text(encoding="utf-8")))
