"""Many machines: the summary of one process, though a node is killed in mid-run."""

import os
from pathlib import Path

import pytest
import ray
import torch
import toy_data
from ray.cluster_utils import Cluster

from unmask.errors import RunError
from unmask.evaluation.run import evaluate
from unmask.evaluation.settings import Settings
from unmask.progress import Progress

TESTS = Path(__file__).parent.parent


class KillNode(Progress):
    """Kills a node of the cluster once it has seen some examples."""

    def __init__(self, cluster: Cluster, node: object) -> None:
        self.cluster, self.node, self.seen = cluster, node, 0

    def advanced(self, units: int) -> None:
        self.seen += units
        if self.seen >= 6 and self.node is not None:
            self.cluster.remove_node(self.node, allow_graceful=False)
            self.node = None


@pytest.fixture
def settings(tmp_path, checkpoint):
    data = toy_data.text_file(tmp_path / "sentences.txt", toy_data.SENTENCES * 3)
    model = str(checkpoint("bert"))
    return Settings(data=f"text={data}", model=model, examples=None, methods=("product", "ag", "gibbs"))


def test_a_cluster_of_several_nodes_gives_the_summary_of_one_process(tmp_path, settings, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    small = {"num_cpus": 1, "object_store_memory": 10**8}
    cluster = Cluster(initialize_head=True, head_node_args=small | {"include_dashboard": False})
    try:
        doomed = cluster.add_node(**small)
        cluster.wait_for_nodes()
        killer = KillNode(cluster, doomed)
        spread = evaluate(settings, tmp_path / "many", ray=cluster.address, workers=2, progress=killer)
        assert killer.node is None
    finally:
        ray.shutdown()
        cluster.shutdown()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as the workers have: sums are rounded alike then
    try:
        alone = evaluate(settings, tmp_path / "one")
    finally:
        torch.set_num_threads(threads)
    assert spread == alone
    kept = (tmp_path / "many" / "examples.jsonl").read_text().splitlines()
    assert len(kept) == 36


def test_an_unreachable_cluster_is_one_clear_line_and_the_run_can_go_on(tmp_path, settings):
    with pytest.raises(RunError, match=r"can't reach a Ray cluster at '127\.0\.0\.1:9'"):
        evaluate(settings, tmp_path / "run", ray="127.0.0.1:9")
    assert evaluate(settings, tmp_path / "run")["examples"] == 36
