"""GridJoint: the Arnold-Gokhale joint of n blanks on a grid of candidates.

Each blank may hold its K candidates and nothing else, so the joint is a table of K^n cells, and asking the
model what it takes costs K^(n-1) forward passes per blank. `GridConditionals` are what the model says on the
grid, n tables of one shape; `unmask.kernels.grid_solver` turns them into one joint.

The conditionals are normalised over the candidates. What is cut off by that is kept beside them: the mass
outside with all blank, and for each table the mass outside given each filling of the others, whose mean
under the joint is `diagnostics.mass_outside_given_others`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from unmask.diagnostics import SolverDiagnostics, SolverResult
from unmask.joints.joint import check_enumerable
from unmask.joints.options import Sweeps, check_options
from unmask.joints.table import TableJoint
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
        check_options("the grid", GridJoint, {"tolerance": tolerance, "sweeps": sweeps})
        check_enumerable(conditionals.supports, "a grid", "use fewer candidates per blank, or the chain")
        solved = solve(
            list(conditionals.tables), list(conditionals.alone), tolerance=tolerance, sweeps=sweeps
        )
        converged = solved.gradient_norm <= 10 * tolerance
        outside = None
        if conditionals.outside is not None:
            q = solved.log_q.exp()
            outside = tuple(
                float((q.sum(i, keepdim=True) * lost).sum()) for i, lost in enumerate(conditionals.outside)
            )
        diagnostics = replace(
            conditionals.diagnostics,
            mass_outside_given_others=outside,
            solver=SolverDiagnostics(
                SolverResult.CONVERGED if converged else SolverResult.NOT_CONVERGED,
                sweeps=solved.sweeps,
                newton_steps=solved.newton_steps,
                gradient_norm=solved.gradient_norm,
            ),
        )
        super().__init__(
            solved.log_q,
            conditionals.supports,
            method="grid",
            diagnostics=diagnostics,
            cloze=conditionals.cloze,
        )
        self.conditionals = conditionals
