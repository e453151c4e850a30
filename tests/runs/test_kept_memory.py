"""Freed memory is kept for the next step: told by the pages that the system hands out."""

import subprocess
import sys

import pytest

from unmask.runs.kept_memory import keep_freed_memory

STEPS = """
import resource
import torch
from unmask.runs.kept_memory import keep_freed_memory

if {keep}:
    assert keep_freed_memory()
def step():
    for megabytes in (5, 40, 80):
        torch.zeros(megabytes * 250_000)
for _ in range(4):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def pages_of_a_later_step(keep):
    found = subprocess.run(
        [sys.executable, "-c", STEPS.format(keep=keep)], capture_output=True, text=True, check=True
    )
    return int(found.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's way")
def test_a_later_step_needs_no_new_pages():
    assert pages_of_a_later_step(keep=True) < pages_of_a_later_step(keep=False) / 10


def test_another_c_library_is_told(monkeypatch):
    monkeypatch.setattr("ctypes.CDLL", lambda _: object())
    assert keep_freed_memory() is False
