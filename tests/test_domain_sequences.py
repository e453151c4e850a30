"""The script of the docs that takes antibodies and reactions out of packages."""

import importlib.util
import io
import random
import sys
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[1] / "docs" / "other_domains" / "sequences.py"
HEAVY = "EVQLVESGGGLVQPGGSLRLSCAASGFNIKDTYIHWVRQAPGKGLEWVARIYPTNGYTRYADSVKGWGQGTLVTVSS"
LIGHT = "DIQMTQSPSSLSASVGDRVTITCRASQDVNTAVAWYQQKPGKAPKLLIYSASFLYSGVPSRFSGFGQGTKVEIK"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sequences", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def gene_of(script: ModuleType, chain: str) -> str:
    codons = {residue: codon for codon, residue in script.CODONS.items()}
    return "".join(codons[residue] for residue in chain)


def test_a_gene_is_translated_in_the_frame_that_ends_like_a_chain(script):
    gene = gene_of(script, HEAVY)
    assert [script.translate(before + gene) for before in ("", "A", "AC")] == [HEAVY] * 3
    assert script.translate(gene[:60]) is None
    assert script.translate(gene[:30] + "TAA" + gene[30:]) is None


def test_the_standard_code_is_used(script):
    assert [script.CODONS[codon] for codon in ("ATG", "TGG", "TAA", "GAT", "AAA")] == list("MW*DK")


def test_relatives_are_on_the_same_side(script, tmp_path, monkeypatch):
    mutant = HEAVY.replace("KDTY", "KDSY")
    wheel = tmp_path / "abstar-0.8.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, chains in zip(script.GENES, ((HEAVY, mutant, HEAVY), (LIGHT,)), strict=True):
            records = (f">{n}\n{gene_of(script, chain)}\n" for n, chain in enumerate(chains))
            archive.writestr(name, "".join(records))
    assert sorted(map(sorted, script.read_chains(wheel))) == [[LIGHT], sorted([HEAVY, mutant])]
    monkeypatch.setattr(sys, "argv", ["sequences.py", str(wheel), str(tmp_path / "chains"), "--test", "1"])
    script.main()
    assert (tmp_path / "chains-test.txt").read_text().split() == [LIGHT]
    assert set((tmp_path / "chains.txt").read_text().split()) == {HEAVY, mutant}


def test_one_reaction_of_each_patent_is_drawn(script, tmp_path):
    rows = ["id,class,reactions", "US1,1,C>>CO", "US1,2,C>>CN", "US2,1,C>>CCl", f"US3,1,{'C' * 200}>>C"]
    text = "\n".join(rows).encode()
    with tarfile.open(tmp_path / "synrbl-1.0.6.tar.gz", "w:gz") as tar:
        member = tarfile.TarInfo(f"synrbl-1.0.6/{script.USPTO}")
        member.size = len(text)
        tar.addfile(member, io.BytesIO(text))
    groups = script.read_reactions(tmp_path / "synrbl-1.0.6.tar.gz", random.Random(0))
    assert sorted(map(len, groups)) == [1, 1]
    assert ["C>>CCl"] in groups


def test_another_package_is_refused(script, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["sequences.py", str(tmp_path / "numpy-2.0.whl"), "out"])
    with pytest.raises(SystemExit, match="expected abstar"):
        script.main()
