"""Where memory runs out: each way in which that is told is 503, and the server works again afterwards.

The limits are real ones, of a process that each test starts.
"""

import gc
import os
import subprocess
import sys
import textwrap
import threading
import weakref

import pytest
from fastapi.testclient import TestClient
from live import soon

from unmask.web import create_app
from unmask.web.deadline import Deadline
from unmask.web.pool import Pool

linux = pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA and glibc's heap are Linux's")

LIMITED = """
    import contextlib, re, resource

    @contextlib.contextmanager
    def no_more_than(extra):
        '''Let this process have no more than so many bytes beyond those that it has.'''
        status = open("/proc/self/status").read()
        now = 1024 * int(re.search(r"VmData:\\s+(\\d+) kB", status)[1])
        resource.setrlimit(resource.RLIMIT_DATA, (now + extra, resource.RLIM_INFINITY))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY,) * 2)
"""


def run(script: str, *given: str, **environment: str) -> list[str]:
    """Run a script in a process of its own, and return the lines that it prints."""
    code = textwrap.dedent(LIMITED) + textwrap.dedent(script)
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *given],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **environment},
        check=False,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout.splitlines()


@linux
def test_every_way_of_telling_that_memory_ran_out_is_503():
    script = """
        import mmap, threading
        import numpy as np, torch
        from torch.nn import functional
        from unmask.web.errors import status_of

        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        many, few = torch.zeros(10**7), torch.zeros(60, 16)
        functional.gelu(torch.zeros(50, 16))
        for work in (
            lambda: torch.empty(10**9),  # torch's allocator
            lambda: many.topk(1),  # std::bad_alloc
            lambda: functional.gelu(few),  # oneDNN, which compiles a loop for each shape
            lambda: np.empty(10**9),
            lambda: bytearray(10**9),
            lambda: mmap.mmap(-1, 10**9, flags=private),  # the system
            lambda: threading.Thread(target=print).start(),
        ):
            with no_more_than(0):
                try:
                    work()
                    told = "nothing"
                except Exception as error:
                    told = f"{type(error).__name__} {error}"
                    status = status_of(error)
            print(status, told)
    """
    told = run(script)
    assert len(told) == 7
    assert all(line.startswith("503 ") for line in told), told
    kinds = {line.split()[1] for line in told}
    assert {"RuntimeError", "MemoryError", "OSError"} <= kinds
    assert any("bad_alloc" in line for line in told)
    assert any("thread" in line for line in told)


@linux
def test_the_server_multiplies_without_compiling():
    script = """
        import torch
        from fastapi.testclient import TestClient
        from torch.nn import functional
        from unmask import linear_layers
        from unmask.web import Settings, create_app

        linear_layers.onednn_is_faster = lambda: True
        app = create_app(Settings(hosts=None))
        app.state.service.warm_up = lambda: None
        layer, rows = linear_layers.FastLinear(64, 64), torch.zeros(60, 64)
        with TestClient(app), torch.inference_mode():
            layer(rows[:50])
            with no_more_than(10**5):  # the result's 15 kB, and no compiled loop's
                print(layer(rows).shape, functional.gelu(rows).shape)
    """
    assert run(script) == ["torch.Size([60, 64]) torch.Size([60, 64])"]


@linux
def test_a_worker_that_had_no_memory_to_compile_a_loop_is_replaced():
    script = """
        import threading, torch
        from torch.nn import functional
        from unmask.web.deadline import Deadline
        from unmask.web.pool import Pool

        pool = Pool(workers=1, queue=1)
        ask = lambda rows: pool.submit(
            lambda _: (functional.gelu(torch.zeros(rows, 16)).shape[0], threading.get_ident()), Deadline(60)
        )
        rows, first = ask(50).result(60)

        def ask_without_memory(_):
            table = torch.zeros(60, 16)
            with no_more_than(0):
                functional.gelu(table)

        print(type(pool.submit(ask_without_memory, Deadline(60)).exception(60)).__name__)
        rows, then = ask(61).result(60)
        print(rows, first != then)
        print(ask(62).result(60) == (62, then), pool.busy, pool.waiting)
    """
    assert run(script) == ["MemoryError", "61 True", "True 0 0"]


@linux
def test_work_does_not_begin_without_free_memory():
    script = """
        from unmask.web.deadline import Deadline
        from unmask.web.errors import message_of, status_of
        from unmask.web.pool import Pool

        pool, done = Pool(workers=1, queue=1), []
        with no_more_than(0):
            error = pool.submit(lambda _: done.append(1), Deadline(60)).exception(60)
        print(status_of(error), message_of(error), done)
        pool.submit(lambda _: done.append(2), Deadline(60)).result(60)
        print(done)
    """
    refused, later = run(script)
    assert refused.startswith("503 the server has too little free memory")
    assert (refused[-2:], later) == ("[]", "[2]")


@linux
def test_a_body_that_there_is_no_memory_to_read_is_503_and_not_the_clients_fault():
    script = """
        from fastapi.testclient import TestClient
        from unmask.web import Limits, Settings, create_app

        app = create_app(Settings(hosts=None, limits=Limits(body=10**9)))
        app.state.service.warm_up = lambda: None
        body = b'{"text": [' + b"1," * 10**7 + b"1]}"
        with TestClient(app, raise_server_exceptions=False) as client, no_more_than(10**8):
            answer = client.post("/v1/fill", content=body, headers={"Content-Type": "application/json"})
        print(answer.status_code, answer.headers["retry-after"], *answer.json())
    """
    assert run(script) == ["503 10 error"]


def test_so_is_a_shortage_outside_of_the_workers(settings):
    app = create_app(settings())
    app.state.service.warm_up = lambda: None
    app.add_api_route("/large", lambda: bytearray(2**60))
    with TestClient(app, raise_server_exceptions=False) as client:
        answer = client.get("/large")
    assert answer.status_code == 503
    assert "out of memory" in answer.json()["error"]
    assert answer.headers["retry-after"].isdecimal()


@linux
def test_a_model_that_there_is_no_memory_to_load_is_503_and_loads_later(checkpoint):
    script = """
        import sys
        from fastapi.testclient import TestClient
        from unmask.web import Settings, create_app

        models = {"english": "english", "other": sys.argv[1]}
        with TestClient(create_app(Settings(models=models, hosts=None, device="cpu"))) as client:
            ask = lambda model: client.post("/v1/fill", json={"text": "The [MASK].", "model": model})
            print(ask("english").status_code)
            with no_more_than(0):
                print(ask("other").status_code)
            print(ask("other").status_code)
    """
    assert run(script, str(checkpoint("bert"))) == ["200", "503", "200"]


@linux
def test_no_question_needs_a_compiled_loop_that_the_start_has_not_loaded():
    script = """
        import gc
        from fastapi.testclient import TestClient
        from numba.core.dispatcher import Dispatcher
        from unmask.web import Settings, create_app
        from unmask.web.service import Service

        def loaded():
            loops = [one for one in gc.get_objects() if isinstance(one, Dispatcher)]
            return {(one.py_func.__qualname__, types) for one in loops for types in one.signatures}

        app = create_app(Settings(hosts=None))
        app.state.service._warm_up()
        app.state.service.warm_up = lambda: None
        before = loaded()
        two, three = "The [MASK] [MASK] in the park.", "The [MASK] [MASK] in the [MASK]."
        with TestClient(app) as client:
            for route, asked in (
                ("compare", {"text": two}),
                ("compare", {"text": two, "candidates": "all", "support": 50}),
                ("fill", {"text": three}),
                ("fill", {"text": three, "method": "grid"}),
                ("map", {"text": two}),
                ("compatibility", {"text": two}),
            ):
                assert client.post(f"/v1/{route}", json={"support": 100, **asked}).is_success
        print(len(before) > 5, loaded() - before)
    """
    assert run(script) == ["True set()"]


@linux
def test_the_cache_says_what_it_holds():
    script = """
        import ctypes, gc
        from unmask.web import Settings
        from unmask.web.deadline import Deadline
        from unmask.web.handlers import ROUTES
        from unmask.web.service import Service

        class Heap(ctypes.Structure):  # mallinfo2(3)
            names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
            _fields_ = [(name, ctypes.c_size_t) for name in names.split()]

        library = ctypes.CDLL(None)
        library.mallinfo2.restype = Heap

        def used():
            gc.collect()
            heap = library.mallinfo2()
            return heap.uordblks + heap.hblkhd

        service = Service(Settings())
        routes = {route.path.rpartition("/")[2]: route.request for route in ROUTES}

        def ask(name, text):
            body = routes[name].model_validate({"text": text, "candidates": 8, "support": 100})
            service._work(service._validated(body), name, Deadline(300))

        for name in routes.keys() & {"fill", "compare"}:
            ask(name, "The [MASK] [MASK].")
        service.conditionals._kept.drop_where(lambda _: True)
        for number in range(10):
            ask("fill", f"The {number} [MASK] [MASK] in the park.")
            ask("compare", f"The {number} [MASK] [MASK] in the park.")
        ask("fill", "The [MASK] [MASK] is [MASK] in the park.")
        kept = service.conditionals.bytes
        held = used()
        service.conditionals._kept.drop_where(lambda _: True)
        print(kept, held - used())
    """
    ((kept, held),) = (map(int, line.split()) for line in run(script, PYTHONMALLOC="malloc"))
    assert kept > 10**6
    assert 0.95 < kept / held < 1.05


@linux
def test_what_was_freed_between_kept_tables_goes_back_to_the_system():
    script = """
        import torch
        from unmask.web.free_memory import FreedMemory

        def resident():
            return 4096 * int(open("/proc/self/statm").read().split()[1])

        torch.zeros(8 * 2**20)  # glibc takes blocks of less than the largest freed one from its heap
        start = resident()
        kept = [torch.zeros(2**16) for _ in range(800)][::8]  # 200 MB, of which 175 are freed
        before = resident() - start
        FreedMemory().give_back()
        print(before > 150e6, resident() - start < 40e6)
    """
    assert run(script) == ["True True"]


def test_a_pool_that_is_closed_drops_what_waits_and_opens_again():
    pool, gate = Pool(workers=1, queue=2), threading.Event()
    running = pool.submit(lambda _: gate.wait(10), Deadline(60))
    soon(lambda: pool.busy == 1, 5)
    waiting = pool.submit(lambda _: None, Deadline(60))
    pool.close()
    assert waiting.cancelled()
    gate.set()
    assert running.result(10)
    pool.open()
    assert pool.submit(lambda _: 3, Deadline(60)).result(10) == 3
    pool.close()


def test_an_error_of_work_is_freed_with_its_frames():
    class Table:
        pass

    found: list[weakref.ref[Table]] = []

    def fail(_: Deadline) -> None:
        table = Table()
        found.append(weakref.ref(table))
        raise ValueError

    pool = Pool(workers=1, queue=1)
    gc.disable()
    try:
        assert isinstance(pool.submit(fail, Deadline(60)).exception(10), ValueError)
        soon(lambda: found[0]() is None, 5)
    finally:
        gc.enable()
        pool.close()
