"""Times of several ways to one thing, taken in turn, and their ratios."""

from __future__ import annotations

import gc
import importlib
import statistics
import time
from collections.abc import Callable, Mapping
from functools import cache
from types import ModuleType
from typing import Any

# modules, and the names by which they are known
PEERS = {
    "dedalus.public": "Dedalus",
    "ot": "POT",
    "pde": "py-pde",
    "pykeops.numpy": "KeOps",
    "shtns": "SHTns",
    "torch": "PyTorch",
}
Times = dict[str, list[float]]


@cache
def peer(name: str) -> ModuleType | None:
    """A library to be measured beside us; None, and a line once, where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        print(f"{PEERS.get(name, name)} is not installed: left out", flush=True)
        return None


def seconds(call: Callable[[], Any]) -> float:
    """Of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def interleaved(
    ways: Mapping[str, Callable[[], Any]],
    repeats: int,
    *,
    calls: Mapping[str, int] | None = None,
) -> Times:
    """Seconds of one call of each way, in each round.

    The ways are called in turn, so that what else the machine does slows down all of them; a
    first round warms up and is not counted.

    Parameters
    ----------
    ways : mapping of str to callable
    repeats : int
        Rounds.
    calls : mapping of str to int, optional
        How often a way is called in a round, once if not given, for what takes microseconds.
    """
    found: Times = {name: [] for name in ways}
    counts = {name: (calls or {}).get(name, 1) for name in ways}
    for call in ways.values():
        call()
    collecting = gc.isenabled()
    gc.disable()
    try:
        for _ in range(repeats):
            for name, call in ways.items():
                count = counts[name]
                found[name].append(seconds(_repeated(call, count)) / count)
    finally:
        if collecting:
            gc.enable()
    return found


def _repeated(call: Callable[[], Any], count: int) -> Callable[[], None]:
    def run() -> None:
        for _ in range(count):
            call()

    return run


def median(times: Times, name: str) -> float:
    """Seconds of a way, its median over the rounds."""
    return statistics.median(times[name])


def ratio(times: Times, slow: str, fast: str) -> float:
    """How many times as long one way takes as another: the median over the rounds."""
    return statistics.median(a / b for a, b in zip(times[slow], times[fast], strict=True))
