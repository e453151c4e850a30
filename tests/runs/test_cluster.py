"""Work spread over a Ray cluster: all of it, once, whatever dies on the way."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
from ray.cluster_utils import Cluster

import ray_work
from unmask.errors import RunError, UsageError
from unmask.runs.cluster import _check_reachable, spread

TESTS = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def quiet_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{TESTS}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two nodes of one CPU each, and this process connected to them."""
    small = {"num_cpus": 1, "object_store_memory": 10**8}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        nodes = Cluster(initialize_head=True, head_node_args=small | {"include_dashboard": False})
        nodes.add_node(**small)
        ray.init(address=nodes.address, log_to_driver=False)
        yield nodes
        ray.shutdown()
        nodes.shutdown()


def test_an_unreachable_address_is_one_clear_line() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with pytest.raises(RunError, match=f"can't reach a Ray cluster at '127.0.0.1:{port}'"):
        next(spread([1], ray_work.squares, address=f"127.0.0.1:{port}"))


@pytest.mark.parametrize(
    ("answer", "told"), [(b"", "timed out"), (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is not Ray")]
)
def test_what_listens_and_is_not_ray_is_one_clear_line(
    answer: bytes, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unmask.runs.cluster.REACH", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        gone = threading.Event()

        def serve() -> None:
            caller, _ = server.accept()
            with caller:
                caller.sendall(answer)
                gone.wait(10)

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        try:
            with pytest.raises(RunError, match=f"can't reach a Ray cluster at '{address}' .*{told}"):
                next(spread([1], ray_work.squares, address=address))
        finally:
            gone.set()
            serving.join(10)


@pytest.mark.parametrize("address", ["somewhere", "host:", ":6379", "host:port"])
def test_an_address_that_is_none_is_misuse(address: str) -> None:
    with pytest.raises(UsageError, match="HOST:PORT"):
        next(spread([1], ray_work.squares, address=address))


def test_no_workers_are_misuse() -> None:
    with pytest.raises(UsageError, match="at least one worker"):
        next(spread([1], ray_work.squares, workers=0))


def test_a_local_cluster_ends_with_the_work() -> None:
    assert sorted(value for _, (value, _, _) in spread([1, 2, 3], ray_work.squares, workers=1)) == [1, 4, 9]
    assert not ray.is_initialized()


def test_every_task_is_done_once_by_few_processes(cluster: Cluster) -> None:
    done = dict(spread(iter(range(20)), ray_work.squares, workers=2))
    assert {i: square for i, (square, _, _) in done.items()} == {i: i * i for i in range(20)}
    assert 1 <= len({process for _, process, _ in done.values()}) <= 2
    assert {threads for _, _, threads in done.values()} == {"1"}
    assert ray.is_initialized()  # what was connected before stays so


def test_no_tasks_are_soon_done(cluster: Cluster) -> None:
    assert list(spread([], ray_work.squares, workers=1)) == []


def test_a_worker_that_dies_gives_its_task_to_another(cluster: Cluster, tmp_path: Path) -> None:
    deadly = ray_work.Deadly(3, tmp_path / "died")
    assert sorted(spread(range(8), deadly, workers=2)) == [(i, i) for i in range(8)]
    assert (tmp_path / "died").exists()


def test_a_task_that_kills_every_worker_ends_the_work(cluster: Cluster) -> None:
    with pytest.raises(RunError, match="task 1 brought down 4 workers"):
        list(spread(range(2), ray_work.Deadly(1, None), workers=1))


def test_our_own_errors_come_through_as_they_are(cluster: Cluster) -> None:
    with pytest.raises(RunError, match=r"^the model is damaged: get it anew$"):
        list(spread([1], ray_work.fails_to_load, workers=1))


def test_other_errors_are_one_line(cluster: Cluster) -> None:
    with pytest.raises(RunError, match="ZeroDivisionError") as caught:
        list(spread([0], ray_work.stumbles, workers=1))
    assert "\n" not in str(caught.value)


def test_a_node_killed_in_mid_run_loses_nothing(cluster: Cluster) -> None:
    doomed = cluster.add_node(num_cpus=1, object_store_memory=10**8)
    cluster.wait_for_nodes()
    killed = False
    done: dict[int, tuple[int, str]] = {}
    for number, result in spread(range(60), ray_work.slow_squares, workers=3):
        assert number not in done
        done[number] = result
        if result[1] == doomed.node_id and not killed:
            cluster.remove_node(doomed, allow_graceful=False)
            killed = True
    assert killed
    assert {number: square for number, (square, _) in done.items()} == {i: i * i for i in range(60)}


def test_the_idle_workers_of_a_dead_node_get_no_task(cluster: Cluster, tmp_path: Path) -> None:
    doomed = cluster.add_node(num_cpus=6, object_store_memory=10**8)
    cluster.wait_for_nodes()

    def kill_in_mid_run() -> None:
        while len(list(tmp_path.glob("*.*.*"))) < 3 or not list(tmp_path.glob(f"{doomed.node_id}.*")):
            time.sleep(0.1)
        time.sleep(3)  # the others have started meanwhile, and are idle
        cluster.remove_node(doomed, allow_graceful=False)
        (tmp_path / "end").touch()

    killing = threading.Thread(target=kill_in_mid_run, daemon=True)
    killing.start()
    assert sorted(spread(range(3), ray_work.Waiting(tmp_path), workers=8)) == [(0, 0), (1, 1), (2, 2)]
    killing.join(30)


def test_a_second_cluster_is_refused(cluster: Cluster) -> None:
    with pytest.raises(UsageError, match="connected to a Ray cluster already"):
        next(spread([1], ray_work.squares, address="10.0.0.1:6379"))


@pytest.mark.parametrize("address", ["local", "auto"])
def test_the_cluster_that_the_process_is_connected_to_is_used(cluster: Cluster, address: str) -> None:
    assert [value for _, (value, _, _) in spread([3], ray_work.squares, address=address, workers=1)] == [9]
    assert ray.is_initialized()


def test_a_cluster_that_runs_is_recognised(cluster: Cluster) -> None:
    _check_reachable(cluster.address)
