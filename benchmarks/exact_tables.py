"""A text's exact tables, kept under build/ by the model's weights: the solver is timed on real ones."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch

import unmask
from machine import BUILD, TEXT
from unmask.inference.infer import conditionals
from unmask.inference.query import Query
from unmask.models.digests import state_digest
from unmask.tables.pair_conditionals import PairConditionals
from unmask.text.cloze import parse_braces
from unmask.text.support import Support

PARTS = ("a_table", "b_table", "a_alone", "b_alone", "a_log_z", "b_log_z")


def tables_of(text: str = TEXT, model: str = "english") -> PairConditionals:
    """Return the exact conditionals of a text with two words in braces, as probabilities."""
    mlm = unmask.load(model, device="cpu")
    digest = hashlib.sha256(f"{state_digest(mlm.model)} {text}".encode()).hexdigest()
    path = BUILD / f"tables-{digest[:12]}.pt"
    if not path.exists():
        _make(text, mlm, path)
    found = torch.load(path, weights_only=True)
    support = Support.numbered(len(found["a_alone"]))
    return PairConditionals(*(found[part] for part in PARTS), support, support, linear=True)


def _make(text: str, mlm: unmask.MaskedLM, path: Path) -> None:
    made = conditionals(mlm, parse_braces(text, mlm.vocabulary, mlm.window), Query(candidates="all"))
    assert isinstance(made, PairConditionals)
    probabilities = made.probabilities
    assert probabilities is not None
    parts = dict(zip(PARTS[:2], probabilities, strict=True)) | {
        part: getattr(made, part) for part in PARTS[2:]
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(parts, path)
