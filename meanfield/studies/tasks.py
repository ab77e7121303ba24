"""The tasks of a study: their seeds, their results one by one, and these in one table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np
from tqdm import tqdm

from meanfield._checks import boolean
from meanfield.studies.executors import mapped_by
from meanfield.typing import Array


def spawn_seeds(rng: np.random.Generator, count: int) -> list[np.random.SeedSequence]:
    """Seeds of independent generators, which are the same wherever a task is done."""
    return np.random.SeedSequence(rng.integers(1 << 32, size=8).tolist()).spawn(count)


def run_tasks(
    executor: Executor | str | None,
    run: Callable[[Any], Any],
    tasks: list[Any],
    name: str,
    progress: bool,
) -> list[Any]:
    """Results of the tasks in their order, see `mapped_by`, with a bar of this name.

    Raises
    ------
    ValueError
        If the executor or `progress` is none.
    """
    is_hidden = not boolean("progress", progress)
    mapped = mapped_by(executor, run, tasks)
    return list(tqdm(mapped, total=len(tasks), disable=is_hidden, desc=name))


def pad(rows: Sequence[Any], least: int = 0) -> Array:
    """Rows of any lengths in one table, filled up with nan to the longest, and to `least`."""
    arrays = [np.asarray(row, dtype=np.float64) for row in rows]
    longest, *shape = np.array([array.shape for array in arrays]).max(axis=0)
    table = np.full((len(arrays), max(longest, least), *shape), np.nan)
    for line, array in zip(table, arrays, strict=True):
        line[tuple(map(slice, array.shape))] = array
    return table
