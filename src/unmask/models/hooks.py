"""Reaching into a model's forward pass: what goes into a module of it, and what comes out of its encoder.

All of it changes the model for as long as it lasts: another thread takes a twin (`MaskedLM.twin`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn


class _Reached(Exception):
    """Ends a forward pass at a module whose input has been caught."""


def input_of(module: nn.Module, run: Callable[[], object]) -> Tensor | None:
    """Run up to a module and return what goes in there, or None if nothing does."""
    caught: list[Tensor] = []

    def stop(_module: Any, inputs: tuple[Tensor, ...]) -> None:
        caught.append(inputs[0])
        raise _Reached

    handle = module.register_forward_pre_hook(stop)
    try:
        run()
    except _Reached:
        return caught[0]
    finally:
        handle.remove()
    return None


class _Output(tuple[Tensor]):
    """An encoder's output for heads that ask by number and for heads that ask by name."""

    @property
    def last_hidden_state(self) -> Tensor:
        return self[0]


@contextmanager
def output_cut(encoder: nn.Module, positions: Sequence[int]) -> Iterator[None]:
    """Within, an encoder's output [texts, length, features] holds these positions only."""

    def cut(_module: Any, _inputs: Any, output: Any) -> Any:
        if isinstance(output, tuple):
            return (output[0][:, positions], *output[1:])
        output["last_hidden_state"] = output["last_hidden_state"][:, positions]
        return output

    handle = encoder.register_forward_hook(cut)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def output_given(encoder: nn.Module, hidden: Tensor) -> Iterator[None]:
    """Within, an encoder does not run and this is its output, [texts, length, features]."""
    own = vars(encoder).get("forward")  # what others have put in the place of the class's
    encoder.forward = lambda *_args, **_kwargs: _Output((hidden,))
    try:
        yield
    finally:
        del encoder.forward
        if own is not None:
            encoder.forward = own
