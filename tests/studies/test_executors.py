"""Studies at executors: the same bits anywhere, and a killed worker costs a retry."""

import gc
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import weakref
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
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


def thread_counts():
    """How many threads each library of matrices takes, that of SciPy among them, which is late."""
    import scipy.linalg

    scipy.linalg.eigh(np.eye(2))
    return [library["num_threads"] for library in threadpool_info()]


@dataclass
class Report:
    """What a task sees where it is done."""

    task: int
    process: int
    is_deaf: bool
    threads: list[int]


def reported(task):
    """A report from all tasks but 3, which fails; task 1 kills its first worker, if it may."""
    number, folder = task
    if folder:
        killed_once(task)
    is_deaf = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    return Report(failing(number), os.getpid(), is_deaf, thread_counts())


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


def test_ctrl_c_in_a_callback_is_not_lost():
    """What Python calls by itself, as importlib to give back a lock, can raise nothing."""
    with hearing_ctrl_c(), ThreadPoolExecutor(1) as threads:
        results = mapped_by(threads, squared, [1, 2, 3])
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


@pytest.mark.parametrize("name", [None, pytest.param("pool", marks=pytest.mark.slow)])
def test_what_one_task_has_on_ctrl_c_stays_where_it_is(name, request):
    executor = name and request.getfixturevalue(name)
    with pytest.raises(KeyboardInterrupt) as stopped:
        list(mapped_by(executor, holding, [1]))
    assert not isinstance(stopped.value, Interrupted)


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


@pytest.mark.parametrize("executor", [None, ThreadPoolExecutor(1)], ids=["here", "threads"])
def test_a_task_that_fails_is_named(executor):
    with pytest.raises(ArithmeticError, match="no such number") as caught:
        list(mapped_by(executor, failing, [1, 2, 3, 4]))
    assert "in task 2 of the study: 3" in caught.value.__notes__


def test_workers_are_counted_where_they_are_ours():
    for executor, workers, message in [
        (ThreadPoolExecutor(1), 1, "workers must be left out with an executor that has its own"),
        (None, 0, "workers must be an integer >= 1, got 0"),
        ("threads", None, "executor must be a concurrent.futures.Executor or 'processes', got 't"),
    ]:
        with pytest.raises(ValueError, match=message):
            mapped_by(executor, squared, [1], workers=workers)


def test_what_can_not_travel_is_refused():
    for run, tasks in [(lambda task: task, [1]), (squared, [lambda task: task])]:
        with pytest.raises(ValueError, match="must be sent functions of a module and values that"):
            mapped_by("processes", run, tasks)


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


def test_threads_of_this_process_stay():
    """A worker that is a thread here leaves the libraries alone."""
    before = thread_counts()
    with ThreadPoolExecutor(1) as pool:
        (report,) = mapped_by(pool, reported, [(0, "")])
    assert report.process == os.getpid()
    assert report.threads == before


def announced(task):
    """Says what it is at, and with how many threads, for ever but in the first task."""
    print(f"task {task}, threads {sorted(set(thread_counts()))}", flush=True)
    while task:
        np.ones((200, 200)) @ np.ones((200, 200))


# whose workers, at which tasks, how the user says that they take two threads, and what tells that
# a worker starts, that one is at work while another has no task, and that both are at work
MOMENTS = {
    "starting": ("processes", [1, 2], THREADS[2], lambda _, group: count_alive(group) > 2),
    "idle": (
        "processes",
        [0, 1],
        THREADS[0],
        lambda lines, _: {"result", "task 1,"} <= {line[:7] for line in lines},
    ),
    "of dask": ("dask", [1, 2], THREADS[1], lambda lines, _: len(lines) == 2),
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
    """Until then workers have as many threads as the user says, where that can be more than one."""
    (name, tasks, variable, is_due), said = MOMENTS[moment], tmp_path / "said.txt"
    program = [sys.executable, "-c", KILLED, name, *map(str, tasks)]
    environment = {key: it for key, it in ENVIRONMENT.items() if key not in THREADS}
    environment[variable] = "2"
    with said.open("w") as out, child(program, stdout=out, env=environment) as process:
        until(lambda: is_due(said.read_text().splitlines(), process.pid), process)
        process.kill()
        process.wait()
        wait_for(lambda: count_alive(process.pid) == 0)
    if len(os.sched_getaffinity(0)) > 1:
        begun = [line for line in said.read_text().splitlines() if line.startswith("task")]
        assert all(line.endswith("threads [2]") for line in begun), begun


UNGUARDED = """
import meanfield as mf
mf.studies.phase_diagram(mf.SA(1.0), 3, 4, 0.1, executor="processes", workers=1)
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


@pytest.mark.slow
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
    # one that the collector finds while another starts would wait for that for ever
    clients = (it for it in gc.get_objects() if isinstance(it, distributed.Client))
    assert [it for it in clients if it.status == "connecting"] == []


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


@contextmanager
def unasked_threads():
    """Inside, the user does not say how many threads a process takes, and Ctrl-C is heard."""
    with pytest.MonkeyPatch.context() as patch, hearing_ctrl_c():
        for variable in THREADS:
            patch.delenv(variable, raising=False)
        yield


@pytest.fixture(scope="module")
def pool():
    """A worker process of the user, from a process whose library has its threads already."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as executor:
        with unasked_threads():
            executor.submit(squared, 1).result()
        yield executor


# the tests that take it stand at the end of this file: its workers need time while they wait, too
@pytest.fixture(scope="module")
def cluster():
    """Two worker processes of dask, though something listens to the port of its dashboard."""
    with socket.socket() as other, ExitStack() as stack:
        # taken by somebody else, perhaps
        with suppress(OSError):
            other.bind(("", 8787))
            other.listen()
        with unasked_threads():
            where = stack.enter_context(opened("dask", workers=2))
        yield where["executor"]


@pytest.fixture(scope="module", params=["processes", "pool", "cluster"])
def away(request, tmp_path_factory):
    """The name of an executor, reports from its workers, and how task 3 failed there."""
    name, reports = request.param, []
    executor = name if name == "processes" else request.getfixturevalue(name)
    # a pool of the user does not replace its worker
    folder = "" if name == "pool" else str(tmp_path_factory.mktemp("killed"))
    tasks = [(number, folder) for number in range(5)]
    workers = 1 if name == "processes" else None
    with unasked_threads(), pytest.raises(ArithmeticError, match="no such number") as caught:
        reports.extend(mapped_by(executor, reported, tasks, workers=workers))
    return name, reports, caught.value, tasks


@pytest.mark.slow
def test_a_task_that_fails_away_is_named(away):
    _, _, error, tasks = away
    assert f"in task 3 of the study: {tasks[3]}" in error.__notes__


@pytest.mark.slow
def test_a_killed_worker_costs_a_retry(away):
    name, reports, _, _ = away
    assert [report.task for report in reports] == [0, 1, 2]
    processes = {report.process for report in reports}
    assert os.getpid() not in processes
    # of two workers of dask either may have done the other tasks
    assert len(processes) in {"processes": {2}, "cluster": {1, 2, 3}, "pool": {1}}[name]


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core: one thread in any case")
def test_a_worker_has_one_thread(away):
    _, reports, _, _ = away
    for report in reports:
        assert set(report.threads) == {1}


@pytest.mark.slow
def test_workers_leave_ctrl_c_to_who_waits_for_them(away):
    name, reports, _, _ = away
    assert all(report.is_deaf for report in reports) or name != "processes"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["processes", "cluster"])
def test_executors_give_the_same_bits(here, name, request):
    """Threads of this process do in the tests of each study."""
    executor = name if name == "processes" else request.getfixturevalue(name)
    assert study(executor).identical(here)
    assert float(here.mmd.std()) > 0.0


def scheduler_address():
    from distributed import get_worker

    return get_worker().scheduler.address


@pytest.mark.slow
def test_a_solution_is_saved_beside_a_client(cluster, tmp_path):
    """In a process that has a client of dask, as a notebook has."""
    from distributed import Client

    mu = mf.Density(mf.Circle(32), mf.FourierSeries(cos=[0.5]))
    with Client(cluster.submit(scheduler_address).result()):
        sol = mf.evolve(mu, mf.SA(2.0), 0.2, 2, checkpoint=tmp_path / "checkpoint.nc")
        sol.save(tmp_path / "saved.nc")
    for name in "checkpoint.nc", "saved.nc":
        assert mf.load(tmp_path / name).dataset.identical(sol.dataset)
        with xr.open_dataset(tmp_path / name, engine="h5netcdf") as found:
            np.testing.assert_array_equal(found.energy, sol.dataset.energy)
