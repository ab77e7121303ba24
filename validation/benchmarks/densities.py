"""Densities on the circle and S² beside Dedalus, py-pde and bare transforms: error over time.

SA and USA, β = 4, from f0 = 1 + cos(θ)/2 + 0.3 sin 2θ on the circle and from two bumps on S². t_end
is about as late as the modes allow: the last tenth of the spectrum has come to 1e-10 of the norm.
Errors are max |f - f_ref| / max f_ref at t_end; f_ref is a flow map's on the circle, on S² that of
a run with twice the degree and rtol = 1e-11.

`evolve` varies rtol, and does all that it always does: saves, monitors, the energy's balance, the
resolution after every step. Dedalus v3 varies the step, in its strongest form (peers_dedalus.py):
RK4 around its own evaluator. On the circle either may do with 3/4 of the modes. py-pde has finite
differences of second order, with as many Runge-Kutta steps as cells. Bare transforms are those of
our right-hand sides and nothing else, the bound of what any solver can reach with these steps. All
have one thread.

A ratio is of two times: of the settings of the peer and of ours that reach the error with the
fewest right-hand sides times points. py-pde does not come to such errors: its ratio is at the least
error that it has reached. To make a problem of Dedalus, and to compile py-pde's differences, is not
counted. A run of `evolve` takes some 1.2 ms to begin and to be kept, a third of it xarray's: one of
a few dozen right-hand sides of a few dozen modes is over sooner with Dedalus, and the run of USA at
N = 256, over in 4 ms, may stay below its goal for that reason; besides, every second try of a step
is refused there, as the density concentrates within it. So it does for SA at L = 127, where the
steps that are tried have more right-hand sides, 386, than Dedalus' steps of one size, 328.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import meanfield as mf
from validation.benchmarks.density_problems import (
    DUCC,
    FFTW,
    SHTNS,
    Problem,
    evolved,
    problems,
    reference,
)
from validation.benchmarks.form import Tables, main
from validation.benchmarks.peers_dedalus import CircleRun, DedalusRun, SphereRun, dedalus
from validation.benchmarks.peers_pde import DifferencesRun, pde
from validation.benchmarks.right_hand_side import bare_circle, bare_sphere
from validation.benchmarks.timing import interleaved, median, ratio, seconds
from validation.drawing import COLOURS, MARKERS, label, panels, sparse_ticks

Array = NDArray[np.float64]

OURS, DEDALUS, PDE, BARE = "meanfield", "Dedalus", "py-pde", "bare transforms"
WAYS = (f"{OURS}, {FFTW}", f"{OURS}, {DUCC}", f"{OURS}, {SHTNS}", DEDALUS, PDE)
TOLERANCES = tuple(10.0**-k for k in np.arange(2.0, 11.5, 0.5))
CELLS = 256, 1024, 4096
# rounds of the final times, on the circle and not; steps of RK4 from one setting to the next
ROUNDS, ROUNDS_OF_PDE = {True: 15, False: 5}, 3
FINER = 2.0**0.25
# times of a setting, and seconds that are enough of them
_LOOKS, _LOOKED = 5, 0.2
# points at which errors are looked for
_SEEN = 400
# of a short run, in a round
_MOST_CALLS = 20
# of an error to the next what has ceased to fall, in units of the error asked for
_NO_BETTER, _NEAR = 0.9, 1e3


@dataclass
class Setting:
    """A way with its steps or its tolerance; `run` gives f at the points, and right-hand sides."""

    way: str
    what: str
    run: Callable[[], tuple[Array, int]]
    points: Array
    error: float = np.inf
    seconds: float = np.nan
    evaluations: int = 0

    @property
    def name(self) -> str:
        """Of its times."""
        return f"{self.way}, {self.what}"

    def look(self, truth: Callable[[Array], Array]) -> None:
        """The time of a run, and max |f - f_ref| / max f_ref, inf outside double precision."""
        found: list[tuple[Array, int]] = []
        times: list[float] = []
        # what is over soon is looked at again
        while not times or (len(times) < _LOOKS and sum(times) < _LOOKED):
            with np.errstate(all="ignore"):
                times.append(seconds(lambda: found.append(self.run())))
        self.seconds = statistics.median(times)
        (values, self.evaluations), every = found[0], max(1, len(self.points) // _SEEN)
        exact = truth(self.points[::every])
        error = float(np.abs(values[::every] - exact).max() / np.abs(exact).max())
        self.error = error if np.isfinite(error) else np.inf


def ours(problem: Problem, library: str, size: int, quick: bool) -> Iterator[Setting]:
    """`evolve` from coarse to fine."""
    space = problem.space(library, size)
    start = mf.Density(space, problem.law)
    evolved(problem, start, TOLERANCES[0])
    for rtol in TOLERANCES[6:16:5] if quick else TOLERANCES:

        def run(rtol: float = rtol) -> tuple[Array, int]:
            sol = evolved(problem, start, rtol)
            final: mf.Density = sol.final
            return final.values, int(sol.dataset.evaluations[-1])

        what = f"{size} modes, rtol = {rtol:.0e}"
        yield Setting(f"{OURS}, {library}", what, run, space.points)


def by_dedalus(problem: Problem, evaluations: int) -> Iterator[Iterator[Setting]]:
    """RK4 from coarse to fine, for each number of modes."""
    kind = CircleRun if problem.on_circle else SphereRun
    for size in problem.sizes:
        other = kind(size, problem.dynamics)
        other.start(problem.law)
        # what is made when it is first needed
        other.run(1e-3 * problem.t_end, 1)
        # at first with a quarter of our right-hand sides
        yield refined(other, f"{size} modes", problem.t_end, max(4.0, evaluations / 16.0))


def refined(other: DedalusRun, modes: str, t_end: float, least: float) -> Iterator[Setting]:
    """Ever more steps."""
    for power in itertools.count():
        steps = int(np.ceil(least * FINER**power))

        def run(steps: int = steps) -> tuple[Array, int]:
            return other.run(t_end, steps), 4 * steps

        yield Setting(DEDALUS, f"{modes}, {steps} steps", run, other.points)


def by_differences(problem: Problem, quick: bool) -> Iterator[Setting]:
    """Finite differences on more and more cells."""
    for cells in (64,) if quick else CELLS:
        other = DifferencesRun(cells, problem.dynamics, "scipy" if quick else "numba")
        other.start(problem.law)

        def run(other: DifferencesRun = other, cells: int = cells) -> tuple[Array, int]:
            return other.run(problem.t_end, cells), 4 * cells

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


def compared(
    problem: Problem, other: Setting, own: Setting, error: float, rounds: int
) -> dict[str, Any]:
    """The row of two settings, timed in turn."""
    # as long as the peer, so that what a short run finds cold counts no more than a long one's
    calls = {own.name: max(1, min(_MOST_CALLS, round(other.seconds / own.seconds)))}
    times = interleaved({other.name: other.run, own.name: own.run}, rounds, calls=calls)
    other.seconds, own.seconds = median(times, other.name), median(times, own.name)
    goal = problem.goals[library_of(own)] if other.way == DEDALUS else None
    return {
        "ratio": ratio(times, other.name, own.name),
        "goal": goal,
        "problem": problem.name,
        "peer": other.way,
        "ours by": library_of(own),
        "at error": error,
        "error": other.error,
        "our error": own.error,
        "seconds": other.seconds,
        "our seconds": own.seconds,
        "setting": other.what,
        "our setting": own.what,
    }


def library_of(own: Setting) -> str:
    """Of the transforms of a run of ours."""
    return own.way.split(", ")[1]


def beside_bare(problem: Problem, own: Setting, rounds: int) -> dict[str, Any]:
    """Our run over the transforms of its right-hand sides."""
    size = int(own.what.split(" ")[0])
    softmax, space = problem.dynamics.normalised, problem.space(library_of(own), size)
    if isinstance(space, mf.Circle):
        bare = bare_circle(space.size, 3 if softmax else 2)
    else:
        state = mf.Density(space, problem.law).coefficients
        bare = bare_sphere(space, state, softmax)

    def transforms() -> None:
        for _ in range(own.evaluations):
            bare()

    times = interleaved({OURS: own.run, BARE: transforms}, rounds)
    return {
        "ratio": ratio(times, OURS, BARE),
        "problem": problem.name,
        "transforms by": library_of(own),
        "right-hand sides": own.evaluations,
        "seconds": median(times, OURS),
        "seconds of transforms": median(times, BARE),
    }


def missing(problem: Problem, library: str) -> dict[str, Any]:
    """The row of a library that is not installed."""
    return {"ratio": None, "problem": problem.name, "peer": f"{library}: not installed"}


def beside_dedalus(
    problem: Problem, own: Sequence[Setting], truth: Any, rounds: int
) -> tuple[list[dict[str, Any]], list[Setting]]:
    """Rows of the settings of ours, and all settings of Dedalus."""
    if dedalus() is None:
        return [missing(problem, DEDALUS)], []
    error, rows = problem.error, []
    by_modes = [looked_at(one, truth, error) for one in by_dedalus(problem, own[0].evaluations)]
    reached = [best for one in by_modes if (best := cheapest(one, error))]
    for setting in own:
        beside = [compared(problem, other, setting, error, rounds) for other in reached]
        rows.append(min(beside, key=lambda row: row["ratio"]))
    return rows, list(itertools.chain(*by_modes))


def beside_differences(
    problem: Problem, own: Sequence[Setting], truth: Any, quick: bool
) -> tuple[list[dict[str, Any]], list[Setting]]:
    """The row at the least error of py-pde, and all its settings."""
    if not problem.on_circle:
        return [], []
    if pde() is None:
        return [missing(problem, PDE)], []
    found = looked_at(by_differences(problem, quick), truth)
    least = min(found, key=lambda setting: setting.error)
    match = cheapest(own, least.error)
    rounds = 1 if quick else ROUNDS_OF_PDE
    return [compared(problem, least, match, least.error, rounds)] if match else [], found


def measured(problem: Problem, quick: bool) -> tuple[list[dict[str, Any]], ...]:
    """Rows of the peers, of bare transforms and of all settings."""
    truth, rounds = reference(problem), 1 if quick else ROUNDS[problem.on_circle]
    settings: list[Setting] = []
    fastest = []
    for library in problem.libraries():
        by_size = [looked_at(ours(problem, library, n, quick), truth) for n in problem.sizes]
        own = list(itertools.chain(*by_size))
        best = cheapest(own, problem.error)
        assert best is not None, f"no run reaches {problem.error:g} on {problem.name}"
        fastest.append(best)
        settings += own
    bare = [beside_bare(problem, one, rounds) for one in fastest]
    rows, by_peer = beside_dedalus(problem, fastest, truth, rounds)
    more, by_another = beside_differences(problem, settings, truth, quick)
    settings += by_peer + by_another
    points = [point(problem, setting) for setting in settings if setting.error < 1.0]
    return rows + more, bare, points


def point(problem: Problem, setting: Setting) -> dict[str, Any]:
    """A row of the diagram."""
    return {
        "problem": problem.name,
        "way": setting.way,
        "setting": setting.what,
        "error": setting.error,
        "seconds": setting.seconds,
        "right-hand sides": setting.evaluations,
    }


def measure(quick: bool) -> Tables:
    """Ratios to the peers, to bare transforms, and all settings."""
    tables: dict[str, list[dict[str, Any]]] = {
        "over peers at equal error": [],
        "over bare transforms": [],
        "settings": [],
    }
    for problem in problems(quick):
        for rows, table in zip(measured(problem, quick), tables.values(), strict=True):
            table += rows
    return tables


def figure(tables: Tables) -> Figure:
    """Error against time of each problem."""
    rows = tables["settings"]
    names = list(dict.fromkeys(row["problem"] for row in rows))
    columns = min(4, len(names))
    drawing, axes = panels(columns, "Densities, β = 4", -(-len(names) // columns))
    for name, ax in zip(names, axes, strict=True):
        for way, colour, marker in zip(WAYS, COLOURS, MARKERS, strict=False):
            points = [
                (r["seconds"], r["error"]) for r in rows if (r["problem"], r["way"]) == (name, way)
            ]
            if points:
                ax.loglog(*zip(*points, strict=True), marker, color=colour, label=way, markersize=4)
        label(ax, "seconds", "error", name)
        sparse_ticks(ax)
    return drawing


if __name__ == "__main__":
    main(measure, figure, packages=("dedalus", "py-pde", "pyfftw", "ducc0", "shtns"))
