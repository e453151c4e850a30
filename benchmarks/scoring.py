"""How fast sentences are scored (PLL): batches across sentences against one masked copy per forward pass.

Each way runs in a fresh process on the same sentences, in one thread, and says how many seconds of processor
time it took (which other work on the machine changes little) and how much memory the process held at most.
The batches are given so small a budget (--memory) that they hold about what the baseline does.
The baseline is what the definition says: for every token a copy of the sentence with that token masked, one
copy per forward pass, through the whole model. All ways must agree to 1e-4 nats per sentence, or
the benchmark fails.

    python benchmarks/scoring.py [--model english] [--sentences FILE] [--count 60] [--memory 16MB]
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

from machine import describe, hugging_face, table

WAYS = ("one copy per pass", "one copy per pass, transformers", "batches across sentences")


def sentences(path: Path | None, count: int) -> list[str]:
    if path is not None:
        lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
        return list(itertools.islice(filter(None, lines), count))
    who = ["The old man", "A young woman in a red coat", "Two children", "The dog of my neighbour"]
    does = ["is waiting", "sat down and looked", "was playing with a ball", "walked slowly"]
    where = ["at the casino.", "in front of the house near the river.", "on the street.", "by the window."]
    return [" ".join(parts) for parts in itertools.product(who, does, where)][:count]


def score(way: str, model: str, texts: list[str], memory: str) -> None:
    """Score the texts one way, in this process, and print what it took as JSON."""
    import torch

    import unmask
    from unmask.inference.sentence_scores import SentenceScorer
    from unmask.inference.sentences import SentenceReader

    torch.set_num_threads(1)
    opens = hugging_face if way.endswith("transformers") else unmask.load
    mlm = opens(model, memory=memory, device="cpu")
    read = SentenceReader(mlm)
    parsed = [read(text) for text in texts]

    def plain(sentence) -> float:
        total = 0.0
        for position in sentence.positions:
            ids = torch.tensor([sentence.ids])
            ids[0, position] = mlm.vocabulary.mask_id
            logits = mlm.model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0, position]
            total += float(logits[: mlm.vocabulary.size].double().log_softmax(0)[sentence.ids[position]])
        return total

    with torch.inference_mode():
        plain(parsed[0])  # warm up
        start = time.process_time()
        if way == WAYS[-1]:
            found = [s.log_prob for s in SentenceScorer(mlm, ["pll"])(parsed)["pll"]]
        else:
            found = [plain(sentence) for sentence in parsed]
        taken = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": taken, "peak": peak, "scores": found, "tokens": sum(map(len, parsed))}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="english")
    parser.add_argument("--sentences", type=Path)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--memory", default="16MB", help="that the batches may take beyond the model")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    texts = sentences(given.sentences, given.count)
    if given.way:
        score(given.way, given.model, texts, given.memory)
        return
    found = {}
    for way in WAYS:
        command = [sys.executable, *sys.argv, "--way", way]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found[way] = json.loads(done.stdout.splitlines()[-1])
    base = found[WAYS[0]]
    for way in WAYS[1:]:
        worst = max(abs(a - b) for a, b in zip(base["scores"], found[way]["scores"], strict=True))
        if worst > 1e-4:
            raise SystemExit(f"{way} differs from {WAYS[0]} by {worst:.2g} nats")
    print("## Scoring sentences by pseudo-log-likelihood\n")
    print(
        f"{describe()}; 1 core used, model {given.model}, {len(texts)} sentences of {base['tokens']} tokens\n"
    )
    rows = []
    for way, row in found.items():
        speed, rate = base["seconds"] / row["seconds"], row["tokens"] / row["seconds"]
        target = "≥ 3" if way == WAYS[-1] else ""
        rows.append(
            (way, f"{row['seconds']:.2f}", f"{rate:.0f}", f"{speed:.1f}", target, f"{row['peak']:.0f} MB")
        )
    print(table(("way", "CPU seconds", "tokens/s", "ratio", "target", "peak memory"), rows))


if __name__ == "__main__":
    main()
