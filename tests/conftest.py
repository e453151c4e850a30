"""What the tests share: every tiny checkpoint is saved once a session, and loaded once."""

import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression
from hypothesis import settings

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before anything of Hugging Face is imported
# workers of a Ray cluster import what the tests send them
os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])

import torch
from transformers import AutoModelForMaskedLM, PreTrainedModel

from tiny import ARCHITECTURES, save_tiny
from unmask.models.masked_lm import MaskedLM

# the same examples every time: a test that fails by luck fails for nobody's change
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("fuzz", deadline=None, database=None)  # others every time: see fuzz/campaign.py
settings.load_profile("repeatable")


MARKERS = {
    "browser": ("web/test_browser.py",),
    "ray": ("runs/test_cluster.py", "evaluation/test_ray.py"),
    "training": ("training/", "tasks/", "runs/test_every_run.py", "cli/test_finetune_commands.py"),
    "docs": ("docs/",),
    "slow": (
        *("inference/test_cross.py", "inference/test_sampling.py", "inference/test_query_bad_input.py"),
        *(
            "models/test_hub.py",
            "kernels/test_compiling.py",
            "models/test_checkpoint.py",
            "models/test_tiny.py",
            "test_other_domains.py",
            "benchmarks/",
        ),
        *("evaluation/test_benchmarks.py", "evaluation/test_score_file.py", "evaluation/test_run.py"),
        *("embeddings/", "cli/", "web/", "integrations/", "fuzz/"),
    ),
}
"""Which files of tests cost more than `make check` may take, and why."""


def markers_of(path: Path) -> set[str]:
    """The markers of a file of tests."""
    name = path.relative_to(Path(__file__).parent).as_posix()
    return {marker for marker, files in MARKERS.items() if name.startswith(files)}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import a file all of whose tests `-m` leaves out: that takes longer than many tests."""
    if collection_path.suffix != ".py" or not config.option.markexpr:
        return None
    expression = Expression.compile(config.option.markexpr)
    own = markers_of(collection_path)
    alone = expression.evaluate(lambda name, **_: name in own)
    with_others = expression.evaluate(lambda name, **_: name in own or name in MARKERS)  # of single tests
    return None if alone or with_others else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of a file."""
    for item in items:
        for marker in markers_of(item.path):
            item.add_marker(marker)


@pytest.fixture(scope="module", autouse=True)
def onednn_as_it_was() -> Iterator[None]:
    """Give the tests of other files back what a service switches off for its process."""
    before = torch.backends.mkldnn.enabled
    yield
    torch.backends.mkldnn.enabled = before


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The directory of an architecture's tiny checkpoint, which no test may change."""
    root = tmp_path_factory.mktemp("checkpoints")
    return cache(lambda architecture: save_tiny(architecture, root / architecture))


@pytest.fixture(scope="session")
def mlm_of(checkpoint: Callable[[str], Path]) -> Callable[[str], MaskedLM]:
    """The `MaskedLM` of an architecture's tiny checkpoint."""
    return cache(
        lambda architecture: MaskedLM.load(
            checkpoint(architecture), name=architecture, device="cpu", backend="transformers"
        )
    )


@pytest.fixture(scope="session")
def plain_model(checkpoint: Callable[[str], Path]) -> Callable[[str], PreTrainedModel]:
    """The same checkpoint as Hugging Face's own class, untouched by unmask: what answers are held against."""
    return cache(lambda architecture: AutoModelForMaskedLM.from_pretrained(checkpoint(architecture)).eval())


@pytest.fixture(scope="session", params=ARCHITECTURES)
def architecture(request: pytest.FixtureRequest) -> str:
    """Each architecture in turn."""
    return str(request.param)


@pytest.fixture(scope="session")
def mlm(architecture: str, mlm_of: Callable[[str], MaskedLM]) -> MaskedLM:
    """The model of each architecture in turn."""
    return mlm_of(architecture)
