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

A ratio is of two times at an error. Of our settings that reach it the one with the fewest
right-hand sides times points is taken; of Dedalus the cheapest one, so counted, of each number of
modes: each is timed beside ours in turn, and the smaller of their ratios is reported. py-pde does
not come to such errors: its ratio is at the least error that it has reached. Seconds beside a ratio
are medians of these rounds, those of the table of settings are of a few runs when the setting was
tried: they differ by what the machine does meanwhile. To make a problem of Dedalus, and to compile
py-pde's differences, is not counted.

A short run is mostly Python: of that of USA at N = 256, over in 2 to 4 ms, a quarter goes into
beginning and keeping it, a tenth into transforms, and the rest into calls. Its dataset takes some
0.8 ms more when it is asked for, which does not count here.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import meanfield as mf
from validation.benchmarks.density_problems import Problem, problems, reference
from validation.benchmarks.density_settings import (
    DEDALUS,
    OURS,
    PDE,
    WAYS,
    Setting,
    by_dedalus,
    by_differences,
    cheapest,
    looked_at,
    ours,
)
from validation.benchmarks.form import Tables, main
from validation.benchmarks.peers_dedalus import dedalus
from validation.benchmarks.peers_pde import pde
from validation.benchmarks.right_hand_side import bare_circle, bare_sphere
from validation.benchmarks.timing import interleaved, median, ratio
from validation.drawing import CLAIMED, COLOURS, MARKERS, label, panels, sparse_ticks

Array = NDArray[np.float64]

BARE = "bare transforms"
# rounds of the final times, on the circle and not
ROUNDS, ROUNDS_OF_PDE = {True: 15, False: 5}, 3
# of a short run, in a round
_MOST_CALLS = 20


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
    softmax, space = problem.dynamics.normalised, own.space
    assert space is not None
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
    """Error against time of each problem, with the error that is compared."""
    over, rows = tables["over peers at equal error"], tables["settings"]
    names = list(dict.fromkeys(row["problem"] for row in rows))
    columns = min(4, len(names))
    drawing, axes = panels(columns, "Densities, β = 4", -(-len(names) // columns))
    error_of = {row["problem"]: row["at error"] for row in over if row["peer"] == DEDALUS}
    for name, ax in zip(names, axes, strict=True):
        if name in error_of:
            ax.axhline(error_of[name], **CLAIMED)
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
