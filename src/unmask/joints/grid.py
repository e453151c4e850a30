"""GridJoint: the Arnold-Gokhale joint of n blanks on a grid of candidates.

Each blank may hold its K candidates and nothing else, so the joint is a table of K^n cells, and asking the
model what it takes costs K^(n-1) forward passes a blank. `GridConditionals` are what the model says on the
grid, n tables of one shape; `unmask.kernels.grid_solver` turns them into one joint.

The conditionals are normalised over the candidates. What is cut off by that is kept beside them: the mass
outside with all blank, and for each table the mass outside given each filling of the others, whose mean
under the joint the evidence tells (`mass_outside_given_others`).
"""

from __future__ import annotations

from typing import Annotated

from unmask.joints.options import Sweeps
from unmask.joints.table import TableJoint, check_table_fits
from unmask.kernels.grid_solver import solve
from unmask.tables.grid_conditionals import GridConditionals
from unmask.values import Real, Spec

GridTolerance = Annotated[
    float, Spec(Real(above=0, below=1), "The norm of the gradient at which the solver stops.")
]


class GridJoint(TableJoint):
    """The joint over a grid whose conditionals are closest to the given ones.

    Args:
        conditionals: what the model says on the grid.
        tolerance: the norm of the gradient at which the solver stops.
        sweeps: how many sweeps to make before Newton's method takes over.
    """

    def __init__(
        self, conditionals: GridConditionals, *, tolerance: GridTolerance = 1e-9, sweeps: Sweeps = 60
    ) -> None:
        check_table_fits(conditionals.supports, "a grid", "take fewer candidates a blank, or the chain")
        solved = solve(
            list(conditionals.tables), list(conditionals.alone), tolerance=tolerance, sweeps=sweeps
        )
        super().__init__(
            solved.log_q, conditionals.supports, method="grid", evidence=dict(conditionals.evidence)
        )
        self.conditionals = conditionals
        self.evidence |= {
            "sweeps": solved.sweeps,
            "newton_steps": solved.newton_steps,
            "gradient_norm": solved.gradient_norm,
            "converged": solved.gradient_norm <= 10 * tolerance,
        }
        if conditionals.outside is not None:
            q = solved.log_q.exp()
            self.evidence["mass_outside_given_others"] = [
                float((q.sum(i, keepdim=True) * lost).sum()) for i, lost in enumerate(conditionals.outside)
            ]
