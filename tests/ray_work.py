"""Work for the tests of the cluster: in a module of its own, which worker processes can import."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from unmask.errors import RunError


def squares() -> Callable[[int], tuple[int, int, str]]:
    """A tool that is made once a process; its results tell where they were made."""
    made = os.getpid()
    return lambda task: (task * task, made, os.environ["OMP_NUM_THREADS"])


def slow_squares() -> Callable[[int], tuple[int, str]]:
    import ray

    node = ray.get_runtime_context().get_node_id()

    def work(task: int) -> tuple[int, str]:
        time.sleep(0.15)
        return task * task, node

    return work


class Waiting:
    """Tells where each task is at work by a file, and works until it is told to end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self) -> Callable[[int], int]:
        import ray

        node = ray.get_runtime_context().get_node_id()

        def work(task: int) -> int:
            (self.folder / f"{node}.{task}.{os.getpid()}").touch()
            while not (self.folder / "end").exists():
                time.sleep(0.05)
            return task

        return work


def fails_to_load() -> Callable[[int], int]:
    raise RunError("the model is damaged: get it anew")


def stumbles() -> Callable[[int], int]:
    return lambda task: 1 // task


class Deadly:
    """Kills its process at one task: the first time only if there is a file to remember it by."""

    def __init__(self, task: int, memory: Path | None) -> None:
        self.task, self.memory = task, memory

    def __call__(self) -> Callable[[int], int]:
        def work(task: int) -> int:
            if task == self.task and not (self.memory and self.memory.exists()):
                if self.memory:
                    self.memory.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return task

        return work
