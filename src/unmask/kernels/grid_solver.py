"""The Arnold-Gokhale problem of n blanks: the joint whose conditionals are closest to the given ones.

    q = argmin  sum_i sum_{x_-i}  KL(p_i(.|x_-i) || q(.|x_-i))

over fillings x = (x_1, ..., x_n), x_-i being all of them but the i-th. Setting the derivative with respect to
q(x) to zero gives, with S(x) = sum_i p_i(x_i|x_-i),

    q(x) = S(x) / U(x),    U(x) = sum_i u_i(x_-i),    u_i(x_-i) = 1 / q(x_-i),

so the unknowns are n faces u_i, not the whole of q. In theta_i = log u_i they minimise

    F(theta) = sum_x S(x) log U(x) - sum_i sum_{x_-i} theta_i(x_-i)
             = - sum_i sum_x p_i(x_i|x_-i) log s_i(x),

s_i = u_i / U, which is convex, a sum of log-sum-exps and linear terms, and strictly so but for the free
scale. Its gradient and its Hessian, applied to a direction v, are

    dF/dtheta_i(x_-i) = sum_{x_i} [ (S - p_i) s_i - p_i (1 - s_i) ]
    (H v)_i(x_-i)     = sum_{x_i} S s_i (v_i - t),      t(x) = sum_j s_j(x) v_j(x_-j).

The first says that q's marginal over x_-i is 1/u_i. Written so, it needs no difference of large sums. Setting
it to zero for one face with the others held gives the sweep, which for n = 2 is Newman's (JMLR 2023):

    u_i(x_-i)  <-  sum_{x_i} p_i (U - u_i) / U   /   sum_{x_i} (S - p_i) / U       for i = 1, ..., n in turn.

Sharply peaked conditionals make it crawl, as they do for pairs; Newton steps by conjugate gradients then
bring the gradient below its bound. All is done in log space and float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from unmask.kernels.conjugate_gradients import conjugate_gradients

FURTHEST_START = 60.0
LONGEST_STEP = 5.0
MOST_STEPS = 200
MOST_PRODUCTS = 300
RIDGE = 1e-9
Faces = list[Tensor]
"""One tensor per blank, of the table's shape but for an axis of 1 at the blank's own place."""


class Solution(NamedTuple):
    """log q of every filling, log u of every face, and how the solver fared."""

    log_q: Tensor
    faces: Faces
    sweeps: int
    newton_steps: int
    gradient_norm: float


def solve(
    log_p: list[Tensor], log_alone: list[Tensor], *, tolerance: float = 1e-9, sweeps: int = 60
) -> Solution:
    """Solve the problem for conditionals log_p[i], all of one shape, normalised over axis i.

    `log_alone[i]` [tokens of blank i] is where to start: with q(x_-i) the product of what the others say.
    """
    log_p = [table.double() for table in log_p]
    problem = _Problem(log_p)
    faces = _start(log_alone, log_p[0].ndim)
    gradient, done, steps = math.inf, 0, 0
    while gradient > tolerance and done < sweeps:
        faces, gradient = problem.sweep(faces)
        done += 1
    while gradient > tolerance and steps < MOST_STEPS:
        faces = problem.descend(faces)
        faces, gradient = problem.sweep(faces)
        steps += 1
    gradient = float(torch.stack([g.square().sum() for g in problem.gradient(faces)]).sum().sqrt())
    log_q = problem.log_s - _log_sum(faces)
    return Solution(log_q - log_q.flatten().logsumexp(0), faces, done, steps, gradient)


def _start(log_alone: list[Tensor], n: int) -> Faces:
    along = [a.double().reshape([-1 if i == j else 1 for j in range(n)]) for i, a in enumerate(log_alone)]
    faces = []
    for i in range(n):
        rest = sum((along[j] for j in range(n) if j != i), torch.zeros([1] * n, dtype=torch.float64))
        faces.append((rest.max() - rest).clamp_max(FURTHEST_START))
    return faces


def _log_sum(tensors: list[Tensor]) -> Tensor:
    total = tensors[0]
    for tensor in tensors[1:]:
        total = torch.logaddexp(total, tensor)
    return total


class _Problem:
    """The tables of one problem, and what is done with them at a point theta."""

    def __init__(self, log_p: list[Tensor]) -> None:
        self.log_p, self.n = log_p, len(log_p)
        self.log_s = _log_sum(log_p)
        # S - p_i, summed without the i-th, so that nothing is subtracted
        self.log_rest = [_log_sum(log_p[:i] + log_p[i + 1 :]) for i in range(self.n)]

    def sweep(self, faces: Faces) -> tuple[Faces, float]:
        """Update every face in turn; returns them and the norm of the gradient met on the way."""
        faces, square = list(faces), 0.0
        for i in range(self.n):
            others = _log_sum(faces[:i] + faces[i + 1 :])
            total = torch.logaddexp(faces[i], others)
            above = (self.log_p[i] + others - total).logsumexp(i, keepdim=True)
            below = (self.log_rest[i] - total).logsumexp(i, keepdim=True)
            square += float(((faces[i] + below).exp() - above.exp()).square().sum())
            faces[i] = above - below
        shift = faces[0].mean()  # the scale is free: keep it from drifting
        return [face - shift for face in faces], square**0.5

    def shares(self, faces: Faces) -> list[Tensor]:
        """Return log s_i of every cell."""
        total = _log_sum(faces)
        return [face - total for face in faces]

    def objective(self, faces: Faces) -> float:
        """Return F."""
        return -sum(float((p.exp() * s).sum()) for p, s in zip(self.log_p, self.shares(faces), strict=True))

    def gradient(self, faces: Faces) -> Faces:
        """Return dF/dtheta, one tensor per face."""
        found = []
        for i in range(self.n):
            others = _log_sum(faces[:i] + faces[i + 1 :])
            total = torch.logaddexp(faces[i], others)
            pull = (self.log_rest[i] + faces[i] - total).exp() - (self.log_p[i] + others - total).exp()
            found.append(pull.sum(i, keepdim=True))
        return found

    def descend(self, faces: Faces) -> Faces:
        """Take one Newton step, no unknown further than LONGEST_STEP, shortened until F falls."""
        gradient = self.gradient(faces)
        s, share = self.log_s.exp(), [log_share.exp() for log_share in self.shares(faces)]
        weight = [s * share_i for share_i in share]
        degree = [
            (w * (1 - share_i)).sum(i, keepdim=True)
            for i, (w, share_i) in enumerate(zip(weight, share, strict=True))
        ]

        def times(v: Faces) -> Faces:
            t = sum((a * b for a, b in zip(share, v, strict=True)), torch.zeros((), dtype=torch.float64))
            return [
                (w * (v_i - t)).sum(i, keepdim=True) for i, (w, v_i) in enumerate(zip(weight, v, strict=True))
            ]

        step = [d.clamp(-LONGEST_STEP, LONGEST_STEP) for d in _newton_step(times, gradient, degree)]
        slope = _dot(gradient, step)
        if not slope < 0:  # clamping has turned it uphill
            pairs = zip(gradient, degree, strict=True)
            step = [(-g / d.clamp_min(1e-300)).clamp(-LONGEST_STEP, LONGEST_STEP) for g, d in pairs]
            slope = _dot(gradient, step)
        start, size = self.objective(faces), 1.0
        while size > 1e-8:
            moved = [face + size * d for face, d in zip(faces, step, strict=True)]
            if self.objective(moved) <= start + 1e-4 * size * slope + 1e-12 * abs(start):
                return moved
            size /= 2
        return faces


def _dot(one: Faces, other: Faces) -> float:
    return sum(float((a * b).sum()) for a, b in zip(one, other, strict=True))


def _newton_step(times: Callable[[Faces], Faces], gradient: Faces, degree: Faces) -> Faces:
    """Return an approximate solution of H d = -gradient."""
    sizes, shapes = [g.numel() for g in gradient], [g.shape for g in gradient]

    def flat(faces: Faces) -> Tensor:
        return torch.cat([face.flatten() for face in faces])

    def apart(vector: Tensor) -> Faces:
        return [part.view(shape) for part, shape in zip(vector.split(sizes), shapes, strict=True)]

    norm = math.sqrt(_dot(gradient, gradient))
    wanted = 0.3 * min(0.1, norm**0.5) * norm
    step = conjugate_gradients(
        lambda v: flat(times(apart(v))),
        -flat(gradient),
        flat(degree),
        converged=lambda residual, _: float(residual.norm()) < wanted,
        max_iterations=MOST_PRODUCTS,
        ridge=RIDGE,
    )
    return apart(step)
