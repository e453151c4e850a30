"""Reaching into a model's forward pass: what goes into one of its modules, and another output instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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


@contextmanager
def output_changed(module: nn.Module, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Within, an encoder's output [texts, length, features] is changed before anything sees it."""

    def hook(_module: Any, _inputs: Any, output: Any) -> Any:
        if isinstance(output, tuple):
            return (change(output[0]), *output[1:])
        output["last_hidden_state"] = change(output["last_hidden_state"])
        return output

    handle = module.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()
