"""Every method of every kind of joint, with whatever it may be given."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from fuzz_values import PIECES, anything, mostly, numbers
from harness import attempt, cases
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import kl_divergence

import unmask
from tiny import WORDS
from unmask import CONSTRUCTIONS, Joint
from unmask.joints import estimate_kl_divergence

TWO, THREE = "the [MASK] [MASK] at the bank", "the [MASK] [MASK] at the [MASK]"
SMALL = {"support": 9, "candidates": 4}
JOINTS = {
    **{method: (TWO, {"method": method} | SMALL) for method in CONSTRUCTIONS},
    **{f"table of {method}": (None, {"method": method}) for method in CONSTRUCTIONS},
    "one blank": ("the [MASK] is", SMALL),
    "grid": (THREE, {"method": "grid"} | SMALL),
    "chain": (THREE, {"method": "chain", "support": 9}),
    "tree": (THREE, {"method": "tree", "support": 9}),
    "chain of one": (THREE, {"method": "chain", "block": 1, "order": [2, 0, 1], "support": 9}),
    "targets": (TWO, {"targets": [["man", "playing"], ["is", "was"]]} | SMALL),
    "targets of three": (THREE, {"targets": ["man", "is", "dog"], "candidates": 4}),
    "every token": (TWO, {"support": "all", "candidates": 4}),
}


@pytest.fixture(scope="module")
def joint_of(mlm_of) -> Callable[[str], Joint]:
    def make(name: str) -> Joint:
        text, query = JOINTS[name]
        if text is not None:
            return unmask.fill(text, mlm=mlm_of("bert"), **query)
        logits = torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        return unmask.construct(query["method"], unmask.PairConditionals.from_logits(*logits))

    return cache(make)


tokens = mostly(
    st.integers(0, 4) | st.sampled_from(WORDS[:6]) | st.integers(10, 90), st.sampled_from(PIECES), numbers
)
fillings = st.one_of(
    *(st.lists(tokens, min_size=n, max_size=n) for n in (1, 2, 3)),
    st.lists(st.lists(tokens, min_size=2, max_size=2), max_size=3),
    *(st.lists(st.integers(0, 4), min_size=n, max_size=n).map(torch.tensor) for n in (2, 3)),
    tokens,
)
blanks = mostly(st.integers(0, 2), anything)
counts = mostly(st.integers(0, 20), st.sampled_from([10**8 + 1, 10**12, -1]), anything)  # 10^8 would be work
shapes = mostly(st.lists(st.integers(0, 4), max_size=3) | counts, anything)
generators = mostly(st.none(), anything)


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, tuple[Any, ...]]:
    """Draw a method and its arguments."""
    drawn: dict[str, tuple[st.SearchStrategy[Any], ...]] = {
        "log_prob": (mostly(st.just("its own"), fillings, fillings, anything),),
        "factors": (mostly(st.just("its own"), fillings, anything),),
        "describe": (mostly(st.just("its own"), fillings, anything),),
        "sample": (shapes, generators),
        "marginal": (blanks,),
        "conditional": (blanks, mostly(st.dictionaries(st.integers(0, 2), tokens, max_size=2), anything)),
        "top": (counts,),
        "entropy": (),
        "mutual_information": (),
        "perplexity": (),
        "enumerate_support": (st.booleans(),),
        "mass_outside_candidates": (),
        "kl_divergence": (st.sampled_from(list(JOINTS)) | anything,),
        "estimate_kl_divergence": (
            st.sampled_from(list(JOINTS)),
            mostly(st.integers(2, 9), numbers),
            generators,
        ),
        "estimate_entropy": (mostly(st.integers(2, 9), numbers), generators),
        "support.check": (fillings,),
        "expand": (shapes,),
        "cdf": (fillings,),
        **dict.fromkeys(("mean", "mode", "variance", "stddev", "repr", "batch_shape", "diagnostics"), ()),
    }
    name = draw(st.sampled_from(sorted(drawn)))
    return name, tuple(draw(one) for one in drawn[name])


@cases(420)
@given(which=st.sampled_from(list(JOINTS)), asked=calls())
def test_every_method(
    joint_of: Callable[[str], Joint], which: str, asked: tuple[str, tuple[Any, ...]]
) -> None:
    joint, (name, given) = joint_of(which), asked
    if given and isinstance(given[0], str) and given[0] == "its own":
        given = (torch.stack([s.ids[:3] for s in joint.supports], dim=-1), *given[1:])
    elif name.endswith("kl_divergence") and isinstance(given[0], str) and given[0] in JOINTS:
        given = (joint_of(given[0]), *given[1:])

    def call() -> None:
        if name == "kl_divergence":
            if isinstance(given[0], torch.distributions.Distribution):  # torch's own error for all else
                kl_divergence(joint, given[0])
        elif name == "estimate_kl_divergence":
            estimate_kl_divergence(joint, *given)
        elif name == "support.check":
            joint.support.check(joint.sample((2,)))
        elif name == "repr":
            repr(joint)
        elif name == "estimate_entropy" and not hasattr(joint, name):
            joint.entropy()
        else:
            found = getattr(joint, name)
            answer = found(*given) if callable(found) else found
            if isinstance(answer, Joint):
                repr(answer), answer.top(2), answer.sample(2)

    attempt("joints", f"{which}: {name}{given!r}", call)
