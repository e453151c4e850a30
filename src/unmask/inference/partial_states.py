"""States from partial passes, corrected by a few whole ones.

A partial pass (`unmask.models.partial_pass`) has an error of its own. Where a token had a whole pass, too,
that error is known. A ridge regression learns it from the partial states of these tokens, and corrects the
others. Its leave-one-out predictions say how good a corrected state is.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from unmask.inference.kernel_ridge import KernelRidge


@dataclass(frozen=True, eq=False)
class PartialStates:
    """The states at a blank for the evaluated tokens of another, most of them from partial passes.

    Attributes:
        states: the best that is known, [evaluated, features]: whole passes where there are any.
        whole: which of the evaluated had a whole pass, as indices.
        left_out: what each of these would have been corrected to, had it been left out, [whole, features];
            None if all had one.
    """

    states: Tensor
    whole: Tensor
    left_out: Tensor | None = None

    @staticmethod
    def corrected(partial: Tensor, whole: Tensor, exact: Tensor) -> PartialStates:
        """Correct partial states [evaluated, features] by exact ones of some tokens, [whole, features]."""
        known = partial[whole]
        fit = KernelRidge(known, exact - known)
        states = partial + fit(partial).to(partial.dtype)
        states[whole] = exact
        return PartialStates(states, whole, (known + fit.left_out).to(partial.dtype))
