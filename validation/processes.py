"""Tasks side by side, in processes of their own: one that dies takes no other with it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext
from typing import Any, cast

# what BLAS, OpenMP and ducc0 take their number of threads from when they are loaded
_THREADS = [("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), ("DUCC0_NUM_THREADS",)]
_CONTEXT = multiprocessing.get_context("spawn")
# groups end with all that they have started
_HAS_GROUPS = hasattr(os, "setpgid")
_TICK = 1.0
# what copies have imported: a process has one server of them, and what is missing is left out
_OF_COPIES = "validation.survival", "validation.fuzz", "dask.array", "dask.distributed", "h5netcdf"


def copies() -> ForkServerContext:
    """Processes that begin at once: copies of one that has imported much and run nothing."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(_OF_COPIES))
    return context


@dataclass(frozen=True)
class Died:
    """In place of a result: the process ended first, with this status (minus a signal)."""

    status: int | None


@dataclass(frozen=True)
class Tick:
    """Where things stand, about once a second: what runs, and what has just been finished."""

    running: list[str]
    finished: dict[str, Any] = field(default_factory=dict)


def side_by_side(
    run: Callable[[str], Any], names: Sequence[str], workers: int
) -> Generator[Tick, None, None]:
    """Run names on `workers` workers, begun in the order given; both travel between processes.

    Each worker keeps to one thread unless the environment says otherwise. Where the iterator is
    closed or raises, workers are killed with all that they have started.
    """
    waiting = list(reversed(names))
    crew = [_Worker(run) for _ in range(min(workers, len(names)))]
    try:
        for worker in crew:
            worker.begin(waiting.pop())
        while busy := {worker.connection: worker for worker in crew if worker.name}:
            finished = {}
            for ready in wait(list(busy), _TICK):
                worker = busy[cast(Connection, ready)]
                name, result = worker.name, worker.result()
                finished[name] = result
                if isinstance(result, Died):
                    crew.remove(worker)
                    worker.kill()
                    if waiting:
                        crew.append(worker := _Worker(run))
                worker.begin(waiting.pop() if waiting else "")
            yield Tick([worker.name for worker in crew if worker.name], finished)
    finally:
        for worker in crew:
            worker.kill()


class _Worker:
    """A process that runs one name after the other."""

    def __init__(self, run: Callable[[str], Any]) -> None:
        self.connection, other = _CONTEXT.Pipe()
        self.name = ""
        self._process = _CONTEXT.Process(target=_serve, args=(other, run))
        with _one_thread():
            self._process.start()
        # so that the end of the process is the end of the pipe
        other.close()

    def begin(self, name: str) -> None:
        """Run it; nothing, if it is empty."""
        self.name = name
        if name:
            # a worker that could not start is seen by the end of its pipe
            with suppress(BrokenPipeError):
                self.connection.send(name)

    def result(self) -> Any:
        """What came of the name, or that the process died of it."""
        try:
            return self.connection.recv()
        except (EOFError, ConnectionResetError):
            self._process.join()
            return Died(self._process.exitcode)

    def kill(self) -> None:
        """End it at once, with what it has started."""
        self.connection.close()
        if _HAS_GROUPS and self._process.pid is not None:
            # before it has a group of its own there is none of that number
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.join()


def _serve(connection: Connection, run: Callable[[str], Any]) -> None:
    """What a worker does until the other end is closed."""
    if _HAS_GROUPS:
        # Ctrl-C reaches the parent alone, which ends the whole group
        os.setpgid(0, 0)
    threading.Thread(target=_outlive_nobody, daemon=True).start()
    with suppress(EOFError):
        while True:
            connection.send(run(connection.recv()))


def _outlive_nobody() -> None:
    """End this process, and what it has started, when its parent is gone."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
    if _HAS_GROUPS:
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


@contextmanager
def _one_thread() -> Iterator[None]:
    """What is started here has one thread in each library, unless the user says how many."""
    # one of several names for the same is enough
    free = [names for names in _THREADS if not any(name in os.environ for name in names)]
    ours = [name for names in free for name in names]
    os.environ.update(dict.fromkeys(ours, "1"))
    try:
        yield
    finally:
        for name in ours:
            del os.environ[name]
