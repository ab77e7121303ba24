"""Studies at executors: the same bits anywhere, and a killed worker costs a retry."""

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import weakref
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from threadpoolctl import threadpool_info

import meanfield as mf
from meanfield.exceptions import Interrupted
from meanfield.studies.executors import mapped_by, opened
from tests.children import (
    ENVIRONMENT,
    LAST_RESORT,
    child,
    count_alive,
    hearing_ctrl_c,
    until,
    wait_for,
)

THREADS = "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"


def squared(task):
    return task * task


def killed_once(task):
    """Kills its worker when it is the first to reach task 1."""
    number, folder = task
    flag = Path(folder) / "killed"
    if number == 1 and not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def failing(task):
    if task == 3:
        raise ArithmeticError("no such number")
    return task


class Struck(Executor):
    """Takes tasks and runs none, until Ctrl-C strikes who waits for the first of them."""

    def __init__(self):
        self.futures = []

    def submit(self, run, *given):
        future = Future()
        self.futures.append(future)
        if len(self.futures) == 1:
            future.set_running_or_notify_cancel()
            future.set_exception(KeyboardInterrupt())
        return future


class KilledWorker(Exception):
    """As dask calls it."""


class Killing(Executor):
    """Loses the worker of each task."""

    count = 0

    def submit(self, run, *given):
        self.count += 1
        future = Future()
        future.set_exception(KilledWorker())
        return future


def test_ctrl_c_leaves_no_task_at_an_executor():
    executor = Struck()
    with pytest.raises(KeyboardInterrupt):
        list(mapped_by(executor, squared, [1, 2, 3]))
    assert [future.cancelled() for future in executor.futures] == [False, True, True]


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["processes", "threads"])
def test_ctrl_c_in_a_callback_is_not_lost(pool):
    """What Python calls by itself, as importlib to give back a lock, can raise nothing."""
    with hearing_ctrl_c(), ThreadPoolExecutor(1) as threads:
        asked = {"executor": threads} if pool == "threads" else {"executor": pool, "workers": 1}
        results = mapped_by(run=squared, tasks=[1, 2, 3], **asked)
        assert next(results) == 1
        anything = threading.Event()
        weakref.finalize(anything, os.kill, os.getpid(), signal.SIGINT)
        del anything
        with pytest.raises(KeyboardInterrupt):
            next(results)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def holding(task):
    """What a run has on Ctrl-C can't travel, and need not."""
    raise Interrupted("interrupted at t = 1", lambda: None)


@pytest.mark.slow
def test_what_one_task_has_on_ctrl_c_stays_where_it_is():
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        for executor in None, pool:
            with pytest.raises(KeyboardInterrupt) as stopped:
                list(mapped_by(executor, holding, [1]))
            assert not isinstance(stopped.value, Interrupted)


def study(executor):
    """A small study whose tasks draw random starts."""
    return mf.studies.mean_field_limit(
        mf.FourierSeries(cos=[0.5]),
        mf.SA(2.0),
        0.5,
        [20, 50],
        repeats=3,
        save_at=2,
        executor=executor,
    )


@pytest.fixture(scope="module")
def here():
    return study(None)


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes of a dask cluster on this machine."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            silence_logs="CRITICAL",
        ) as local,
        Client(local) as client,
    ):
        yield client


@pytest.mark.slow
def test_results_come_in_order():
    ended = threading.Event()

    def first_ends_last(task):
        if task == 0:
            assert ended.wait(LAST_RESORT)
        elif task == 2:
            ended.set()
        return task

    with ThreadPoolExecutor(3) as pool:
        assert list(mapped_by(pool, first_ends_last, [0, 1, 2])) == [0, 1, 2]
    assert list(mapped_by(None, squared, [3, 1, 2])) == [9, 1, 4]
    assert list(mapped_by(None, squared, [])) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("executor", "workers"),
    [(None, None), ("processes", 1), (ThreadPoolExecutor(1), None)],
    ids=["here", "processes", "threads"],
)
def test_a_task_that_fails_is_named(executor, workers):
    with pytest.raises(ArithmeticError, match="no such number") as caught:
        list(mapped_by(executor, failing, [1, 2, 3, 4], workers=workers))
    assert "in task 2 of the study: 3" in caught.value.__notes__


@pytest.mark.slow
def test_workers_are_processes():
    """They leave Ctrl-C to who waits for them; what has workers of its own is told none."""
    ((process, is_deaf),) = set(mapped_by(None, process_of, [1, 2, 3], workers=1))
    assert process != os.getpid()
    assert is_deaf
    for executor, workers, message in [
        (ThreadPoolExecutor(1), 1, "workers must be left out with an executor that has its own"),
        (None, 0, "workers must be an integer >= 1, got 0"),
        ("threads", None, "executor must be a concurrent.futures.Executor or 'processes', got 't"),
    ]:
        with pytest.raises(ValueError, match=message):
            mapped_by(executor, squared, [1], workers=workers)


def process_of(_):
    return os.getpid(), signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_what_can_not_travel_is_refused():
    for run, tasks in [(lambda task: task, [1]), (squared, [lambda task: task])]:
        with pytest.raises(ValueError, match="must be sent functions of a module and values that"):
            mapped_by("processes", run, tasks)


@pytest.mark.slow
def test_executors_give_the_same_bits(here, cluster):
    assert study("processes").identical(here)
    with ProcessPoolExecutor(2) as pool:
        assert study(pool).identical(here)
    assert study(cluster.get_executor()).identical(here)
    assert float(here.mmd.std()) > 0.0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["processes", "cluster"])
def test_a_killed_worker_costs_a_retry(name, request, tmp_path):
    is_own, tasks = name == "processes", [(number, str(tmp_path)) for number in range(4)]
    executor = name if is_own else request.getfixturevalue(name).get_executor()
    found = mapped_by(executor, killed_once, tasks, workers=1 if is_own else None)
    assert list(found) == [0, 1, 2, 3]
    assert (tmp_path / "killed").exists()


def test_a_task_that_always_kills_ends_the_study():
    killing = Killing()
    with pytest.raises(RuntimeError, match="task 0 of the study lost its worker twice") as caught:
        list(mapped_by(killing, squared, [7]))
    assert isinstance(caught.value.__cause__, KilledWorker)
    assert killing.count == 2


def test_a_foreign_pool_that_broke_is_told(tmp_path):
    tasks = [(number, str(tmp_path)) for number in range(4)]
    with (
        ProcessPoolExecutor(1) as pool,
        pytest.raises(RuntimeError, match=r"must take tasks again .* take 'processes'"),
    ):
        list(mapped_by(pool, killed_once, tasks))


@pytest.mark.slow
def test_a_cluster_beside_another():
    """What listens to the port of dask's dashboard is no reason for a warning."""
    with socket.socket() as other:
        # taken by somebody else, perhaps
        with suppress(OSError):
            other.bind(("", 8787))
            other.listen()
        with opened("dask", workers=1) as where:
            assert where["executor"].submit(squared, 3).result() == 9


@pytest.mark.slow
def test_a_solution_is_saved_beside_a_client(cluster, tmp_path):
    """In a process that has a client of dask, as a notebook has."""
    mu = mf.Density(mf.Circle(32), mf.FourierSeries(cos=[0.5]))
    sol = mf.evolve(mu, mf.SA(2.0), 0.2, 2, checkpoint=tmp_path / "checkpoint.nc")
    sol.save(tmp_path / "saved.nc")
    for name in "checkpoint.nc", "saved.nc":
        assert mf.load(tmp_path / name).dataset.identical(sol.dataset)
        with xr.open_dataset(tmp_path / name, engine="h5netcdf") as found:
            np.testing.assert_array_equal(found.energy, sol.dataset.energy)


def threads(_):
    """How many each library of matrices takes, that of SciPy among them, which comes late."""
    import scipy.linalg

    scipy.linalg.eigh(np.eye(2))
    return os.getpid(), [one["num_threads"] for one in threadpool_info()]


@contextmanager
def own_pool():
    """Of the user, from a process whose library has its threads already."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield {"executor": pool}


EXECUTORS = {
    "processes": lambda: opened("processes"),
    "dask": lambda: opened("dask", workers=1),
    "pool": own_pool,
}


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core: one thread in any case")
@pytest.mark.parametrize(
    ("name", "wanted"),
    [*((name, None) for name in EXECUTORS), ("processes", THREADS[0]), ("dask", THREADS[1])],
)
def test_a_worker_has_one_thread(monkeypatch, name, wanted):
    """Unless the user says how many."""
    for variable in THREADS:
        monkeypatch.delenv(variable, raising=False)
    if wanted:
        monkeypatch.setenv(wanted, "2")
    with EXECUTORS[name]() as where:
        ((process, found),) = mapped_by(run=threads, tasks=[0], **where)
    assert process != os.getpid()
    assert found
    assert set(found) == {2 if wanted else 1}


def test_threads_of_this_process_stay():
    """A worker that is a thread here leaves the libraries alone."""
    _, before = threads(0)
    with ThreadPoolExecutor(1) as pool:
        assert list(mapped_by(pool, threads, [0])) == [(os.getpid(), before)]


def announced(task):
    """Says what it is at, for ever but in the first task."""
    print(f"task {task}", flush=True)
    while task:
        np.ones((200, 200)) @ np.ones((200, 200))


# whose workers, at which tasks, and what tells that a worker starts, that they are at work, and
# that one is while another has no task
MOMENTS = {
    "starting": ("processes", [1, 2], lambda lines, alive: alive > 2),
    "at work": ("processes", [1, 2], lambda lines, alive: len(lines) == 2),
    "idle": ("processes", [0, 1], lambda lines, alive: {"result", "task 1"} <= {*lines}),
    "of dask": ("dask", [1, 2], lambda lines, alive: len(lines) == 2),
}
KILLED = """
import sys
from tests.studies.test_executors import announced, mapped_by, opened
if __name__ == "__main__":
    with opened(sys.argv[1], workers=2) as where:
        for _ in mapped_by(run=announced, tasks=[int(task) for task in sys.argv[2:]], **where):
            print("result", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_parent_that_is_killed_leaves_no_worker(moment, tmp_path):
    (name, tasks, is_due), said = MOMENTS[moment], tmp_path / "said.txt"
    program = [sys.executable, "-c", KILLED, name, *map(str, tasks)]
    with said.open("w") as out, child(program, stdout=out, env=ENVIRONMENT) as process:

        def is_there():
            return is_due(said.read_text().splitlines(), count_alive(process.pid))

        until(is_there, process)
        process.kill()
        process.wait()
        wait_for(lambda: count_alive(process.pid) == 0)


UNGUARDED = """
import meanfield as mf
law = mf.FourierSeries(cos=[0.5])
mf.studies.mean_field_limit(law, mf.SA(2.0), 0.1, [20], repeats=2, executor="processes")
print("done")
"""


@pytest.mark.slow
def test_a_script_without_a_main_guard(tmp_path):
    """Its workers import it, and come to the line that starts workers."""
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED)
    said = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, env=ENVIRONMENT, check=False
    )
    assert said.returncode == 1
    assert said.stdout == ""
    lines = said.stderr.splitlines()
    assert len(lines) < 35, said.stderr
    assert said.stderr.count("Traceback") == 1
    assert lines[-1] == (
        "RuntimeError: executor 'processes' has workers that import this script anew: put what it "
        'runs under `if __name__ == "__main__":`'
    )


def test_a_scheduler_that_does_not_answer_leaves_nothing_behind():
    """Its client would be that of all later work with dask in this process."""
    distributed = pytest.importorskip("distributed")

    def client():
        try:
            return distributed.default_client()
        except ValueError:
            return None

    before, where = client(), opened("dask", scheduler="nowhere://x")
    with pytest.raises(ValueError, match="scheduler must be the address"), where:
        pass
    assert client() is before
