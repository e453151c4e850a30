"""`make wheel`: build the wheel, install it without extras into an empty environment, and try it.

What the core is for must work; whatever needs an extra must name it in one line, with an exit code and no
traceback. Installing takes a few minutes, so this is a command and not a test.
"""

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from dependencies import CONSTRAINTS, ROOT

TEXT = "The [MASK] [MASK] in the pool."
WORKS = [
    ["fill", TEXT, "--json"],
    ["fill", "The [MASK] [MASK] [MASK].", "--support", "200"],
    ["score", "The {man} {is} here."],
    ["compare", TEXT, "-k", "8"],
    ["explain", TEXT, "-k", "8"],
    ["sample", TEXT, "-n", "3"],
    ["models"],
    ["cite"],
    ["--help"],
    ["embed", "texts.txt", "--out", "out.npy"],
    ["benchmark", "blanks", "--data", "text=texts.txt", "--blanks", "2", "--sentences", "2"],
]
NEEDS = {
    "serve": [["serve"]],
    "train": [
        ["train", "--corpus", "texts.txt", "--out", "run"],
        ["finetune", "classify", "--train", "examples.csv", "--out", "run"],
    ],
    "evaluate": [["evaluate", "--data", "text=texts.txt", "--out", "run"]],
    "embed": [["embed", "texts.txt", "--out", "out.parquet"], ["isotropy", "texts.txt", "--figure", "x.svg"]],
    "ray": [["score", "texts.txt", "--ray", "local", "--out", "x.jsonl"]],
    "hub": [["benchmark", "blanks", "--data", "hub:glue"]],
    "sample": [["sample", "--length", "5", "--sampler", "gibbs", "--chains", "2", "-n", "2"]],
    "tables": [["-c", "import unmask; unmask.score_sentences('The man.').to_pandas()"]],
    "lm-eval": [["-c", "import unmask.integrations.lm_eval"]],
}
"""By extra: commands that need it; those that start with -c are Python."""

ALONE = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
"""Without this tree's own sources, which pip and Python would find first."""


def run(bin: Path, here: Path, arguments: list[str]) -> tuple[int, str, str]:
    """Run unmask, or Python, in the environment."""
    command = [str(bin / "python"), *arguments] if arguments[0] == "-c" else [str(bin / "unmask"), *arguments]
    done = subprocess.run(
        command, cwd=here, env=ALONE, capture_output=True, text=True, timeout=600, check=False
    )
    return done.returncode, done.stdout, done.stderr


def main() -> None:
    failures = []
    with tempfile.TemporaryDirectory() as directory:
        here = Path(directory)
        build = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--no-deps",
            "--quiet",
            "--wheel-dir",
            str(here),
            str(ROOT),
        ]
        subprocess.run([*build, "--no-build-isolation"], check=True)
        (wheel,) = here.glob("unmask-*.whl")
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB", flush=True)
        venv.create(here / "venv", with_pip=True)
        bin = here / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
        install = [str(bin / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "-c", str(CONSTRAINTS), str(wheel)], env=ALONE, check=True)
        (here / "texts.txt").write_text(
            "The man is in the pool.\nA dog runs in the park.\nThe old man sleeps.\n"
        )
        (here / "examples.csv").write_text("text,label\nThe man is here.,yes\nA dog runs.,no\n" * 4)
        for arguments in WORKS:
            code, _, told = run(bin, here, arguments)
            print(f"{'works' if code == 0 else 'FAILS'}: unmask {' '.join(arguments)}", flush=True)
            failures += [f"{arguments}: {told}"] if code else []
        for extra, commands in NEEDS.items():
            for arguments in commands:
                code, out, told = run(bin, here, arguments)
                line = told.strip().splitlines()[-1] if told.strip() else ""
                plain = arguments[0] == "-c" or (len(told.splitlines()) == 1 and code in (1, 2) and not out)
                named = code != 0 and f"pip install 'unmask[{extra}]'" in line and plain
                print(f"{'names' if named else 'FAILS'}: {extra}: {line}", flush=True)
                failures += [] if named else [f"{arguments} ({code}): {told[-2000:]}"]
    if failures:
        sys.exit("\n".join(["the wheel failed:", *failures]))


if __name__ == "__main__":
    main()
