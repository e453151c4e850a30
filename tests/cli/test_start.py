"""Start-up: what is refused is refused before torch is imported, which takes seconds."""

import json
import subprocess
import sys

REFUSALS = [
    ["fill", "a [MASK]", "--colour", "3"],
    ["fill", "a [MASK]", "--method", "best"],
    ["fill", "a [MASK]", "--candidates", "many"],
    ["sample", "--sampler", "best"],
    ["score", "nowhere.txt"],
    ["compare", "a [MASK] [MASK]", "--support", "none"],
    ["evaluate", "--data", "text=nowhere.txt", "-o", "run"],
    ["report", "nowhere"],
    ["benchmark", "blimp", "nowhere"],
    ["benchmark", "blanks", "--data", "text=nowhere.txt"],
    ["benchmark", "mutants", "nowhere.csv", "--wild-type", "MKT"],
    ["mutants", "score", "nowhere.csv", "--wild-type", "MKT"],
    ["mutants", "score", "nowhere.csv", "--wild-type", "MKT", "--scoring", "best"],
    ["mutants", "scan", "--wild-type", "MKT", "--sites", "two"],
    ["train", "--corpus", "nowhere.txt", "-o", "run"],
    ["distill", "--corpus", "nowhere.txt", "-o", "run"],
    ["finetune", "classify", "--train", "nowhere.tsv", "-o", "run"],
    ["finetune", "tag", "--train", "nowhere.conll", "-o", "run"],
    ["finetune", "predict", "nowhere", "nowhere.tsv"],
    ["finetune", "evaluate", "nowhere", "nowhere.tsv"],
    ["embed", "nowhere.txt", "-o", "out.npy"],
    ["isotropy", "nowhere.txt"],
    ["wsd", "fit", "nowhere.data.xml", "-o", "senses.safetensors"],
    ["cite", "nothing"],
]
SCRIPT = """
import json, sys
from unmask.cli import main
found = []
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["unmask", *arguments]
    try:
        main()
    except SystemExit as end:
        found.append([end.code, "torch" in sys.modules or "transformers" in sys.modules])
print(json.dumps(found))
"""


def test_refusals_import_nothing_heavy(tmp_path):
    """All in one process: the first one that imports torch is the one to look at."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(REFUSALS)], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [code for code, _ in found] == [2] * len(REFUSALS)
    heavy = [" ".join(arguments) for arguments, (_, torch) in zip(REFUSALS, found, strict=True) if torch]
    assert not heavy
    assert not list(tmp_path.iterdir())
