"""The published procedure for one pair of blanks, plainly: the baseline of the benchmarks.

The procedure of Torroba Hennigen & Kim (2023), written anew from its description, not from their code, with
none of the tricks of `unmask`: every filling goes through the whole Hugging Face model, whose logits are
computed at every position and cut to the asked one afterwards; every scheme holds its joint and both its
conditionals as tables of all pairs (five schemes: fifteen tables at once); Arnold-Gokhale is 40 rounds of the
fixed point q <- S / (1/q_a + 1/q_b) in plain tensor operations; the metrics are sums over whole tables.

    python benchmarks/published.py "The {man} {is} playing in the park."
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from machine import TEXT, Peak, hugging_face, parser

ROUNDS = 40
BATCH = 64


@dataclass
class Logits:
    """What the model says of a pair: logits of A given B and of B given A [a, b], and with both masked."""

    a_given_b: Tensor
    b_given_a: Tensor
    a_alone: Tensor
    b_alone: Tensor


@torch.inference_mode()
def ask(model: Any, ids: Sequence[int], blanks: Sequence[int], tokens: Tensor, batch: int = BATCH) -> Logits:
    """Ask a Hugging Face model about every token at each of two masked positions."""
    masked = torch.tensor(ids)

    def logits(filled: int, asked: int) -> Tensor:
        rows = masked.repeat(len(tokens), 1)
        rows[:, filled] = tokens
        parts = [model(input_ids=part).logits[:, asked][:, tokens] for part in rows.split(batch)]
        return torch.cat(parts)

    a, b = blanks
    alone = model(input_ids=masked[None]).logits[0]
    return Logits(logits(b, a).T.contiguous(), logits(a, b), alone[a, tokens], alone[b, tokens])


def arnold_gokhale(p: Tensor, r: Tensor, rounds: int = ROUNDS) -> Tensor:
    """Return the joint [a, b] after so many rounds of the published fixed point, from a uniform one."""
    s = p + r
    q = torch.full_like(s, 1 / s.numel())
    for _ in range(rounds):
        q_a, q_b = q.sum(1, keepdim=True), q.sum(0, keepdim=True)
        q = s / (1 / q_a + 1 / q_b)
        q = q / q.sum()
    return q


def joints(logits: Logits) -> dict[str, Tensor]:
    """Return the log joint [a, b] of each published scheme."""
    log_p, log_r = logits.a_given_b.log_softmax(0), logits.b_given_a.log_softmax(1)
    alone_a, alone_b = logits.a_alone.log_softmax(0), logits.b_alone.log_softmax(0)
    pivot = int(alone_a.argmax())
    weights = {
        "product": alone_a[:, None] + alone_b[None, :],
        "mrf-logit": logits.a_given_b + logits.b_given_a,
        "mrf-prob": log_p + log_r,
        "hcb": log_p - log_p[pivot] + log_r[pivot],
        "ag-published": arnold_gokhale(log_p.exp(), log_r.exp()).log(),
    }
    return {name: weight - weight.flatten().logsumexp(0) for name, weight in weights.items()}


def metrics(logits: Logits, log_q: dict[str, Tensor], truth: tuple[int, int]) -> dict[str, dict[str, float]]:
    """Return U, P, A-KL and G-KL of each scheme for the true row and column."""
    log_p, log_r = logits.a_given_b.log_softmax(0), logits.b_given_a.log_softmax(1)
    a, b = truth
    given_b = {name: q - q.logsumexp(0, keepdim=True) for name, q in log_q.items()}
    given_a = {name: q - q.logsumexp(1, keepdim=True) for name, q in log_q.items()}
    found = {}
    for name, joint in log_q.items():
        of_columns = (log_p.exp() * (log_p - given_b[name])).sum(0)
        of_rows = (log_r.exp() * (log_r - given_a[name])).sum(1)
        unary = (log_p, log_r) if name == "product" else (given_b[name], given_a[name])
        found[name] = {
            "log_prob": float(joint[a, b]),
            "log_a_given_b": float(unary[0][a, b]),
            "log_b_given_a": float(unary[1][a, b]),
            "a_kl": float((of_columns.sum() + of_rows.sum()) / (len(of_columns) + len(of_rows))),
            "g_kl": float((of_columns[b] + of_rows[a]) / 2),
        }
    return found


def measure(text: str = TEXT, model: str = "english", tokens: int | None = None) -> dict[str, Any]:
    """Do a whole pair and return its seconds, its peak memory above the loaded model's, and its metrics.

    `tokens` cuts the vocabulary to the first so many, for a trial.
    """
    from unmask.text.cloze import parse_braces
    from unmask.text.support import Support

    mlm = hugging_face(model, device="cpu")
    cloze = parse_braces(text, mlm.vocabulary, mlm.window)
    support = Support.words(mlm.vocabulary).ids[:tokens]
    assert cloze.truth is not None
    support = torch.unique(torch.cat([support, torch.tensor(cloze.truth)]))
    a, b = (int((support == token).nonzero()) for token in cloze.truth)
    ask(mlm.model, cloze.ids, cloze.blanks, support[:8])
    with Peak() as peak:
        start = time.perf_counter()
        logits = ask(mlm.model, cloze.ids, cloze.blanks, support)
        asked = time.perf_counter()
        found = metrics(logits, joints(logits), (a, b))
        end = time.perf_counter()
    return {
        "seconds": end - start,
        "forward_seconds": asked - start,
        "peak_bytes": peak.bytes,
        "tokens": len(support),
        "metrics": found,
    }


def main() -> None:
    options = parser(__doc__)
    options.add_argument("text", nargs="?", default=TEXT)
    options.add_argument("--model", default="english")
    options.add_argument("--tokens", type=int, help="only so many tokens of the vocabulary")
    print(json.dumps(measure(**vars(options.parse_args()))))


if __name__ == "__main__":
    main()
