"""Where the runs of a study are done: here, in processes, on a dask cluster, or by MPI."""

from __future__ import annotations

import gc
import importlib
import logging
import multiprocessing
import os
import platform
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from types import ModuleType
from typing import ParamSpec, TypeVar

import numpy as np
import xarray as xr
from tqdm.auto import tqdm

from meanfield._checks import boolean, integer, shown
from meanfield.evolution.progress import DeferredInterrupt
from meanfield.exceptions import Interrupted
from meanfield.typing import Array

Task = TypeVar("Task")
Result = TypeVar("Result")
P = ParamSpec("P")

_log = logging.getLogger(__name__)
PROCESSES = "processes"
# a lost worker raises one of these; they are compared by name, since no cluster's library is
# imported here
_LOST = {"KilledWorker", "CommClosedError"}
# these variables say how many threads a user wants for products of matrices
THREADS = "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"
# Ctrl-C may wait so long
_SECONDS_DEAF = 0.1
# a worker that imports a script which starts workers ends with this status
_NO_GUARD = 99
# a worker that has lost its parent ends with this status, which nobody is left to read
_ORPHANED = 1


def mapped_by(
    executor: Executor | str | None,
    run: Callable[[Task], Result],
    tasks: list[Task],
    *,
    workers: int | None = None,
    lost: Callable[[Task, str], Result] | None = None,
) -> Generator[Result, None, None]:
    """Results of the tasks in their order, by an executor or else here, one after the other.

    A task whose worker is killed is tried once more. An exception of a task itself says which task
    it was. Where the results are not waited for, workers of ours are ended; where this process is
    killed, they end by themselves.

    A worker process keeps to one thread for products of matrices, unless its environment has one
    of `THREADS`: workers fill the cores already.

    Parameters
    ----------
    executor : concurrent.futures.Executor, 'processes' or None
        Any with `submit`: a process pool, dask's `client.get_executor()`, mpi4py's
        `MPIPoolExecutor`. 'processes' are those of this machine, made anew where one is killed.
    run : callable
        Of one task; both travel between processes.
    tasks : list
    workers : int, optional
        How many processes of this machine; one for each core if omitted.
    lost : callable, optional
        From a task that loses its worker twice, and a sentence, to what stands for its result.

    Returns
    -------
    generator
        Its `close` ends what is still to be done.

    Raises
    ------
    ValueError
        If there is no such executor, `workers` is given to one that has its own, or what is to run
        can't travel to a process.
    RuntimeError
        If a task loses its worker twice, an executor that is not ours breaks, its
        scheduler is gone, or a script has no main guard for 'processes'.

    Examples
    --------
    >>> list(mapped_by(None, abs, [-1, 2]))
    [1, 2]
    """
    if workers is not None:
        workers = integer("workers", workers, low=1)
        if executor not in (None, PROCESSES):
            raise ValueError(
                f"workers must be left out with an executor that has its own, got {shown(workers)}"
            )
        executor = PROCESSES
    call = partial(_do, _home(), run)
    if executor is None:
        return (call(number, task) for number, task in enumerate(tasks))
    if isinstance(executor, str) and executor == PROCESSES:
        if getattr(multiprocessing.current_process(), "_inheriting", False):
            # this is a worker, which imports the script that started it
            sys.exit(_NO_GUARD)
        try:
            ForkingPickler.dumps((run, tasks[:1]))
        # an object that can't be pickled may raise anything
        except Exception as error:
            raise ValueError(
                f"executor {PROCESSES!r} must be sent functions of a module and values that can be "
                f"pickled, got: {error}"
            ) from None
        return _submitted(_Processes(workers), call, tasks, lost)
    if isinstance(executor, str) or not callable(getattr(executor, "submit", None)):
        raise ValueError(
            f"executor must be a concurrent.futures.Executor or {PROCESSES!r}, got "
            f"{shown(executor)}"
        )
    return _submitted(nullcontext(executor), call, tasks, lost)


def _home() -> tuple[str, int]:
    """Return the machine and the number of this process."""
    return platform.node(), os.getpid()


def _do(home: tuple[str, int], run: Callable[[Task], Result], number: int, task: Task) -> Result:
    """Do one task; in another process it keeps to one thread, unless the user says how many."""
    if home != _home() and not any(name in os.environ for name in THREADS):
        from threadpoolctl import threadpool_limits

        threadpool_limits(1)
        # libraries that a task is the first to load read these variables
        os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        return run(task)
    except Interrupted:
        # the solution of an interrupted task is not sent from its worker
        raise KeyboardInterrupt from None
    except Exception as error:
        error.add_note(f"in task {number} of the study: {task!r:.200}")
        raise


def _begin_work() -> None:
    """Make this process a worker of the one that has started it."""
    # a terminal sends Ctrl-C to all processes, and the parent ends its workers itself
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Wait for the end of the parent process, and then end this one at once."""
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
    os._exit(_ORPHANED)


class _Processes(Executor):
    """Threads with a process each, so that a killed process takes no other task down.

    Parameters
    ----------
    count : int, optional
        One for each core if omitted.
    """

    def __init__(self, count: int | None) -> None:
        self._threads = ThreadPoolExecutor(count or os.cpu_count())
        self._pools: dict[int, ProcessPoolExecutor] = {}

    def submit(
        self, call: Callable[P, Result], /, *args: P.args, **kwargs: P.kwargs
    ) -> Future[Result]:
        """The call, to be done by the process of the next thread that is free."""
        return self._threads.submit(self._by_own_process, call, *args, **kwargs)

    def _by_own_process(
        self, call: Callable[P, Result], /, *args: P.args, **kwargs: P.kwargs
    ) -> Result:
        thread = threading.get_ident()
        if thread not in self._pools:
            self._pools[thread] = ProcessPoolExecutor(
                1,
                # threads of transforms do not survive a fork
                mp_context=multiprocessing.get_context("spawn"),
                initializer=_begin_work,
            )
        try:
            return self._pools[thread].submit(call, *args, **kwargs).result()
        except BrokenExecutor:
            broken = self._pools.pop(thread)
            processes = _processes_of(broken)
            broken.shutdown()
            if any(process.exitcode == _NO_GUARD for process in processes):
                raise RuntimeError(
                    f"executor {PROCESSES!r} has workers that import this script anew: put what it "
                    f'runs under `if __name__ == "__main__":`'
                ) from None
            raise

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End the processes; where results are not waited for, whatever they are at."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for pool in list(self._pools.values()):
            for process in _processes_of(pool) if kind else ():
                process.terminate()
        # a thread whose pool breaks shuts it down itself, and must have ended before pools are shut
        # down here
        self._threads.shutdown()
        for pool in self._pools.values():
            pool.shutdown()


def _processes_of(pool: ProcessPoolExecutor) -> list[BaseProcess]:
    # Python 3.14 has methods to end the processes of a pool; after a shutdown a pool has no
    # processes
    return list((pool._processes or {}).values())


def _submitted(
    opening: AbstractContextManager[Executor],
    call: Callable[[int, Task], Result],
    tasks: list[Task],
    lost: Callable[[Task, str], Result] | None,
) -> Generator[Result, None, None]:
    """Yield results in the order of the tasks; after the consumer stops, no task begins.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C, between results: in what is done with them it could be lost, as Python drops
        what is raised in a destructor, or when an import gives back its lock.
    """
    futures = deque[Future[Result]]()

    def submit(number: int) -> Future[Result]:
        try:
            return executor.submit(call, number, tasks[number])
        except BrokenExecutor as error:
            raise RuntimeError(
                f"executor {executor!r} must take tasks again after a worker was lost, but it "
                f"broke: take {PROCESSES!r}, or an executor that replaces its workers"
            ) from error
        except Exception as error:
            raise RuntimeError(f"executor {executor!r} takes no task: {error}") from error

    def result(number: int, future: Future[Result]) -> Result:
        is_retried = False
        while True:
            interrupt.check()
            while not wait([future], _SECONDS_DEAF).done:
                interrupt.check()
            try:
                return future.result()
            except CancelledError as error:
                raise RuntimeError(
                    f"task {number} of the study was cancelled by its executor: its scheduler is "
                    f"gone, or has dropped it"
                ) from error
            except Exception as error:
                if not (isinstance(error, BrokenExecutor) or type(error).__name__ in _LOST):
                    raise
                if is_retried:
                    what = f"task {number} of the study lost its worker twice, the last time by"
                    if lost is None:
                        raise RuntimeError(f"{what} {error!r}: {tasks[number]!r:.200}") from error
                    return lost(tasks[number], f"{what} {error!r}")
                _log.warning("task %d lost its worker and is tried again: %r", number, error)
                future, is_retried = submit(number), True

    with opening as executor, DeferredInterrupt() as interrupt:
        try:
            for number in range(len(tasks)):
                futures.append(submit(number))
            for number in range(len(tasks)):
                # a future is dropped once it is read, since it keeps its result
                yield result(number, futures.popleft())
        finally:
            for future in futures:
                future.cancel()


NAMES = (PROCESSES, "dask", "mpi")
# a scheduler has to answer within this time
_PATIENCE = "15s"
_INSTALLED = "must be installed (pip install 'meanfield-attention[{}]')"


@contextmanager
def opened(
    name: str | None, scheduler: str | None = None, workers: int | None = None
) -> Iterator[dict[str, Executor | str | int | None]]:
    """An executor by its name, for `mapped_by`, as long as the context lasts.

    Parameters
    ----------
    name : {'processes', 'dask', 'mpi'} or None
        'dask' is a cluster of dask.distributed, on this machine or of `scheduler`; 'mpi' the pool
        of mpi4py.futures, for `mpiexec -n N python -m mpi4py.futures …`.
    scheduler : str, optional
        Address of dask's scheduler, such as tcp://host:8786.
    workers : int, optional
        How many processes of this machine, of dask if it is named; one for each core if omitted.

    Raises
    ------
    ValueError
        If there is no such executor, its package is missing, or the scheduler does not answer.

    Examples
    --------
    >>> with opened("processes", workers=2) as where:
    ...     print(where)
    {'executor': 'processes', 'workers': 2}
    """
    if name not in (None, *NAMES):
        raise ValueError(f"executor must be one of {', '.join(NAMES)}, got {name!r}")
    if scheduler is not None and name != "dask":
        raise ValueError(
            f"scheduler must be left out unless executor is 'dask', got {shown(scheduler)}"
        )
    if workers is not None and (name == "mpi" or scheduler is not None):
        raise ValueError(
            f"workers must be left out with a scheduler or 'mpi', which have their own, got "
            f"{shown(workers)}"
        )
    if name in (None, PROCESSES):
        yield {"executor": name, "workers": workers}
    else:
        with _mpi() if name == "mpi" else _dask(scheduler, workers) as executor:
            yield {"executor": executor}


@contextmanager
def _dask(scheduler: str | None, workers: int | None) -> Iterator[Executor]:
    try:
        distributed = importlib.import_module("distributed")
    except ImportError as error:
        raise ValueError(f"executor 'dask' {_INSTALLED.format('cluster')}, got: {error}") from error
    with ExitStack() as stack:
        # a lost worker is reported in one line
        stack.enter_context(distributed.utils.silence_logging_cmgr(logging.CRITICAL))
        cluster: object = scheduler
        if scheduler is None:
            cluster = stack.enter_context(_local_cluster(distributed, workers))
        client, refused = None, ""
        try:
            # a user's session keeps its own default client
            client = distributed.Client(cluster, timeout=_PATIENCE, set_as_default=False)
        except (OSError, ValueError) as error:
            refused = str(error)
        if client is None:
            # dask closes a refused client when it is collected, which must not happen while another
            # starts
            gc.collect()
            raise ValueError(
                f"scheduler must be the address of a dask scheduler that answers, such as "
                f"tcp://host:8786, got {shown(cluster)}: {refused}"
            )
        yield stack.enter_context(client).get_executor()


def _local_cluster(distributed: ModuleType, workers: int | None) -> AbstractContextManager[object]:
    """Return a cluster on this machine whose workers run one task at a time."""
    key = "distributed.nanny.pre-spawn-environ"
    config = importlib.import_module("dask.config")
    # the user, or else `_do`, says how many threads a worker uses
    environment = {name: it for name, it in config.get(key).items() if name not in THREADS}
    with config.set({key: environment}):
        cluster: AbstractContextManager[object] = distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            # the port is any free one, since another cluster may have the usual one
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        )
    return cluster


def _mpi() -> Executor:
    try:
        from mpi4py import MPI
        from mpi4py.futures import MPIPoolExecutor
    except (ImportError, RuntimeError) as error:
        # mpi4py without an MPI library raises a RuntimeError
        raise ValueError(f"executor 'mpi' {_INSTALLED.format('mpi')}, got: {error}") from error
    size = MPI.COMM_WORLD.Get_size()
    if size < 2:
        # a single process would ask the system to start others, and may wait for ever
        raise ValueError(
            f"executor 'mpi' must have at least two processes, got {size}: start it as "
            f"mpiexec -n N python -m mpi4py.futures -m meanfield …"
        )
    executor: Executor = MPIPoolExecutor()
    return executor


def drawn_entropy(rng: np.random.Generator) -> list[int]:
    """The entropy that seeds are made of, drawn from a generator."""
    return [int(word) for word in rng.integers(1 << 32, size=8)]


def spawn_seeds(rng: np.random.Generator, count: int) -> list[np.random.SeedSequence]:
    """Seeds of independent generators, which are the same wherever a task is done."""
    return np.random.SeedSequence(drawn_entropy(rng)).spawn(count)


def run_tasks(
    executor: Executor | str | None,
    run: Callable[[Task], Result],
    tasks: list[Task],
    name: str,
    progress: bool,
    workers: int | None = None,
) -> list[Result]:
    """Results of the tasks in their order, see `mapped_by`, with a bar of this name.

    Raises
    ------
    ValueError
        If the executor, `workers` or `progress` is none.
    """
    is_hidden = not boolean("progress", progress)
    mapped = mapped_by(executor, run, tasks, workers=workers)
    return list(tqdm(mapped, total=len(tasks), disable=is_hidden, desc=name))


def labelled(ds: xr.Dataset, about: Mapping[str, tuple[str, str]]) -> xr.Dataset:
    """The dataset, with a long name and a comment (or "") for those of its variables."""
    for name, (text, comment) in about.items():
        if name in ds:
            ds[name].attrs |= {"long_name": text} | ({"comment": comment} if comment else {})
    return ds


def pad(rows: Sequence[Sequence[float] | Array]) -> Array:
    """Rows of any lengths in one table, filled up with nan to the longest."""
    table = np.full((len(rows), max(map(len, rows))), np.nan)
    for line, row in zip(table, rows, strict=True):
        line[: len(row)] = row
    return table
