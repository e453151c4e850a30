"""The first solution after installation says that it compiles; later ones find the loops on the disk."""

import os
import subprocess
import sys

import pytest

SOLVE = """
import torch, unmask
from unmask.kernels import compiling
compiling.tell = print
logits = torch.randn(2, 400, 400, generator=torch.Generator().manual_seed(0))
unmask.construct("ag", unmask.PairConditionals.from_logits(*logits))
"""


def test_it_is_told_once_after_installation(tmp_path) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    told = [
        subprocess.run(
            [sys.executable, "-c", SOLVE], env=environment, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert told[0].count("compiling") == 1
    assert told[1] == ""


@pytest.mark.parametrize("first", ["unmask.kernels.zermelo", "unmask.training.packing"])
def test_it_leaves_the_standard_streams_alone(tmp_path, first) -> None:
    pytest.importorskip("colorama")  # numba swaps the streams through it, where it is installed
    watched = "import colorama\ncolorama.init = colorama.reinit = lambda: print('swapped')\n"
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    environment.pop("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", None)  # it is set in this process
    code = f"{watched}import {first}\n{SOLVE}"
    solved = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert "compiling" in solved.stdout
    assert "swapped" not in solved.stdout
