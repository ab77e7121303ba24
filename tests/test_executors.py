"""Studies at executors: the same bits anywhere, and a killed worker costs a retry."""

import os
import signal
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import meanfield as mf
from meanfield.executors import mapped_by


def squared(task):
    return task * task


def slow_first(task):
    """The first task ends last."""
    time.sleep(0.3 if task == 0 else 0.0)
    return task


def killed_once(task):
    """Kills its worker when it is the first to reach task 1."""
    number, folder = task
    flag = Path(folder) / "killed"
    if number == 1 and not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def killed_always(task):
    os.kill(os.getpid(), signal.SIGKILL)


def failing(task):
    if task == 3:
        raise ArithmeticError("no such number")
    return task


def study(executor):
    """A small study whose tasks draw random starts."""
    return mf.studies.mean_field_limit(
        mf.FourierSeries(cos=[0.5]), mf.SA(2.0), 0.5, [20, 50], 3, save_at=2, executor=executor
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
            dashboard_address=None,
            silence_logs="CRITICAL",
        ) as local,
        Client(local) as client,
    ):
        yield client


def test_results_come_in_order():
    with ThreadPoolExecutor(3) as pool:
        assert list(mapped_by(pool, slow_first, [0, 1, 2])) == [0, 1, 2]
    assert list(mapped_by(None, squared, [3, 1, 2])) == [9, 1, 4]
    assert list(mapped_by("processes", squared, [3, 1, 2])) == [9, 1, 4]
    assert list(mapped_by(None, squared, [])) == []


@pytest.mark.parametrize(
    "executor", [None, "processes", ThreadPoolExecutor(1)], ids=["here", "processes", "threads"]
)
def test_a_task_that_fails_is_named(executor):
    with pytest.raises(ArithmeticError, match="no such number") as caught:
        list(mapped_by(executor, failing, [1, 2, 3, 4], workers=1))
    assert "in task 2 of the study: 3" in caught.value.__notes__


@pytest.mark.parametrize("workers", [1, 2])
def test_a_process_pool_gives_the_same_bits(here, workers):
    with ProcessPoolExecutor(workers) as pool:
        assert study(pool).identical(here)
    assert float(here.mmd.std()) > 0.0


def test_our_own_pool_gives_the_same_bits(here):
    assert study("processes").identical(here)


def test_a_killed_process_costs_a_retry(tmp_path):
    tasks = [(number, str(tmp_path)) for number in range(4)]
    assert list(mapped_by("processes", killed_once, tasks, workers=1)) == [0, 1, 2, 3]
    assert (tmp_path / "killed").exists()


def test_a_task_that_always_kills_ends_the_study():
    with pytest.raises(RuntimeError, match="task 0 of the study lost its worker 3 times"):
        list(mapped_by("processes", killed_always, [0], workers=1))


def test_a_foreign_pool_that_broke_is_told(tmp_path):
    tasks = [(number, str(tmp_path)) for number in range(4)]
    with (
        ProcessPoolExecutor(1) as pool,
        pytest.raises(RuntimeError, match=r"must take tasks again .* take 'processes'"),
    ):
        list(mapped_by(pool, killed_once, tasks))


def test_a_dask_cluster_gives_the_same_bits(here, cluster):
    assert study(cluster.get_executor()).identical(here)


def test_a_killed_worker_of_a_cluster_costs_a_retry(cluster, tmp_path):
    tasks = [(number, str(tmp_path)) for number in range(4)]
    assert list(mapped_by(cluster.get_executor(), killed_once, tasks)) == [0, 1, 2, 3]
    assert (tmp_path / "killed").exists()


def test_metastability_on_a_cluster(cluster):
    """Random starts are drawn before the tasks travel."""
    options = {"saves": 10, "t_end": 5.0}
    runs = [mf.SA(5.0), mf.USA(3.0)]
    one = mf.studies.metastability(runs, rng=np.random.default_rng(1), **options)
    other = mf.studies.metastability(
        runs, rng=np.random.default_rng(1), executor=cluster.get_executor(), **options
    )
    assert one.identical(other)


@pytest.mark.parametrize(
    "executor", ["threads", 3, object()], ids=["a word", "a number", "a thing"]
)
def test_no_executor(executor):
    with pytest.raises(ValueError, match=r"executor must be a concurrent.futures.Executor or"):
        mapped_by(executor, squared, [1])
