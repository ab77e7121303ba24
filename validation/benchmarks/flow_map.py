"""What a flow map costs beside Fourier runs of the same error, over t up to where Fourier ends.

SA and USA, β = 4, f0 = 1 + cos(θ)/2 + 0.3 sin 2θ; errors are those of the energy at t, against a
flow map with tol = 1e-14 and, where the older value is known, that of a Fourier run with N = 8192.
The Fourier run is `evolve` in its strongest form: it starts small and doubles N, up to 65536, where
the tail of the spectrum says so. Of both, the first of several tolerances, half a decade apart,
that has an error of at most 1e-8 is timed, medians over interleaved rounds (once if a Fourier run
takes more than 5 s); ratios are of Fourier's time to the flow map's, so that below 1 the density is
to be preferred. "error against seconds" has every fourth tolerance at one t. Where no N up to 65536
holds the density the row says at which t Fourier ended, and the seconds that it took until there;
later rows repeat that.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import meanfield as mf
from validation.benchmarks.form import Tables, main
from validation.benchmarks.timing import interleaved, median, ratio
from validation.drawing import CLAIMED, COLOURS, MARKERS, label, panels, sparse_ticks

LAW = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])
ERROR, LARGEST, REPEATS = 1e-8, 1 << 16, 5
OWN, FOURIER = "flow map", "Fourier"
TOLERANCES = tuple(10.0**-k for k in np.arange(4.0, 12.5, 0.5))
ENDED = "Fourier ended at t"
# seconds from which on a run is timed once
LONG = 5.0


@dataclass(frozen=True)
class Problem:
    """Dynamics, the times at which both are compared, and the one of which all tolerances are."""

    dynamics: mf.SA | mf.USA
    times: tuple[float, ...]
    at: float


PROBLEMS = [
    Problem(mf.SA(4.0), (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 20.0), 7.0),
    Problem(mf.USA(4.0), (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.38, 0.4, 0.5), 0.3),
]
# by a Fourier run with N = 8192
KNOWN = {("SA", 5.0): 3.62038354988778, ("USA", 0.5): 3.41738665514126}


def flow(problem: Problem, t: float, tolerance: float) -> mf.Solution:
    """A flow map's run; steps are a thousandth more exact than nodes."""
    mu = mf.FlowMap(LAW, tol=tolerance)
    return mf.evolve(mu, problem.dynamics, t, 1, rtol=max(1e-3 * tolerance, 1e-13))


def fourier(problem: Problem, t: float, tolerance: float) -> mf.Solution:
    """A density's run in spaces that double."""
    mu = mf.Density(mf.Circle(64), LAW, tail_tol=tolerance, max_size=LARGEST)
    rtol = max(tolerance, 1e-12)
    options = {"rtol": rtol, "atol": 1e-3 * rtol}
    with warnings.catch_warnings():
        # where it ends is a figure of the table
        warnings.simplefilter("ignore", mf.exceptions.UnfinishedWarning)
        return mf.evolve(mu, problem.dynamics, t, 1, on_unresolved="stop", **options)  # type: ignore[arg-type]


def truth(problem: Problem, t: float) -> float:
    """The energy at t."""
    energy = float(flow(problem, t, 1e-14).dataset.energy[-1])
    known = KNOWN.get((problem.dynamics.name, t), energy)
    if abs(energy - known) > 1e-2 * ERROR:
        raise RuntimeError(f"energies at t = {t:g} differ: {energy!r} and {known!r}")
    return energy


@dataclass(frozen=True)
class Run:
    """One tolerance of one way, its error, size and first time; without error if it ended early."""

    way: str
    tolerance: float
    error: float | None
    size: int
    reached: float
    once: float
    call: Callable[[], Any]


def run(way: str, problem: Problem, t: float, tolerance: float, energy: float) -> Run:
    """What a run finds."""
    solve = flow if way == OWN else fourier

    def call() -> mf.Solution:
        return solve(problem, t, tolerance)

    start = time.perf_counter()
    sol = call()
    once = time.perf_counter() - start
    reached, final = float(sol.t[-1]), sol.final
    error = abs(float(sol.dataset.energy[-1]) - energy) if reached == t else None
    size = final.space.size if isinstance(final, mf.Density) else len(final.points)
    return Run(way, tolerance, error, size, reached, once, call)


def exact_enough(way: str, problem: Problem, t: float, energy: float) -> Run:
    """The first tolerance with the error, or the first run that ends early."""
    for tolerance in TOLERANCES:
        found = run(way, problem, t, tolerance, energy)
        if found.error is None or found.error <= ERROR:
            return found
    return found


def compared(problem: Problem, t: float, rounds: int, end: dict[str, Any]) -> dict[str, Any]:
    """Both at one t; Fourier no more once it has ended, which `end` tells."""
    energy = truth(problem, t)
    own = exact_enough(OWN, problem, t, energy)
    row: dict[str, Any] = {"ratio": None, "dynamics": problem.dynamics.name, "t": t}
    row |= {"error": own.error, "nodes": own.size}
    if end:
        return row | {"seconds": median(interleaved({OWN: own.call}, rounds), OWN), **end}
    other = exact_enough(FOURIER, problem, t, energy)
    row |= {"Fourier: error": other.error, "N": other.size}
    if other.error is None:
        return row | {
            "seconds": median(interleaved({OWN: own.call}, rounds), OWN),
            "Fourier: seconds": other.once,
            ENDED: other.reached,
        }
    if other.once > LONG:
        times = interleaved({OWN: own.call}, rounds)
        times[FOURIER] = [other.once] * rounds
    else:
        times = interleaved({OWN: own.call, FOURIER: other.call}, rounds)
    return row | {
        "ratio": ratio(times, FOURIER, OWN),
        "seconds": median(times, OWN),
        "Fourier: seconds": median(times, FOURIER),
    }


def over_t(problem: Problem, rounds: int, count: int) -> list[dict[str, Any]]:
    """A row for each of the first times."""
    found: list[dict[str, Any]] = []
    for t in problem.times[:count]:
        ended = next((row for row in found if ENDED in row), {})
        end = {name: ended[name] for name in ("N", "Fourier: seconds", ENDED) if ended}
        found.append(compared(problem, t, rounds, end))
    return found


def over_error(problem: Problem, t: float, rounds: int) -> list[dict[str, Any]]:
    """Every fourth tolerance of both at one t."""
    energy = truth(problem, t)
    runs = [run(way, problem, t, tol, energy) for way in (OWN, FOURIER) for tol in TOLERANCES[::4]]
    times = interleaved({f"{one.way}, {one.tolerance}": one.call for one in runs}, rounds)
    return [
        {
            "dynamics": problem.dynamics.name,
            "t": t,
            "way": one.way,
            "tolerance": one.tolerance,
            "error": one.error,
            "nodes or N": one.size,
            "seconds": median(times, f"{one.way}, {one.tolerance}"),
        }
        for one in runs
    ]


def measure(quick: bool) -> Tables:
    """Over t, and over errors."""
    rounds, count = (1, 1) if quick else (REPEATS, max(len(one.times) for one in PROBLEMS))
    chosen = PROBLEMS[:1] if quick else PROBLEMS
    return {
        "over t, errors of 1e-8": [row for one in chosen for row in over_t(one, rounds, count)],
        "error against seconds": [
            row
            for one in chosen
            for row in over_error(one, one.times[0] if quick else one.at, rounds)
        ],
    }


def figure(tables: Tables) -> Figure:
    """The ratio over t, and error against time at one t, of each dynamics."""
    over, errors = tables.values()
    names = list(dict.fromkeys(row["dynamics"] for row in over))
    drawing, axes = panels(len(names), "Flow map and Fourier, circle, β = 4", rows=2)
    for above, below, name in zip(axes[: len(names)], axes[len(names) :], names, strict=True):
        rows = [row for row in over if row["dynamics"] == name and row["ratio"]]
        ts = [row["t"] for row in rows]
        above.semilogy(ts, [row["ratio"] for row in rows], "o-", color=COLOURS[0])
        above.axhline(1.0, **CLAIMED)
        ends = [row[ENDED] for row in over if row["dynamics"] == name and ENDED in row]
        if ends:
            above.axvline(ends[0], **CLAIMED | {"linestyle": ":"}, label="Fourier ends")
        label(above, "t", "Fourier's time over the flow map's", name)
        for way, colour, marker in zip((OWN, FOURIER), COLOURS, MARKERS, strict=False):
            points = [
                (row["seconds"], max(row["error"], 1e-16))
                for row in errors
                if (row["dynamics"], row["way"]) == (name, way) and row["error"] is not None
            ]
            if points:
                below.loglog(*zip(*points, strict=True), marker + "-", color=colour, label=way)
        at = next(row["t"] for row in errors if row["dynamics"] == name)
        label(below, "seconds", "error of the energy", f"{name}, t = {at:g}")
        sparse_ticks(below)
    return drawing


if __name__ == "__main__":
    main(measure, figure)
