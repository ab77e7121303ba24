"""Where the runs of a study are done, and what they are runs of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
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


def mapped_by(
    executor: Executor | None, run: Callable[[Any], Any], tasks: list[Any]
) -> Iterable[Any]:
    """Results of the tasks in their order, by an executor or else here, one after the other.

    Raises
    ------
    ValueError
        If the executor is none.
    """
    if executor is None:
        return map(run, tasks)
    if not callable(getattr(executor, "map", None)):
        raise ValueError(f"executor must be a concurrent.futures.Executor, got {executor!r}")
    return executor.map(run, tasks)
