"""What the fuzz suite gives to public calls: texts, wrong things, numbers and the fields of a query."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from tiny import WORDS
from unmask import CONSTRUCTIONS
from unmask.inference.query import SPECS

PIECES = (
    *("[MASK]", "[MASK]", "___", "<mask>", "{man}", "{the dog}", "{}", "{", "}", "{{", "}}", "{[MASK]}"),
    *("the", "man", "playing", ".", "?", " ", "  ", "", "\t", "\n", "\r\n", "\x00", "\x1b[31m", "\x7f"),
    *("[CLS]", "[SEP]", "[PAD]", "[UNK]", "[unused1]", "##ing", "▁the", "Ġman", "</s>", "\\", '"', "%s"),
    *(
        "שלום",
        "مرحبا",
        "\u202e",
        "\u200b",
        "\u2028",
        "\u0085",
        "e\u0301",
        "ﬁ",
        "İ",
        "日本語",
        "😀",
        "👩\u200d🚀",
    ),
    *("\ud800", "\udfff", "\ufffe", "\U0010ffff", "𝔘𝔫𝔦", "\U000e0041"),
)
"""What texts are put together from: blanks, braces, special tokens, and characters that break programs."""


def mostly(right: st.SearchStrategy[Any], *odd: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw what is right three times in four, and else something odd; `one_of` would flatten its parts."""
    return st.sampled_from([right] * 3 * len(odd) + list(odd)).flatmap(lambda drawn: drawn)


characters = st.characters(codec=None, exclude_categories=()) | st.characters(categories=("Cs", "Cc", "Co"))
pieced = st.builds(
    lambda parts, by: by.join(parts),
    st.lists(st.sampled_from(PIECES), max_size=9),
    st.sampled_from(["", " "]),
)
repeated = st.builds(
    lambda part, by, times: (part + by) * times,
    st.sampled_from(PIECES),
    st.sampled_from(["", " "]),
    st.sampled_from([70, 1000, 5000]),
).map(lambda text: text[:10_000])


def sound_texts(blanks: tuple[str, ...], most: int = 3) -> st.SearchStrategy[str]:
    """Texts that are as they should be, with one to `most` blanks."""
    held = st.lists(st.sampled_from(blanks), min_size=1, max_size=most)
    drawn = st.tuples(held, st.lists(st.sampled_from(WORDS), max_size=5)).flatmap(
        lambda parts: st.permutations([*parts[0], *parts[1]])
    )
    return drawn.map(" ".join)


odd_texts = st.one_of(pieced, pieced, st.text(characters, max_size=40), repeated)
masked, braced = sound_texts(("[MASK]", "___")), sound_texts(("{man}", "{is}", "{playing}"))
texts = mostly(masked | braced, odd_texts)


class Hostile:
    """Something that claims to be nothing that is wanted."""

    def __repr__(self) -> str:
        return "<a hostile\nthing \ud800>"


numbers = st.one_of(
    st.integers(-3, 100),
    st.sampled_from([10**12, -(10**12), 2**63, 2**64, 10**400, 2**31]),
    st.floats(allow_nan=True, allow_infinity=True),
    st.booleans(),
    st.sampled_from(
        [np.int64(3), np.int32(-1), np.uint8(2), np.float32(2), np.float64("nan"), np.bool_(True)]
    ),
    st.sampled_from([1 + 2j, torch.tensor(3), torch.tensor(2.5), torch.tensor(True)]),
)
arrays = st.sampled_from(
    [
        *(np.zeros(0), np.array(3), np.ones((2, 2)), np.array(["a", None], dtype=object), np.array([b"x"])),
        *(np.array(["the", "man"]), np.array([[1, 2]]), np.array([np.nan]), np.datetime64("2020-01-01")),
        *(torch.zeros(0), torch.ones(2), torch.tensor([[1, 2], [3, 4]]), torch.tensor([12, 13])),
        *(torch.ones(2, 2, device="meta"), torch.eye(2).to_sparse(), torch.tensor([True, False])),
        *(torch.tensor([1j]), torch.full((2,), math.nan), torch.ones(2, dtype=torch.float16)),
        *(
            torch.tensor([2**62, -1]),
            torch.zeros(0, 2, dtype=torch.long),
            torch.zeros(3, 0, 2, dtype=torch.long),
        ),
        torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8),
    ]
)
things = st.sampled_from(
    [
        *(
            None,
            object(),
            Hostile(),
            Hostile,
            len,
            ...,
            b"the",
            bytearray(b"x"),
            Path("x"),
            {},
            {"a": 1},
            {1: 2},
        ),
        *(
            (),
            [],
            [None],
            set(),
            {"man"},
            range(3),
            [[]],
            [[["man"]]],
            [1, "man"],
            ["man", None],
            NotImplemented,
        ),
        *(
            Exception("x\ny"),
            slice(0, 2),
            memoryview(b"ab"),
            float("nan"),
            "",
            "auto",
            "all",
            "words",
            "man",
            "\ud800",
        ),
        *(
            ["man", "\ud800"],
            [["man"], ["is"]],
            [["man", "dog"], ["is", "was"]],
            ["playing", "man"],
            [20, 21],
        ),
    ]
)
anything: st.SearchStrategy[Any] = st.one_of(
    things, numbers, arrays, texts, st.lists(st.one_of(numbers, st.sampled_from(PIECES)), max_size=3)
)

OPTIONS = (
    "order",
    "pivot",
    "power",
    "rounds",
    "tolerance",
    "sweeps",
    "block",
    "beam",
    "pairs",
    "colour",
    "\ud800",
)
FITTING: Mapping[str, Mapping[str, Any]] = {
    "ag": {"tolerance": [1e-3, 1e-9], "sweeps": [0, 1, 50, 10**9]},
    "ag-published": {"rounds": [1, 7]},
    "ag-weighted": {"power": [0.0, 0.5, 1.0], "tolerance": [1e-12]},
    "hcb": {"order": ["ab", "ba"], "pivot": ["man", 30]},
    "chain": {"order": ["left-to-right", "confidence", [1, 0]], "block": [1, 2], "beam": [1, 5]},
}
"""Options that a method has, and values that they may have."""
GOOD: Mapping[str, st.SearchStrategy[Any]] = {
    "method": st.sampled_from([*CONSTRUCTIONS, *CONSTRUCTIONS, "grid", "chain", "tree"]),
    "options": st.just({}),
    "candidates": st.sampled_from([1, 2, 5, 40, "auto", "all", np.int64(4)]),
    "completion": st.sampled_from(["learned", "plain"]),
    "support": st.sampled_from([1, 2, 10, 60, "auto", "words", "all", 10**9]),
    "include": st.lists(st.sampled_from([*WORDS, "##ing", 20]), max_size=3),
    "targets": st.sampled_from(
        [None, None, ["man", "dog"], ["playing", "the man", "dog"], [["man"], ["is", "was"]]]
    ),
    "seed": st.sampled_from([0, 1, 2**63 - 1, np.int64(7)]),
    "truncate": st.booleans(),
}
"""Values of a query's fields that may be right."""


@st.composite
def keywords(draw: st.DrawFn, wrong: int | None = None) -> dict[str, Any]:
    """Draw some fields of a query, so many of them wrong; by default, none in half of the cases."""
    found = {
        "candidates": draw(st.sampled_from([1, 2, 4])),
        "support": draw(st.sampled_from([6, 12])),
    }  # quick
    found |= {n: draw(GOOD[n]) for n in sorted(draw(st.sets(st.sampled_from(sorted(GOOD)), max_size=3)))}
    fitting = FITTING.get(found.get("method", "ag"), {})
    if fitting and draw(st.booleans()):
        name = draw(st.sampled_from(sorted(fitting)))
        found["options"] = {name: draw(st.sampled_from(fitting[name]))}
    for _ in range(draw(st.sampled_from([0, 0, 1, 2])) if wrong is None else wrong):
        name = draw(st.sampled_from([*GOOD, *OPTIONS]))
        if name == "options":
            found[name] = draw(st.dictionaries(st.sampled_from(OPTIONS), anything, max_size=2) | anything)
        else:
            found[name] = draw(anything)
    return found


def fields_are_known() -> bool:
    """Whether every field of a query is drawn."""
    return {"text", *GOOD} == set(SPECS)
