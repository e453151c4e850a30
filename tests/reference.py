"""Brute-force twins of the constructions: float64 numpy on whole tables, written from the definitions.

Slow and small on purpose.
"""

import numpy as np
import torch
from scipy import stats

from unmask import PairConditionals
from unmask.tables.token_groups import TokenGroups


def draw(rows, columns, spread, seed, dtype=torch.float64):
    """Asymmetric incompatible conditionals with logits of the given standard deviation."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return (spread * torch.randn(*shape, generator=generator, dtype=torch.float64)).to(dtype)

    return PairConditionals.from_logits(
        normal(rows, columns), normal(rows, columns), normal(rows), normal(columns)
    )


def repeat(conditionals, rows, columns):
    """Return conditionals in which row i is there rows[i] times, column j columns[j] times, and their lumps.

    The lumped conditionals hold what the repeated ones say of each token, once, and how many there are.
    """
    a_at, b_at = (torch.arange(len(n)).repeat_interleave(torch.tensor(n)) for n in (rows, columns))
    repeated = PairConditionals.from_logits(
        conditionals.a_table[a_at][:, b_at],
        conditionals.b_table[a_at][:, b_at],
        conditionals.a_alone[a_at],
        conditionals.b_alone[b_at],
    )
    first_a, first_b = (torch.tensor([0, *n]).cumsum(0)[:-1] for n in (rows, columns))
    lumped = PairConditionals(
        repeated.a_table[first_a][:, first_b].contiguous(),
        repeated.b_table[first_a][:, first_b].contiguous(),
        repeated.a_alone[first_a],
        repeated.b_alone[first_b],
        repeated.a_log_z[first_b],
        repeated.b_log_z[first_a],
        repeated.a_support,
        repeated.b_support,
        a_groups=TokenGroups(a_at, torch.tensor(rows).double(), torch.zeros(len(a_at)).double()),
        b_groups=TokenGroups(b_at, torch.tensor(columns).double(), torch.zeros(len(b_at)).double()),
    )
    return repeated, lumped, (a_at, b_at)


def of_joint(joint):
    """Return the compatible conditionals of a joint table [a, b]; the both-blank answers are unrelated."""
    log_q = torch.as_tensor(joint, dtype=torch.float64).log()
    generator = torch.Generator().manual_seed(0)
    alone = [3 * torch.randn(n, generator=generator, dtype=torch.float64) for n in log_q.shape]
    return PairConditionals.from_logits(log_q, log_q, *alone)


def dense(conditionals):
    """Return p(a|b), p(b|a), m(a), m(b) as float64 numpy tables of probabilities."""
    named = (conditionals.a_table, conditionals.b_table, conditionals.a_alone, conditionals.b_alone)
    return tuple(table.double().exp().numpy() for table in named)


def normalised(table):
    return table / table.sum()


def product(c):
    _, _, a, b = dense(c)
    return np.outer(a, b)


def mrf_prob(c):
    p, r, _, _ = dense(c)
    return normalised(p * r)


def mrf_logit(c):
    a_logits = c.a_table.double() + c.a_log_z[None, :]
    b_logits = c.b_table.double() + c.b_log_z[:, None]
    total = (a_logits + b_logits).numpy()
    return normalised(np.exp(total - total.max()))


def hcb(c, order="ab", pivot=None):
    p, r, a, b = dense(c)
    if order == "ab":
        at = int(a.argmax()) if pivot is None else pivot
        return normalised(p / p[at][None, :] * r[at][None, :])
    at = int(b.argmax()) if pivot is None else pivot
    return normalised(r / r[:, at][:, None] * p[:, at][:, None])


def l2r(c):
    _, r, a, _ = dense(c)
    return a[:, None] * r


def r2l(c):
    p, _, _, b = dense(c)
    return p * b[None, :]


def mixture(c):
    return (l2r(c) + r2l(c)) / 2


def gibbs(c):
    p, r, _, _ = dense(c)
    step = r.T @ p
    size = len(step)
    system = np.vstack([step - np.eye(size), np.ones(size)])
    v = np.linalg.lstsq(system, np.append(np.zeros(size), 1.0), rcond=None)[0]
    u = p @ v
    return 0.5 * (p * v[None, :] + r * u[:, None])


def ag_published(c, rounds=40):
    p, r, _, _ = dense(c)
    q = np.full(p.shape, 1 / p.size)
    for _ in range(rounds):
        q = normalised((p + r) / (1 / q.sum(1, keepdims=True) + 1 / q.sum(0, keepdims=True)))
    return q


def ag(c):
    """Damped Newton on the convex F(log x, log y) with a dense Hessian."""
    p, r, _, _ = dense(c)
    s = p + r
    rows, columns = p.shape

    def value(theta):
        return (s * np.logaddexp.outer(theta[:rows], theta[rows:])).sum() - theta.sum()

    theta = np.zeros(rows + columns)
    for _ in range(200):
        share = 1 / (1 + np.exp(theta[None, rows:] - theta[:rows, None]))
        gradient = np.concatenate([(s * share).sum(1) - 1, (s * (1 - share)).sum(0) - 1])
        if np.abs(gradient).max() < 1e-12:
            break
        w = s * share * (1 - share)
        hessian = np.block([[np.diag(w.sum(1)), -w], [-w.T, np.diag(w.sum(0))]])
        step = -np.linalg.lstsq(hessian, gradient, rcond=1e-14)[0]
        size = 1.0
        while value(theta + size * step) > value(theta) and size > 1e-4:
            size /= 2
        theta = theta + size * step
    return normalised(s / np.add.outer(np.exp(theta[:rows]), np.exp(theta[rows:])))


def ag_weighted(c, power=1.0):
    """Damped Newton on the weighted F with a dense Hessian; weights from the both-blank answers."""
    p, r, a, b = dense(c)
    rows, columns = p.shape

    def weights(m):
        log_w = power * np.log(m)
        w = np.exp(np.maximum(log_w - log_w.max(), -40))
        return w / w.sum()

    w_a, w_b = weights(a), weights(b)
    w = np.concatenate([w_a, w_b])
    s = p * w_b[None, :] + r * w_a[:, None]

    def value(theta):
        return (s * np.logaddexp.outer(theta[:rows], theta[rows:])).sum() - w @ theta

    theta = np.zeros(rows + columns)
    for _ in range(300):
        share = 1 / (1 + np.exp(theta[None, rows:] - theta[:rows, None]))
        gradient = np.concatenate([(s * share).sum(1), (s * (1 - share)).sum(0)]) - w
        if np.abs(gradient / w).max() < 1e-11:
            break
        d = s * share * (1 - share)
        hessian = np.block([[np.diag(d.sum(1)), -d], [-d.T, np.diag(d.sum(0))]])
        scale = np.sqrt(np.diag(hessian))  # rare contexts have tiny rows: solve in scaled unknowns
        step = -np.linalg.lstsq(hessian / np.outer(scale, scale), gradient / scale, rcond=1e-14)[0] / scale
        size = 1.0
        while value(theta + size * step) > value(theta) and size > 1e-4:
            size /= 2
        theta = theta + size * step
    return normalised(s / np.add.outer(np.exp(theta[:rows]), np.exp(theta[rows:])))


REFERENCES = {
    "product": product,
    "mrf-logit": mrf_logit,
    "mrf-prob": mrf_prob,
    "hcb": hcb,
    "ag": ag,
    "ag-published": ag_published,
    "ag-weighted": ag_weighted,
    "gibbs": gibbs,
    "l2r": l2r,
    "r2l": r2l,
    "mixture": mixture,
}


def p_value(samples, supports, q):
    """Chi-square of samples [draws, blanks] over all fillings, those of expected counts below 5 together."""
    places = [s.indices(samples[:, i]).numpy() for i, s in enumerate(supports)]
    counts = np.bincount(np.ravel_multi_index(places, q.shape), minlength=q.size)
    expected = q.flatten() * len(samples)
    rare = expected < 5
    seen = np.append(counts[~rare], counts[rare].sum())
    wanted = np.append(expected[~rare], expected[rare].sum())
    keep = wanted > 1e-3
    return stats.chi2.sf(((seen - wanted)[keep] ** 2 / wanted[keep]).sum(), keep.sum() - 1)
