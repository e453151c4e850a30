"""Texts drawn from a model: whole ones, the rest of one, or what is missing in one.

The blanks come from a template (`The [MASK] ___ here.`), or are so many tokens after a prefix, or nothing but
so many tokens. They are filled by one of the samplers:

- `joint`: from the joint of the blanks, which for more than two is the grid or the chain (exact, independent
draws);
- `chain`: from the chain of blocks of two (exact, independent draws over every token);
- `gibbs`, `block-gibbs`, `metropolis`: by Markov chains (`unmask.inference.markov_chains`), with diagnostics.

`sample_in_passes` fills them in a given number of forward passes, several blanks in each, joined by a tree
(`unmask.inference.parallel_decoding`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from unmask.errors import UsageError
from unmask.inference.markov_chains import (
    FEWEST_SWEEPS,
    BlockGibbs,
    Draws,
    Gibbs,
    Kernel,
    Metropolis,
    diagnose,
    run_chains,
    settled_below,
)
from unmask.inference.model_conditionals import PAIR_CANDIDATES, ModelConditionals
from unmask.inference.pair_guess import check_has_head
from unmask.inference.parallel_decoding import Decoded, ParallelDecoder, drawn, tree_scheme
from unmask.inference.query import Query
from unmask.inference.resolve import supports_of
from unmask.inference.sentences import SentenceReader
from unmask.joints.registry import CONSTRUCTIONS
from unmask.lazy import require
from unmask.models.masked_lm import MaskedLM
from unmask.progress import Progress, silent
from unmask.text.cloze import Cloze, has_blank, parse_blanks, unknown_note
from unmask.values import Text, check_method, plural

MARKOV = ("gibbs", "block-gibbs", "metropolis")


def cloze_of(
    mlm: MaskedLM,
    template: str | None = None,
    *,
    length: int | None = None,
    prefix: str | None = None,
    truncate: bool = False,
) -> Cloze:
    """Return the text to be filled: a template, or `length` blanks after a prefix or after nothing."""
    if template is not None:
        if length is not None or prefix is not None:
            raise UsageError("a template has its own blanks: leave out length and prefix")
        return parse_blanks(template, mlm.vocabulary, mlm.window, truncate=truncate)
    if length is None:
        raise UsageError("expected a text with blanks (a template), or length, a number of tokens to draw")
    if length < 1:
        raise UsageError(f"expected to draw at least 1 token, got length {length}")
    if truncate:
        raise UsageError("only a template can be cut to the window: leave out truncate, or give a template")
    Text().check("the prefix", prefix or "")
    read = SentenceReader(mlm)
    before = read(prefix or "").tokens
    if has_blank(prefix or "", mlm.vocabulary):
        raise UsageError("the prefix has a blank: give it as a template, and leave out length and prefix")
    unknown = mlm.tokenizer.unk_token_id
    special = [t for t in before if t in mlm.vocabulary.special_ids and t != unknown]
    if special:
        raise UsageError(
            f"the prefix spells {mlm.vocabulary.token(special[0])}, a special token: leave it out"
        )
    sentence = read.of_ids([*before, *[mlm.vocabulary.mask_id] * length])
    if len(sentence.ids) > mlm.window:
        room = mlm.window - len(sentence.ids) + length
        raise UsageError(
            f"the prefix and {plural(length, 'token')} make a text of {len(sentence.ids)}, but the model's "
            f"window holds {mlm.window}: "
            + (f"take length {room} or less" if room > 0 else "shorten the prefix")
        )
    blanks = sentence.positions[len(before) :]
    start = (prefix or "").rstrip()
    gap = " " if mlm.vocabulary.spaced or any(c.isspace() for c in start.lstrip()) else ""
    note = unknown_note(sentence.ids, mlm.vocabulary)
    notes = () if note is None else (note,)
    pieces = (start + gap if start else "", *[gap] * (length - 1), "")
    return Cloze(sentence.ids, blanks, pieces, mlm.vocabulary, notes=notes)


@dataclass(frozen=True)
class Generated:
    """Fillings drawn by Markov chains, [chains, draws, blanks], and how the chains fared."""

    draws: Draws
    cloze: Cloze
    passes: int
    diagnostics: dict[str, dict[str, float | None]]
    notes: tuple[str, ...]
    settings: dict[str, Any]

    @property
    def texts(self) -> list[list[str]]:
        """The texts that each chain drew."""
        return [[self.cloze.filled(row) for row in chain] for chain in self.draws.ids.tolist()]


def sample_by_markov_chain(
    mlm: MaskedLM,
    cloze: Cloze,
    sampler: str,
    query: Query,
    *,
    chains: int = 4,
    draws: int = 10,
    burn_in: int = 50,
    thin: int = 10,
    energy: str = "mrf-prob",
    progress: Progress = silent,
) -> Generated:
    """Draw fillings by Gibbs, block-Gibbs or Metropolis-Hastings.

    Args:
        mlm: the model.
        cloze: the text.
        sampler: `gibbs`, `block-gibbs` or `metropolis`.
        query: its method joins the pairs of `block-gibbs`, on its candidates; its seed is that of all that is
            drawn.
        chains: how many run side by side.
        draws: how many fillings each gives.
        burn_in: sweeps before the first.
        thin: sweeps between two.
        energy: the target of `metropolis`, `mrf-prob` or `mrf-logit`.
        progress: told of sweeps.
    """
    require("diagnosing Markov chains", "sample", "arviz")
    if sampler not in MARKOV:
        raise UsageError(f"unknown sampler '{sampler}': expected one of {', '.join(MARKOV)}")
    method = query.method
    check_method(method, CONSTRUCTIONS)
    if query.candidates == "all":
        raise UsageError(f"the pairs of {sampler} are joined on 1 candidate or more, or auto, got all")
    supports, outside = supports_of(mlm, cloze, query)
    count = query.candidates if isinstance(query.candidates, int) else PAIR_CANDIDATES
    conditionals = ModelConditionals(mlm, cloze, supports, method=method, candidates=count)
    kernel: Kernel
    if sampler == "metropolis":
        kernel = Metropolis(conditionals, energy)
    elif sampler == "block-gibbs" and len(cloze.blanks) > 1:
        kernel = BlockGibbs(conditionals)
    else:
        kernel = Gibbs(conditionals)
    generator = torch.Generator().manual_seed(query.seed)
    run = {"chains": chains, "draws": draws, "burn_in": burn_in, "thin": thin}
    found = run_chains(kernel, generator=generator, progress=progress, **run)
    diagnostics = diagnose(found.sweeps)
    notes = _law(sampler, len(cloze.blanks)) + verdict(diagnostics, chains, draws, thin)
    settings = {
        "method": method if sampler == "block-gibbs" else sampler,
        "candidates": count if sampler == "block-gibbs" else None,
        "support": supports[0].name,
        "support_sizes": [len(s) for s in supports],
        "mass_outside_support": list(outside),
    }
    return Generated(found, cloze, conditionals.passes, diagnostics, tuple(notes), settings)


def _law(sampler: str, blanks: int) -> list[str]:
    """Say what the chains settle at, where that is no joint that could be written down."""
    # one blank is drawn from its own distribution, and a pair of block-Gibbs from its joint
    if sampler == "metropolis" or blanks == 1 or (sampler == "block-gibbs" and blanks == 2):
        return []
    if blanks == 2:
        return [
            "the model's conditionals need not come from one joint, so what these chains draw from depends "
            "on which blank is redrawn last: to draw from the mean of both cases exactly, use the method "
            "gibbs without a sampler"
        ]
    return [
        "the model's conditionals need not come from one joint, so the distribution that these chains draw "
        "from has no formula: use the sampler chain or metropolis to draw from a known distribution"
    ]


def verdict(diagnostics: dict[str, dict[str, float | None]], chains: int, draws: int, thin: int) -> list[str]:
    """Say whether the chains have settled, if they have not or if it can't be told."""
    sweeps = draws * thin
    if sweeps < FEWEST_SWEEPS:
        return [
            f"too few sweeps to judge whether the chains have settled: {sweeps} per chain after the burn-in, "
            f"{FEWEST_SWEEPS} are needed; take thin {-(-FEWEST_SWEEPS // draws)} or more, or draw "
            f"{chains * (-(-FEWEST_SWEEPS // thin) - 1) + 1} or more"
        ]
    if chains == 1:
        return ["one chain can't be compared with others: take chains 2 or more to see whether it settled"]
    rhats = [row["rhat"] for row in diagnostics.values() if row["rhat"] is not None]
    if not rhats:
        return ["the chains never moved from one and the same filling: whether they settled can't be told"]
    if math.isinf(max(rhats)):
        return [
            "R-hat is infinite: chains stand still at different fillings and have not settled, take more "
            "burn-in and thinning"
        ]
    if max(rhats) > settled_below(sweeps):
        return [f"R-hat reaches {max(rhats):.2f}: the chains have not settled, take more burn-in or thinning"]
    return []


@dataclass(frozen=True)
class InPasses:
    """Fillings drawn in a few forward passes each, and the passes of all of them together."""

    fillings: list[Decoded]
    cloze: Cloze
    passes: int
    settings: dict[str, Any]

    @property
    def texts(self) -> list[str]:
        """The texts drawn."""
        return [self.cloze.filled(filling.ids) for filling in self.fillings]


def sample_in_passes(
    mlm: MaskedLM, cloze: Cloze, query: Query, *, passes: int, number: int = 10, progress: Progress = silent
) -> InPasses:
    """Draw fillings in so many forward passes each; the blanks of a pass are joined by a tree.

    A pass fills an equal share of the blanks, the most confident first. With as many passes as blanks they
    are filled one by one; more than that are not needed.

    Args:
        mlm: a model with a pair head.
        cloze: the text.
        query: its support says what a blank may hold, its seed is that of the draws.
        passes: forward passes per filling.
        number: how many fillings to draw.
        progress: told of fillings.
    """
    if passes < 1:
        raise UsageError(f"expected at least 1 pass, got passes {passes}")
    check_has_head(mlm, wanted_by="sampling in a few passes")
    supports, outside = supports_of(mlm, cloze, query)
    decode = ParallelDecoder(mlm, cloze, supports)
    fill = drawn(torch.Generator().manual_seed(query.seed))
    scheme = tree_scheme(passes)
    fillings = [decode(scheme, fill) for _ in progress.over(range(number), total=number, stage="samples")]
    settings = {
        "method": "tree",
        "passes_per_sample": fillings[0].passes,
        "support": supports[0].name,
        "support_sizes": [len(s) for s in supports],
        "mass_outside_support": list(outside),
    }
    return InPasses(fillings, cloze, decode.passes, settings)
