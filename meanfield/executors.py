"""Where the runs of a study are done, and what they are runs of."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from typing import Any

from meanfield.dynamics import SA, USA, Dynamics


def dynamics_of_runs(dynamics: Dynamics | Sequence[Dynamics]) -> list[Dynamics]:
    """One dynamics, or a sequence of at least one, as a list.

    Raises
    ------
    ValueError
        If it is neither.
    """
    given = list(dynamics) if isinstance(dynamics, Sequence) else [dynamics]
    if not given:
        raise ValueError(f"dynamics must be SA or USA, or a sequence of at least one, got {given}")
    for one in given:
        if not isinstance(one, (SA, USA)):
            raise ValueError(f"dynamics must be SA or USA, or a sequence of them, got {one!r}")
    return given


PROCESSES = "processes"
_MOST_TRIES = 3
# what a lost worker raises, by name, since no cluster's library is imported here
_LOST = {"KilledWorker", "CommClosedError"}


def mapped_by(
    executor: Executor | str | None, run: Callable[[Any], Any], tasks: list[Any]
) -> Iterator[Any]:
    """Results of the tasks in their order, by an executor or else here, one after the other.

    A worker that is killed costs a retry: the tasks that it took with it are submitted again,
    each up to three times. An exception of a task itself says which task it was.

    Parameters
    ----------
    executor : concurrent.futures.Executor, 'processes' or None
        Any with `submit`: a process pool, dask's `client.get_executor()`, mpi4py's
        `MPIPoolExecutor`. 'processes' is a pool of all cores, made anew where it breaks.
    run : callable
        Of one task; both travel between processes.
    tasks : list

    Raises
    ------
    ValueError
        If the executor is none.
    RuntimeError
        If a task loses its worker again and again, or an executor that is not ours breaks.

    Examples
    --------
    >>> list(mapped_by(None, abs, [-1, 2]))
    [1, 2]
    """
    if executor is None:
        return (_named(run, number, task) for number, task in enumerate(tasks))
    if isinstance(executor, str) and executor == PROCESSES:
        return _by_processes(run, tasks)
    if not callable(getattr(executor, "submit", None)):
        raise ValueError(
            f"executor must be a concurrent.futures.Executor or {PROCESSES!r}, got {executor!r}"
        )
    return _Submitted(executor, run, tasks).results()


def _named(run: Callable[[Any], Any], number: int, task: Any) -> Any:
    try:
        return run(task)
    except Exception as error:
        error.add_note(f"in task {number} of the study: {task!r:.200}")
        raise


def _pool() -> ProcessPoolExecutor:
    # threads of transforms do not survive a fork
    return ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"))


def _by_processes(run: Callable[[Any], Any], tasks: list[Any]) -> Iterator[Any]:
    submitted = _Submitted(_pool(), run, tasks, again=_pool)
    try:
        yield from submitted.results()
    finally:
        submitted.executor.shutdown(cancel_futures=True)


class _Submitted:
    """The futures of tasks at an executor, and how often each was tried."""

    def __init__(
        self,
        executor: Any,
        run: Callable[[Any], Any],
        tasks: Sequence[Any],
        again: Callable[[], Executor] | None = None,
    ) -> None:
        self.executor, self._run, self._tasks, self._again = executor, run, tasks, again
        self._tries = [0] * len(tasks)
        self._futures: dict[int, Future[Any]] = {}
        self._submit(range(len(tasks)))

    def results(self) -> Iterator[Any]:
        """In the order of the tasks."""
        for number in range(len(self._tasks)):
            while True:
                try:
                    result = self._futures[number].result()
                except Exception as error:
                    if not _is_lost(error):
                        raise
                    self._try_again(number, error)
                else:
                    break
            # a future keeps its result
            del self._futures[number]
            yield result

    def _submit(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._tries[number] += 1
            try:
                self._futures[number] = self.executor.submit(
                    _named, self._run, number, self._tasks[number]
                )
            except BrokenExecutor as error:
                raise RuntimeError(
                    f"executor {self.executor!r} must take tasks again after a worker was lost, "
                    f"but it broke: take {PROCESSES!r}, or an executor that replaces its workers"
                ) from error

    def _try_again(self, number: int, error: Exception) -> None:
        if self._tries[number] >= _MOST_TRIES:
            raise RuntimeError(
                f"task {number} of the study lost its worker {self._tries[number]} times, the last "
                f"time by {error!r}: {self._tasks[number]!r:.200}"
            ) from error
        lost = [number]
        if self._again is not None and isinstance(error, BrokenExecutor):
            self.executor.shutdown(wait=False)
            self.executor = self._again()
            lost = [one for one, future in self._futures.items() if _went_down(future)]
        self._submit(lost)


def _is_lost(error: BaseException | None) -> bool:
    return isinstance(error, BrokenExecutor) or type(error).__name__ in _LOST


def _went_down(future: Future[Any]) -> bool:
    """Whether a task of a broken pool has no result."""
    return not future.done() or future.cancelled() or _is_lost(future.exception())
