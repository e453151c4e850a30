"""MaskedLM: a checkpoint that answers what stands at the asked positions.

`states` runs the encoder and the head at the asked positions only, and stops at the input of the output
layer; `decode` is the output layer (`unmask.models.parts` tells them apart). So logits are computed where
they are asked for and nowhere else, and whoever needs the state before the output layer (the learned
completion does) has it.

Where `unmask.models.engine` knows the architecture and proves equal to the model it runs the encoder, and
spares what is not asked for; most in `filled_states`, which answers for one text with many tokens in one
blank.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from unmask.errors import RunError, UsageError
from unmask.linear_layers import linear
from unmask.memory import parse_bytes
from unmask.models.batch_size import fitting_batch
from unmask.models.checkpoint import open_checkpoint
from unmask.models.device import choose_device
from unmask.models.embedded import locate
from unmask.models.engine import ROWS_IN_CACHE, Encoder, read_encoder
from unmask.models.light import open_light
from unmask.models.light.tokenizer import LightTokenizer
from unmask.models.opened import check_usable
from unmask.models.pair_head import PairHead, find_pair_head
from unmask.models.partial_pass import FrozenText, active_positions
from unmask.models.parts import ModelParts, same
from unmask.models.window import window_of
from unmask.progress import Progress, silent
from unmask.text.cloze import Cloze
from unmask.text.vocabulary import Vocabulary
from unmask.values import shown

DEFAULT_MEMORY = "4GB"
Backend = Literal["auto", "transformers"]
MANY_TOKENS = 4096
"""Output layers cut to so many tokens or more have few shapes, so they may go by oneDNN."""
TOKENS_AT_ONCE = 4096


class MaskedLM:
    """A masked language model with its tokenizer, its device and its memory budget.

    Args:
        model: any Hugging Face `...ForMaskedLM` module.
        tokenizer: the tokenizer that goes with it.
        name: what to call it in reports.
        device: `auto`, `cpu`, `cuda`, `cuda:1`, `mps`.
        memory: what the work may take beyond the model itself, as in `4GB`.

    Attributes:
        pair_head: what predicts conditionals of pairs from one pass, if the model has such a head.
    """

    pair_head: PairHead | None = None

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str = "model",
        device: str = "auto",
        memory: int | str = DEFAULT_MEMORY,
    ) -> None:
        check_usable(model, tokenizer)
        self.device = choose_device(device)
        self.model = model.to(self.device).eval()
        self.tokenizer = tokenizer
        self.name = name
        self.memory = parse_bytes(memory)
        self._check_known(tokenizer.mask_token_id)
        self.window = window_of(model, tokenizer)
        self._parts = ModelParts(self.model, tokenizer.mask_token_id, device=self.device, name=name)
        self.vocabulary = Vocabulary(tokenizer, self._parts.offset.numel())

    @classmethod
    def load(
        cls,
        source: str | Path = "english",
        *,
        name: str | None = None,
        device: str = "auto",
        memory: int | str = DEFAULT_MEMORY,
        allow_pickle: bool = False,
        backend: Backend = "auto",
        pair_head: str | Path | None = "auto",
    ) -> MaskedLM:
        """Load a masked language model: the embedded one, a directory, or a hub name.

        Args:
            source: `english` (the embedded model), a checkpoint's directory, or a name on the hub.
            name: what to call it in reports; by default the source.
            device, memory: as for the class.
            allow_pickle: read pickled weights (which can run code) where there are no safetensors.
            backend: `auto` opens a plain BERT by unmask's own code, which loads in a fraction of the time,
                and all else by transformers; `transformers` opens everything by it.
            pair_head: the file that `unmask distill` made for these weights; `auto` takes
                `pair_head.safetensors` beside them, if it is there, and None takes none.
        """
        if not isinstance(backend, str) or backend not in ("auto", "transformers"):
            raise UsageError(f"unknown backend {shown(backend)}: expected auto or transformers")
        place = locate(str(source))
        opened = open_light(place) if backend == "auto" else None
        if opened is None:
            opened = open_checkpoint(place, allow_pickle=allow_pickle)
        mlm = cls(*opened, name=name or str(source), device=device, memory=memory)
        mlm.pair_head = find_pair_head(mlm.model, mlm.name, Path(place), pair_head)
        return mlm

    @classmethod
    def from_pretrained(cls, source: str | Path, **options: Any) -> MaskedLM:
        """Do the same as `unmask.load(source, **options)`, under the name that Hugging Face users know."""
        from unmask.models.load import load

        return load(source, **options)

    def twin(self) -> MaskedLM:
        """Return another model on the same weights, for another thread: each serves one at a time."""
        weights = [*self.model.parameters(), *self.model.buffers()]
        model = copy.deepcopy(self.model, {id(weight): weight for weight in weights})
        twin = MaskedLM(model, self.tokenizer, name=self.name, device=str(self.device), memory=self.memory)
        twin.vocabulary, twin.pair_head = self.vocabulary, self.pair_head
        return twin

    @property
    def backend(self) -> str:
        """Whose model it is: `light` (our own, for plain BERT) or `transformers`."""
        return "light" if isinstance(self.tokenizer, LightTokenizer) else "transformers"

    def __repr__(self) -> str:
        size = f"{self.vocabulary.size:,} tokens, window {self.window}"
        return f"<MaskedLM '{self.name}': {self.model.config.model_type}, {size}, {self.device}>"

    @property
    def output_layer(self) -> Any:
        """The module that makes logits of states."""
        return self._parts.output_layer

    @property
    def tables_on(self) -> torch.device:
        """Where tables are kept: beside the model, but for Apple's GPU, which knows no float64."""
        return torch.device("cpu") if self.device.type == "mps" else self.device

    @property
    def input_embeddings(self) -> Tensor:
        """The input embedding of every token, [vocab, features]."""
        weight: Tensor = self.model.get_input_embeddings().weight
        return weight[: self.vocabulary.size]

    @torch.inference_mode()
    def states(self, ids: Tensor, position: int, progress: Progress = silent) -> Tensor:
        """Return the states at `position` of each text, [texts, features]; `ids` is [texts, length]."""
        return self.states_at(ids, [position], progress)[:, 0]

    @torch.inference_mode()
    def states_at(self, ids: Tensor, positions: Sequence[int], progress: Progress = silent) -> Tensor:
        """Return the states at several positions from one pass per text, [texts, positions, features]."""
        everywhere = torch.tensor(positions, dtype=torch.long).expand(len(ids), -1)
        return self.states_each(ids, everywhere, progress)

    @torch.inference_mode()
    def states_each(self, ids: Tensor, positions: Tensor, progress: Progress = silent) -> Tensor:
        """Return the states of each text at its own positions [texts, k], as [texts, k, features].

        Positions below zero count from the end.
        """
        self._check_known(int(ids.max()))
        length, asked = ids.shape[1], positions.shape[1]
        if len(positions) != len(ids) or not bool(((positions >= -length) & (positions < length)).all()):
            raise UsageError(
                f"expected positions from 0 to {length - 1} for each of {len(ids)} texts, got "
                f"{positions.tolist()}"
            )
        positions = positions % length
        size = self.batch_size(length)
        encoder = self._encoder
        if encoder is not None and not encoder.spares(asked, length):
            encoder = None
        if encoder is not None:
            size = self._texts_in_cache(size, length)
        batches = zip(ids.split(size), positions.split(size), strict=True)
        found = []
        for texts, places in progress.over(batches, total=len(ids), size=lambda batch: len(batch[0])):
            there = places.to(self.device)
            if encoder is None:
                found.append(self._parts.states_each(texts.to(self.device), there))
            else:
                found.append(encoder.of_texts(self._parts.embedded(encoder.entrance, texts), there))
        states = torch.cat(found)
        return states if encoder is None else self._headed(states.flatten(0, 1)).unflatten(0, (-1, asked))

    @torch.inference_mode()
    def filled_states(
        self, cloze: Cloze, blank: int, token_ids: Tensor, position: int, progress: Progress = silent
    ) -> Tensor:
        """Return the states at `position` of the cloze with each token in one blank, [tokens, features].

        The same as `states(fillings(cloze, blank, token_ids), position)`, but faster where `filled_by` is
        `engine`.
        """
        if self._encoder is None:
            return self.states(self.fillings(cloze, blank, token_ids), position, progress)
        self._check_known(int(token_ids.max()))
        return self._filled(self._encoder, cloze.ids, cloze.blanks[blank], token_ids, position, progress)

    def active_positions(self, cloze: Cloze) -> list[int] | None:
        """Return the positions that a partial pass of a text with two blanks computes; None if it can't."""
        if self._encoder is None or len(cloze.blanks) != 2:
            return None
        return active_positions(len(cloze.ids), (cloze.blanks[0], cloze.blanks[1]))

    @torch.inference_mode()
    def partial_states(self, cloze: Cloze, *fillings: tuple[int, Tensor]) -> list[Tensor]:
        """Return nearly what `filled_states` does at the other blank, [tokens, features], by partial passes.

        Each of `fillings` is a blank and the tokens that it is filled with.

        The rest of the text is frozen (`unmask.models.partial_pass`); `active_positions` says if it can be.
        """
        active = self.active_positions(cloze)
        assert active is not None
        assert self._encoder is not None
        context = self._parts.embedded(self._encoder.entrance, torch.tensor([cloze.ids]))[0]
        frozen = FrozenText(self._encoder.layers, context, active)
        size = self._texts_in_cache(self.batch_size(len(active)), len(active))
        found = []
        for blank, token_ids in fillings:
            self._check_known(int(token_ids.max()))
            changed, asked = cloze.blanks[blank], cloze.blanks[1 - blank]
            own = self._own_inputs(self._encoder, token_ids, changed)
            found.append(self._headed(torch.cat([frozen(part, changed, asked) for part in own.split(size)])))
        return found

    @property
    def filled_by(self) -> str:
        """Whose work the passes are: `engine` (what is shared or not asked for is spared) or `plain`."""
        return "plain" if self._encoder is None else "engine"

    def decoder(self, token_ids: Tensor) -> Callable[[Tensor], Tensor]:
        """Return the output layer cut to some tokens: states [texts, features] -> logits [texts, tokens]."""
        found = self.output_weights(token_ids)
        if found is not None:
            weight, bias = found
            multiply = linear if len(weight) >= MANY_TOKENS else torch.nn.functional.linear
            return lambda states: multiply(states, weight, bias)
        columns = token_ids.to(self.device)
        return lambda states: self.decode(states)[..., columns]

    def log_probs(self, states: Tensor, token_ids: Tensor) -> Tensor:
        """Return log-probabilities over some tokens, [..., tokens]: in float64, where tables are kept."""
        return self.decoder(token_ids)(states).to(self.tables_on).double().log_softmax(-1)

    def output_weights(self, token_ids: Tensor) -> tuple[Tensor, Tensor] | None:
        """Return the output layer's weights [tokens, features] and offset [tokens], if it is a linear one."""
        if not (self._parts.separable and isinstance(self.output_layer, torch.nn.Linear)):
            return None
        columns = _as_slice(token_ids)
        if not isinstance(columns, slice):
            columns = columns.to(self.device)
        offset = self._parts.offset[columns]
        if self.output_layer.bias is not None:
            offset = offset + self.output_layer.bias[columns]
        return self.output_layer.weight[columns], offset

    @torch.inference_mode()
    def decode(self, states: Tensor) -> Tensor:
        """Return the logits of states, [texts, vocab], cut to the tokens that the tokenizer knows."""
        return self._parts.decode(states)[..., : self.vocabulary.size]

    def logits(self, ids: Tensor, position: int) -> Tensor:
        """Return the logits at `position` of each text, [texts, vocab]."""
        return self.decode(self.states(ids, position))

    def fillings(self, cloze: Cloze, blank: int, token_ids: Tensor) -> Tensor:
        """Return the cloze once for each token, put into one blank: [tokens, length]."""
        ids = torch.tensor(cloze.ids).repeat(len(token_ids), 1)
        ids[:, cloze.blanks[blank]] = token_ids.cpu()
        return ids

    def batch_size(self, length: int) -> int:
        """Return how many texts of this length one forward pass takes within the memory budget."""
        config = self.model.config
        hidden = int(getattr(config, "hidden_size", 0) or getattr(config, "dim", 768))
        inner = int(getattr(config, "intermediate_size", 0) or getattr(config, "hidden_dim", 4 * hidden))
        heads = int(getattr(config, "num_attention_heads", 12))
        one = 4 * (length * (10 * hidden + 3 * inner) + 2 * heads * length * length)
        if not self._parts.separable:
            one += 4 * length * self._parts.offset.numel()  # logits at every position
        return fitting_batch(one, length, self.memory)

    def _check_known(self, largest: int) -> None:
        """Refuse an id that the tokenizer knows and the model does not."""
        known = len(self.model.get_input_embeddings().weight)
        if largest >= known:
            token = self.tokenizer.convert_ids_to_tokens(largest)
            raise RunError(
                f"the tokenizer gives '{token}' the id {largest}, but the ids of the model '{self.name}' end "
                f"at {known - 1}: the two do not belong together, take both from one checkpoint"
            )

    def _filled(
        self,
        encoder: Encoder,
        text: Sequence[int],
        changed: int,
        token_ids: Tensor,
        position: int,
        progress: Progress = silent,
    ) -> Tensor:
        """Run the texts that have each token at `changed` through the engine."""
        size = self._texts_in_cache(self.batch_size(len(text)), len(text))
        context = self._parts.embedded(encoder.entrance, torch.tensor([text]))[0]
        own = self._own_inputs(encoder, token_ids, changed)
        batches = progress.over(own.split(size), total=len(own), size=len)
        asked = position % len(text)
        hidden = torch.cat([encoder(context, batch, changed, asked) for batch in batches])
        return self._headed(hidden)

    def _own_inputs(self, encoder: Encoder, token_ids: Tensor, position: int) -> Tensor:
        """Return what the first layer reads of each token at a position, [tokens, features]."""
        parts = token_ids[:, None].split(TOKENS_AT_ONCE)
        return torch.cat([self._parts.embedded(encoder.entrance, part, position)[:, 0] for part in parts])

    def _texts_in_cache(self, most: int, length: int) -> int:
        """Return how many texts of this length go through the engine at once."""
        return min(most, max(1, ROWS_IN_CACHE // length)) if self.device.type == "cpu" else most

    def _headed(self, hidden: Tensor) -> Tensor:
        return torch.cat([self._parts.headed(part) for part in hidden.split(TOKENS_AT_ONCE)])

    @cached_property
    @torch.inference_mode()
    def _encoder(self) -> Encoder | None:
        """The model's layers for the engine, if it knows them and comes to what the model says."""
        able = self._parts.separable and self._parts.accepts_positions
        encoder = read_encoder(self.model) if able else None
        if encoder is None:
            return None
        text, tokens = [0, 1, 2, self.tokenizer.mask_token_id, 3, 4], torch.tensor([5, 6])
        ids = torch.tensor(text).repeat(len(tokens), 1)
        ids[:, 1] = tokens
        plain = self._parts.states(ids.to(self.device), [3])[:, 0]
        return encoder if same(self._filled(encoder, text, 1, tokens, 3), plain) else None


def _as_slice(ids: Tensor) -> Tensor | slice:
    """Return ids that follow one another as a slice, which takes a view where ids would take a copy."""
    if len(ids) and bool((ids.diff() == 1).all()):
        return slice(int(ids[0]), int(ids[-1]) + 1)
    return ids
