"""The card of a pair head: what it is, how it was made, and its held-out error by distance."""

from __future__ import annotations

from unmask.models.pair_head import FILE, PairHeadCard


def card_text(card: PairHeadCard, history: list[dict[str, float]]) -> str:
    """Return the card in Markdown."""
    said = card.training
    rows = [
        f"| {e.distance} | {e.pairs:,} | {e.kl_without:.3f} | {e.kl:.3f} | {e.shift:.3f} |"
        for e in card.held_out
    ]
    course = [f"| {int(h['step']):,} | {h['loss']:.3f} | {h['held_out']:.3f} |" for h in history]
    lines = [
        f"# Pair head of `{card.model}`",
        "",
        "Predicts, from one forward pass with two or more blanks masked, what the model would say of one",
        f"blank if another were filled. It fits the weights with the digest `{card.weights}` and no others.",
        "",
        f"    unmask fill TEXT --model {card.model} --pair-head {FILE} --candidates 0",
        "",
        f"Trained on {said['targets']:,} conditionals of {said['texts']:,} texts "
        f"({', '.join(said['corpora'])}), cut to {said['max_length']} tokens, in "
        f"{said['steps']:,} steps; width {card.width}, seed {said['seed']}."
        + (" It started from another head." if said.get("from_head") else ""),
        "",
        "## Error on held-out text",
        "",
        "KL divergence of the model's conditional from the predicted one, in nats, without and with the",
        "head, and the mean error of the log-probability of the true token.",
        "",
        "| distance | conditionals | KL without | KL | error of log p |",
        "|---:|---:|---:|---:|---:|",
        *rows,
        "",
        "## Course",
        "",
        "| step | training KL | held-out KL |",
        "|---:|---:|---:|",
        *course,
        "",
    ]
    return "\n".join(lines)
