"""Mix models of one architecture: the weighted mean of their weights, as a checkpoint.

    python recipes/mix.py --out DIR MODEL=SHARE [MODEL=SHARE ...]

Stages of one training lie close enough together for it. The tokenizer is that of the last model.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

from unmask.models.embedded import locate


def mix(shares: Mapping[Path, float], target: Path) -> Path:
    """Write the weighted mean of the weights of some models, by their shares, into a directory."""
    paths = list(shares)
    weights = [AutoModelForMaskedLM.from_pretrained(path, dtype=torch.float32).state_dict() for path in paths]
    model = AutoModelForMaskedLM.from_pretrained(paths[-1], dtype=torch.float32)
    model.load_state_dict(
        {
            name: sum(share * of[name] for share, of in zip(shares.values(), weights, strict=True))
            for name in weights[-1]
        }
    )
    model.save_pretrained(target)
    return target


def main() -> None:
    """Mix what the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "models", nargs="+", metavar="MODEL=SHARE", help="english or a directory, and a number"
    )
    parser.add_argument("--out", type=Path, required=True, help="the directory of the mixture")
    options = parser.parse_args()
    named = dict(text.rsplit("=", 1) for text in options.models)
    shares = {Path(locate(name)): float(share) for name, share in named.items()}
    mix(shares, options.out)
    AutoTokenizer.from_pretrained(list(shares)[-1]).save_pretrained(options.out)


if __name__ == "__main__":
    main()
