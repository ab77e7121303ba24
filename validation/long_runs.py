"""Long runs: memory stays flat over 10⁵ steps.

Claim: a run's steps leave nothing behind: over 10⁵ steps with checkpoints memory stays the same, of
a density and of tokens. A flow map's history of moments is part of its solution, and is all that
its steps add.

Measured: pages of the process over 10⁵ steps (in the full form), and bytes that Python and numpy
hold (tracemalloc, which makes a step five times as slow) over fewer steps. Steps are warm by the
first save, a tenth of the way. Then short ways between saves take turns with long ones. Each save
keeps a measure and a row of numbers, so the growth over a short way is taken off that over the long
one after it, and what is left is due to the steps in which they differ. Of five such pairs the
median counts: a cache that is filled once is no growth a step. Each claim is measured in a process
of its own, where nothing but the run takes memory. Densities repel, so that an explicit method
keeps to short steps while the state rests; tokens move by layers.

Tolerance: the smallest thing that can be left a step is a reference in a list, 8 bytes; of pages, a
block of malloc, 32 bytes. A flow map's step has the objects around its moments, hundreds of bytes.
"""

from __future__ import annotations

import gc
import resource
import tempfile
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import meanfield as mf
from validation.claims import Claim, main
from validation.processes import copies

STEPS, TRACED, TRACED_OF_FLOW = 10**5, 1800, 60
# of the whole way: the first, then five pairs of a short way and a long one
SAVES = np.cumsum([0.1, *[0.03, 0.15] * 5])
A_REFERENCE, A_BLOCK, OF_ARRAYS = 8.0, 32.0, 512.0
LAW = mf.FourierSeries(cos=[0.5])
REPULSIVE = mf.USA(5.0, sign=-1)
Start = tuple[Any, Any, float, dict[str, Any]]


def _tokens() -> mf.Particles:
    return mf.Particles.sample(mf.Uniform(3), 8, np.random.default_rng(0))


# what a run begins with, what moves it, how long a step is or comes to be, and further arguments
KINDS: dict[str, Callable[[], Start]] = {
    "density": lambda: (mf.Density(mf.Circle(16), LAW), REPULSIVE, 0.34, {}),
    "8 tokens": lambda: (_tokens(), mf.LayerMap(mf.SA(1.0), step=0.01), 0.01, {}),
    "flow map": lambda: (mf.FlowMap(LAW, tol=1e-6), REPULSIVE, 0.34, {}),
}


def held(_: Any) -> float:
    """Bytes that Python and numpy hold, or those of the pages where nothing is traced."""
    gc.collect()
    if tracemalloc.is_tracing():
        return float(tracemalloc.get_traced_memory()[0])
    return float(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def run(kind: str, steps: int, checkpoint: Path | None = None) -> mf.Solution:
    """A run of about so many steps."""
    measure, dynamics, step, asked = KINDS[kind]()
    asked |= {"monitors": {"memory": held}, "checkpoint": checkpoint}
    times = [steps * step * share for share in SAVES]
    solution = mf.evolve(measure, dynamics, times[-1], times, **asked)
    total = int(solution.dataset.steps[-1])
    if total < 0.9 * steps:
        raise AssertionError(f"{kind}: there must be {steps} steps, got {total}")
    return solution


def beyond_saves(values: Any) -> NDArray[np.float64]:
    """How much more a number grew over each long way than over the short one before it, (5,)."""
    ways = np.diff(np.asarray(values, dtype=float)[-SAVES.size :])
    return ways[1::2] - ways[::2]


def left_behind(kind: str, steps: int) -> Claim:
    """What a step leaves behind in Python and numpy."""
    tracemalloc.start()
    try:
        solution = run(kind, steps)
    finally:
        tracemalloc.stop()
    left, moments = beyond_saves(solution.dataset.memory), np.zeros(1)
    if solution.history is not None:
        ends = np.searchsorted(solution.history.edges, solution.t)
        moments = beyond_saves(ends) * float(solution.history.pieces[0].nbytes)
    counted = beyond_saves(solution.dataset.steps)
    is_flow = solution.history is not None
    return Claim(
        f"{kind}: bytes that a step leaves behind" + ", beside its moments" * is_flow,
        "memory is flat",
        float(np.median((left - moments) / counted)),
        OF_ARRAYS if is_flow else A_REFERENCE,
        "objects around arrays" if is_flow else "less than one reference a step",
        found=f"{left.sum():.0f} bytes in {counted.sum():.0f} steps, "
        f"of moments {moments.sum():.0f}",
    )


def taken(kind: str, steps: int) -> Claim:
    """How many pages a step takes."""
    with tempfile.TemporaryDirectory() as folder:
        numbers = run(kind, steps, Path(folder, "run.nc")).dataset
    pages, counted = beyond_saves(numbers.memory), beyond_saves(numbers.steps)
    return Claim(
        f"{kind}: bytes of pages that a step takes",
        "memory is flat",
        float(np.median(pages / counted)),
        A_BLOCK,
        "less than the smallest block of malloc a step",
        found=f"{pages.sum():.0f} bytes in {counted.sum():.0f} steps",
    )


def apart(measure: Callable[[str, int], Claim], kind: str, steps: int) -> Claim:
    """What is measured in a process of its own."""
    with ProcessPoolExecutor(1, copies()) as pool:
        return pool.submit(measure, kind, steps).result()


def check(quick: bool) -> list[Claim]:
    """Memory of three kinds of runs over their steps."""
    more = 1 if quick else 3
    density, tokens, flow = KINDS
    found = [apart(left_behind, kind, more * TRACED) for kind in (density, tokens)]
    found.append(apart(left_behind, flow, more * TRACED_OF_FLOW))
    return found if quick else [*found, *(apart(taken, kind, STEPS) for kind in (density, tokens))]


if __name__ == "__main__":
    main(check)
