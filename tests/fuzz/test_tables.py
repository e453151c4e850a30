"""Tables of conditionals from anywhere, and the joints that are made of them."""

import math
from typing import Any

import numpy as np
import torch
from fuzz_values import FITTING, OPTIONS, anything, mostly
from harness import attempt, cases
from hypothesis import given
from hypothesis import strategies as st

import unmask
from unmask import CONSTRUCTIONS

CELLS = [0.0, 1.0, -1.0, 30.0, -1e4, 1e30, -1e30, 1e308, math.nan, math.inf, -math.inf]
SHAPES = [(2, 2), (3, 3), (1, 1), (1, 4), (2, 5), (5, 2), (40, 30)]
WRONG_SHAPES = [(0, 0), (0, 3), (3,), (), (2, 2, 2), (1, 0)]


def _cast(array: np.ndarray, form: str) -> Any:
    """A table in one of the forms in which people hold one."""
    tensor = torch.from_numpy(array.copy())
    match form:
        case "lists":
            return array.tolist()
        case "float16" | "bfloat16" | "float32" | "complex64" | "int64" | "bool":
            return (
                tensor.nan_to_num().to(getattr(torch, form))
                if form == "int64"
                else tensor.to(getattr(torch, form))
            )
        case "sparse":
            return tensor.to_sparse()
        case "meta":
            return tensor.to("meta")
        case "gradient":
            return tensor.requires_grad_()
        case "transposed":
            return torch.from_numpy(array.T.copy()).permute(tuple(range(array.ndim))[::-1])
        case "numpy":
            return array
        case "object":
            return array.astype(object)
        case "big-endian":
            return array.astype(">f8")
        case "reversed":
            return np.flip(array)
        case "nested":
            return torch.nested.nested_tensor([tensor.flatten(), tensor.flatten()[:1]])
    return tensor


SOUND_FORMS = [
    "tensor",
    "tensor",
    "lists",
    "numpy",
    "float32",
    "float16",
    "transposed",
    "gradient",
    "reversed",
]
ODD_FORMS = ["sparse", "meta", "complex64", "int64", "bool", "object", "big-endian", "nested", "bfloat16"]


@st.composite
def tables(draw: st.DrawFn, shape: tuple[int, ...], odd: bool = False) -> Any:
    """Draw a table of logits of a shape."""
    seed, scale = draw(st.integers(0, 99)), draw(st.sampled_from([1.0, 1.0, 10.0, 300.0]))
    array = np.random.default_rng(seed).normal(scale=scale, size=shape)
    if odd and array.size and draw(st.booleans()):
        array.flat[draw(st.integers(0, array.size - 1))] = draw(st.sampled_from(CELLS))
    return _cast(array, draw(st.sampled_from(ODD_FORMS if odd else SOUND_FORMS)))


@st.composite
def arguments(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the arguments of `from_logits`; in half of the cases one of them is odd."""
    odd = draw(st.sampled_from([*[None] * 6, "shape", "other", "form", "alone", "support", "table"]))
    shape = draw(st.sampled_from(WRONG_SHAPES if odd == "shape" else SHAPES))
    other = draw(st.sampled_from(SHAPES)) if odd == "other" else shape
    found = {"a_given_b": draw(tables(shape, odd == "form")), "b_given_a": draw(tables(other))}
    if odd == "table":
        found[draw(st.sampled_from(["a_given_b", "b_given_a"]))] = draw(anything)
    for side, axis in (("a_alone", 0), ("b_alone", 1)):
        if draw(st.booleans()) and len(shape) == 2:
            found[side] = draw(tables((shape[axis],)))
        if odd == "alone" and draw(st.booleans()):
            found[side] = draw(anything | tables((3,), odd=True))
    if odd == "support":
        found["a_support"] = draw(anything | st.just(unmask.Support.numbered(2)))
    return found


@st.composite
def constructions(draw: st.DrawFn) -> tuple[Any, dict[str, Any]]:
    """Draw a construction and its options."""
    method = draw(mostly(st.sampled_from(list(CONSTRUCTIONS)), anything))
    fitting = FITTING.get(method, {}) if isinstance(method, str) else {}
    options = {}
    if fitting and draw(st.booleans()):
        name = draw(st.sampled_from(sorted(fitting)))
        options[name] = draw(st.sampled_from(fitting[name]))
    if draw(st.integers(0, 4)) == 4:
        options[draw(st.sampled_from(OPTIONS))] = draw(anything)
    return method, options


def describe(table: Any) -> str:
    """What a table is, in a few words."""
    if isinstance(table, torch.Tensor) and not table.is_nested:
        return f"{table.dtype} {table.layout} {list(table.shape)}"
    return f"{type(table).__name__} {repr(table)[:60]}"


@cases(300)
@given(tables=arguments(), construction=constructions())
def test_tables_and_constructions(tables: dict[str, Any], construction: tuple[Any, dict[str, Any]]) -> None:
    method, options = construction
    shown = {name: describe(table) for name, table in tables.items()}

    def call() -> None:
        conditionals = unmask.PairConditionals.from_logits(**tables)
        repr(conditionals)
        joint = unmask.construct(method, conditionals, **options)
        total = joint.log_prob(joint.enumerate_support()).exp().sum()
        assert abs(float(total) - 1) < 1e-3, f"{method} sums to {float(total)}"
        assert math.isfinite(joint.entropy()), "no entropy"
        joint.top(3)
        joint.sample(2)
        joint.diagnostics.to_dict()

    attempt("tables", f"{method!r} with {options!r} from {shown!r}", call)


@cases(40)
@given(conditionals=anything, construction=constructions())
def test_what_is_no_table_at_all(conditionals: Any, construction: tuple[Any, dict[str, Any]]) -> None:
    method, options = construction
    attempt(
        "tables",
        f"construct({method!r}, {conditionals!r})",
        lambda: unmask.construct(method, conditionals, **options),
    )
    kind = CONSTRUCTIONS.get(method) if isinstance(method, str) else None
    if kind is not None:
        attempt("tables", f"{kind.__name__}({conditionals!r})", lambda: kind(conditionals))
