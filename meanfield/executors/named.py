"""Executors by their names: processes here, a dask cluster, MPI."""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from typing import Any

from meanfield.arguments import shown
from meanfield.executors.mapping import PROCESSES, THREADS

NAMES = (PROCESSES, "dask", "mpi")
# until a scheduler has to have answered
_PATIENCE = "15s"
_INSTALLED = "must be installed (pip install 'meanfield-attention[{}]')"


@contextmanager
def opened(
    name: str | None, scheduler: str | None = None, workers: int | None = None
) -> Iterator[Executor | str | None]:
    """An executor by its name, for `mapped_by`, as long as the context lasts.

    Parameters
    ----------
    name : {'processes', 'dask', 'mpi'} or None
        'dask' is a cluster of dask.distributed, on this machine or of `scheduler`; 'mpi' the pool
        of mpi4py.futures, for `mpiexec -n N python -m mpi4py.futures …`.
    scheduler : str, optional
        Address of dask's scheduler, such as tcp://host:8786.
    workers : int, optional
        Of 'processes', or of dask on this machine; one for each core if omitted.

    Raises
    ------
    ValueError
        If there is no such executor, its package is missing, or the scheduler does not answer.

    Examples
    --------
    >>> with opened("processes") as executor:
    ...     print(executor)
    processes
    """
    if name not in (None, *NAMES):
        raise ValueError(f"executor must be one of {', '.join(NAMES)}, got {name!r}")
    if scheduler is not None and name != "dask":
        raise ValueError(
            f"scheduler must be left out unless executor is 'dask', got {shown(scheduler)}"
        )
    if workers is not None and (name not in (PROCESSES, "dask") or scheduler is not None):
        raise ValueError(
            f"workers must be left out unless executor is 'processes' or 'dask' on this machine, "
            f"got {shown(workers)}"
        )
    with ExitStack() as stack:
        if name == "dask":
            yield stack.enter_context(_dask(scheduler, workers)).get_executor()
        elif name == "mpi":
            yield stack.enter_context(_mpi())
        else:
            yield name


@contextmanager
def _dask(scheduler: str | None, workers: int | None) -> Iterator[Any]:
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError as error:
        raise ValueError(f"executor 'dask' {_INSTALLED.format('cluster')}, got: {error}") from error
    with ExitStack() as stack:
        # what is lost is said in one line
        stack.enter_context(distributed.utils.silence_logging_cmgr(logging.CRITICAL))
        if scheduler is None:
            scheduler = stack.enter_context(_local_cluster(distributed, workers))
        try:
            client = distributed.Client(scheduler, timeout=_PATIENCE)
        except (OSError, ValueError) as error:
            raise ValueError(
                f"scheduler must be the address of a dask scheduler that answers, such as "
                f"tcp://host:8786, got {shown(scheduler)}: {error}"
            ) from error
        yield stack.enter_context(client)


def _local_cluster(distributed: Any, workers: int | None) -> Any:
    """A cluster on this machine, each of whose workers runs one task at a time."""
    key = "distributed.nanny.pre-spawn-environ"
    config = importlib.import_module("dask.config")
    environment = dict(config.get(key))
    if any(name in os.environ for name in THREADS):
        # dask asks for one thread by each name that the user has not set
        environment = {name: it for name, it in environment.items() if name not in THREADS}
    with config.set({key: environment}):
        return distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            # any free port: another cluster may have the usual one
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        )


def _mpi() -> Any:
    try:
        from mpi4py import MPI
        from mpi4py.futures import MPIPoolExecutor
    except (ImportError, RuntimeError) as error:
        # without an MPI library it is a RuntimeError
        raise ValueError(f"executor 'mpi' {_INSTALLED.format('mpi')}, got: {error}") from error
    size = MPI.COMM_WORLD.Get_size()
    if size < 2:
        # without others it would ask the system to start some, and may wait for ever
        raise ValueError(
            f"executor 'mpi' must have at least two processes, got {size}: start it as "
            f"mpiexec -n N python -m mpi4py.futures -m meanfield …"
        )
    return MPIPoolExecutor()
