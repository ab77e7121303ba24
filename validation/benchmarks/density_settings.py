"""Settings of the ways that the benchmark of densities compares: a run, its error and its time."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import meanfield as mf
from validation.benchmarks.density_problems import DUCC, FFTW, SHTNS, Problem, Space, evolved
from validation.benchmarks.peers_dedalus import CircleRun, DedalusRun, SphereRun
from validation.benchmarks.peers_pde import DifferencesRun
from validation.benchmarks.timing import seconds

Array = NDArray[np.float64]

OURS, DEDALUS, PDE = "meanfield", "Dedalus", "py-pde"
WAYS = (f"{OURS}, {FFTW}", f"{OURS}, {DUCC}", f"{OURS}, {SHTNS}", DEDALUS, PDE)
TOLERANCES = tuple(10.0**-k for k in np.arange(2.0, 11.5, 0.5))
CELLS = 256, 1024, 4096
# steps of RK4 from one setting to the next
FINER = 2.0**0.25
# times of a setting, and seconds that are enough of them
_LOOKS, _LOOKED = 5, 0.2
# points at which errors are looked for
_SEEN = 400
# of an error to the next what has ceased to fall, in units of the error asked for
_NO_BETTER, _NEAR = 0.9, 1e3


@dataclass
class Setting:
    """A way with its steps or its tolerance; `run` gives f at the points and what counts rates."""

    way: str
    what: str
    run: Callable[[], tuple[Array, Callable[[], int]]]
    points: Array
    space: Space | None = None
    error: float = np.inf
    seconds: float = np.nan
    evaluations: int = 0

    @property
    def name(self) -> str:
        """Of its times."""
        return f"{self.way}, {self.what}"

    def look(self, truth: Callable[[Array], Array]) -> None:
        """The time of a run, and max |f - f_ref| / max f_ref, inf outside double precision."""
        found: list[tuple[Array, Callable[[], int]]] = []
        times: list[float] = []
        # what is over soon is looked at again
        while not times or (len(times) < _LOOKS and sum(times) < _LOOKED):
            with np.errstate(all="ignore"):
                times.append(seconds(lambda: found.append(self.run())))
        self.seconds = statistics.median(times)
        (values, count), every = found[0], max(1, len(self.points) // _SEEN)
        self.evaluations = count()
        exact = truth(self.points[::every])
        error = float(np.abs(values[::every] - exact).max() / np.abs(exact).max())
        self.error = error if np.isfinite(error) else np.inf


def ours(problem: Problem, library: str, size: int, quick: bool) -> Iterator[Setting]:
    """`evolve` from coarse to fine."""
    space = problem.space(library, size)
    start = mf.Density(space, problem.law, tail_tol=1e-2, max_size=space.size)
    evolved(problem, start, TOLERANCES[0])
    for rtol in TOLERANCES[6:16:5] if quick else TOLERANCES:

        def run(rtol: float = rtol) -> tuple[Array, Callable[[], int]]:
            sol = evolved(problem, start, rtol)
            final: mf.Density = sol.final
            return final.values, lambda: int(sol.dataset.evaluations[-1])

        what = f"{problem.sized(size)}, rtol = {rtol:.0e}"
        yield Setting(f"{OURS}, {library}", what, run, space.points, space)


def by_dedalus(problem: Problem, evaluations: int) -> Iterator[Iterator[Setting]]:
    """RK4 from coarse to fine, for each number of modes."""
    kind = CircleRun if problem.on_circle else SphereRun
    for size in problem.sizes:
        other = kind(size, problem.dynamics)
        other.start(problem.law)
        # what is made when it is first needed
        other.run(1e-3 * problem.t_end, 1)
        # at first with a quarter of our right-hand sides
        yield refined(other, problem.sized(size), problem.t_end, max(4.0, evaluations / 16.0))


def refined(other: DedalusRun, modes: str, t_end: float, least: float) -> Iterator[Setting]:
    """Ever more steps."""
    for power in itertools.count():
        steps = int(np.ceil(least * FINER**power))

        def run(steps: int = steps) -> tuple[Array, Callable[[], int]]:
            return other.run(t_end, steps), lambda: 4 * steps

        yield Setting(DEDALUS, f"{modes}, {steps} steps", run, other.points)


def by_differences(problem: Problem, quick: bool) -> Iterator[Setting]:
    """Finite differences on more and more cells."""
    for cells in (64,) if quick else CELLS:
        other = DifferencesRun(cells, problem.dynamics, "scipy" if quick else "numba")
        other.start(problem.law)

        def run(
            other: DifferencesRun = other, cells: int = cells
        ) -> tuple[Array, Callable[[], int]]:
            return other.run(problem.t_end, cells), lambda: 4 * cells

        yield Setting(PDE, f"{cells} cells", run, other.points)


def looked_at(settings: Iterable[Setting], truth: Any, error: float = 0.0) -> list[Setting]:
    """Settings with their errors: to the end, or until one reaches `error` or none gets better."""
    found: list[Setting] = []
    for setting in settings:
        setting.look(truth)
        found.append(setting)
        # far from the error a run may be unstable, and the next one no better
        is_near = len(found) > 1 and setting.error < _NEAR * error
        if setting.error <= error or (is_near and setting.error > _NO_BETTER * found[-2].error):
            break
    return found


def cheapest(settings: Sequence[Setting], error: float) -> Setting | None:
    """Of those that reach an error the one with the fewest right-hand sides times points."""
    good = [setting for setting in settings if setting.error <= error]
    return min(good, key=lambda one: one.evaluations * len(one.points), default=None)
