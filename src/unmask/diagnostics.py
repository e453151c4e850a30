"""Diagnostics: how an answer came about, in one frozen, typed record.

Tables of conditionals carry one, and so does every joint: the forward passes, the candidates, the estimated
error, the mass left out, and the result of the solver. `to_dict` is its JSON form, which
docs/reference/diagnostics.md describes field by field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, NamedTuple


class SolverResult(Enum):
    """How a solver ended."""

    CONVERGED = "converged"
    NOT_CONVERGED = "not_converged"
    FIXED_ROUNDS = "fixed_rounds"

    @property
    def remedy(self) -> str:
        """What to do about it; empty where nothing is to be done."""
        unsolved = self is SolverResult.NOT_CONVERGED
        return "raise sweeps, loosen tolerance, or use another method" if unsolved else ""


@dataclass(frozen=True)
class SolverDiagnostics:
    """What a solver did; a field is None where the solver has no such thing.

    Attributes:
        result: how it ended.
        sweeps: alternating sweeps over the tables.
        newton_steps: Newton steps after them.
        gradient_norm: the norm of the gradient where it stopped.
        gibbs_steps: steps of the iteration to the stationary law.
        direct: whether that law was solved for directly instead.
        rounds: rounds of an iteration that stops after a fixed number of them.
    """

    result: SolverResult
    sweeps: int | None = None
    newton_steps: int | None = None
    gradient_norm: float | None = None
    gibbs_steps: int | None = None
    direct: bool | None = None
    rounds: int | None = None

    @property
    def converged(self) -> bool:
        """Whether the solver reached its tolerance, or had none to reach."""
        return self.result is not SolverResult.NOT_CONVERGED

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain data, without what does not apply."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "result"}
        kept = {name: value for name, value in plain.items() if value is not None}
        if self.result is not SolverResult.FIXED_ROUNDS:  # which was not asked to converge
            kept = {"converged": self.converged, **kept}
        return {"result": self.result.value, **kept}


class CompletionError(NamedTuple):
    """The mean KL divergence, in nats, of the model's conditionals from their completions, either way.

    None where nothing was completed.
    """

    a_given_b: float | None
    b_given_a: float | None


@dataclass(frozen=True, kw_only=True)
class Diagnostics:
    """How tables of conditionals, or a joint made from them, came about.

    Attributes:
        conditionals: where they come from: `tables` (given), `exact` (every token), `cross` (some tokens, the
            others completed), `grid`, `chain`, `tree`, `product`, or `targets` (of different lengths).
        passes: forward passes of the model; a partial pass counts by its share of the text's positions.
        partial_passes: how many passes computed the two blanks and what is near, the rest of the text frozen.
        candidates: tokens per blank that the model was asked about; None where that means nothing.
        completion: how the other tokens were completed, `learned` or `plain`.
        completion_error: how far the completions are from the model's own conditionals.
        estimated_error: the typical error of a log-probability, in nats.
        estimated_from: where that comes from: `left-out candidates` of this text, or the `pair head`'s error
            on held-out text at this distance.
        tolerance: the estimated error that `auto` candidates aim at.
        seed: of the random part of the candidates.
        ungrouped: tokens of each blank that have a row or a column of their own.
        mass_outside_support: probability of tokens outside the support with all blanks masked, per blank.
        mass_outside_given_others: the same given the other blanks, averaged over the joint, per blank.
        grid_mass: the probability of the grid under the chain that backs it off.
        solver: what the construction's solver did.
        options: the construction's options as they were resolved.
        reason: why this joint was chosen, where there was a choice.
    """

    conditionals: str = "tables"
    passes: int = 0
    partial_passes: int = 0
    candidates: int | None = None
    completion: str | None = None
    completion_error: CompletionError | None = None
    estimated_error: float | None = None
    estimated_from: str | None = None
    tolerance: float | None = None
    seed: int | None = None
    ungrouped: tuple[int, int] | None = None
    mass_outside_support: tuple[float, ...] = (0.0,)
    mass_outside_given_others: tuple[float, ...] | None = None
    grid_mass: float | None = None
    solver: SolverDiagnostics | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    reason: str | None = None

    @property
    def converged(self) -> bool:
        """Whether every solver that was needed has converged."""
        return self.solver is None or self.solver.converged

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain data: strings, numbers, lists and dictionaries."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        plain: dict[str, Any] = {n: list(v) if isinstance(v, tuple) else v for n, v in values.items()}
        return plain | {
            "completion_error": self.completion_error and self.completion_error._asdict(),
            "solver": {} if self.solver is None else self.solver.to_dict(),
            "options": dict(self.options),
        }
