"""Densities on the circle and S² beside Dedalus, py-pde and bare transforms: error over time.

SA and USA, β = 4, from f0 = 1 + cos(θ)/2 + 0.3 sin 2θ on the circle and from two bumps on S². t_end
is about as late as the modes allow: the last tenth of the spectrum has come to 1e-10 of the norm.
Errors are max |f - f_ref| / max f_ref at t_end; f_ref is a flow map's on the circle, on S² that of
a run with twice the degree and rtol = 1e-11.

`evolve` varies rtol, and does all that it always does: saves, monitors, the energy's balance, the
resolution after every step. Dedalus v3 varies the step, in its strongest form (peers_dedalus.py):
RK4 around its own evaluator, with as many modes and with 3/4 of them. py-pde has finite
differences of second order, with as many Runge-Kutta steps as cells. Bare transforms are those of
our right-hand sides and nothing else, the bound of what any solver can reach with these steps.

A ratio is of two times: of the fastest setting of the peer that reaches the error, and of ours.
py-pde does not come to such errors: its ratio is at the least error that it has reached.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import meanfield as mf
from validation.benchmarks.form import Tables, main
from validation.benchmarks.peers_dedalus import CircleRun, DedalusRun, SphereRun, dedalus
from validation.benchmarks.peers_pde import DifferencesRun, pde
from validation.benchmarks.right_hand_side import bare_circle, bare_sphere
from validation.benchmarks.timing import interleaved, median, ratio, seconds
from validation.drawing import COLOURS, MARKERS, label, panels

Array = NDArray[np.float64]
Space = mf.Circle | mf.Sphere

SA, USA = mf.SA(4.0), mf.USA(4.0)
BUMPS = [mf.VonMisesFisher([0.0, 0.0, 1.0], 5.0), mf.VonMisesFisher([0.6, 0.0, -0.8], 3.0)]
LAWS = {"circle": mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3]), "sphere": mf.Mixture(BUMPS)}
OURS, DEDALUS, PDE, BARE = "meanfield", "Dedalus", "py-pde", "bare transforms"
WAYS = (OURS, DEDALUS, PDE)
TOLERANCES = tuple(10.0**-k for k in np.arange(4.0, 11.5, 0.5))
CELLS = 256, 1024, 4096
# rounds of the final times, by dimension; steps of RK4 from one setting to the next
ROUNDS = {2: 15, 3: 5}
FINER = 2.0**0.25
# points at which errors are looked for, and of an error to the next what has ceased to fall
_SEEN, _NO_BETTER = 400, 0.9


@dataclass(frozen=True)
class Problem:
    """What is run, the error at which times are compared, and what the ratio is to be."""

    space: Space
    dynamics: mf.SA | mf.USA
    t_end: float
    error: float
    goal: float | None = None

    @property
    def name(self) -> str:
        """Space and dynamics."""
        size = "N" if self.space.dim == 2 else "L"
        where = "circle" if self.space.dim == 2 else "S²"
        return f"{where}, {size} = {self.space.size}, {self.dynamics.name}"

    @property
    def law(self) -> mf.Mixture | mf.FourierSeries:
        """At t = 0."""
        return LAWS[self.space.name]


@dataclass
class Setting:
    """A way with its steps or its tolerance; `run` gives f at the points."""

    way: str
    what: str
    run: Callable[[], Array]
    points: Array
    error: float = np.inf
    seconds: float = np.nan

    @property
    def name(self) -> str:
        """Of its times."""
        return f"{self.way}, {self.what}"

    def look(self, truth: Callable[[Array], Array]) -> None:
        """Run once: the time, and max |f - f_ref| / max f_ref, inf outside double precision."""
        found = []
        with np.errstate(all="ignore"):
            self.seconds = seconds(lambda: found.append(self.run()))
        at = slice(None, None, max(1, len(self.points) // _SEEN))
        exact = truth(self.points[at])
        error = float(np.abs(found[0][at] - exact).max() / np.abs(exact).max())
        self.error = error if np.isfinite(error) else np.inf


def problems(quick: bool) -> list[Problem]:
    """All of them, or small ones."""
    if quick:
        return [
            Problem(mf.Circle(48), SA, 0.5, 1e-5),
            Problem(mf.Sphere(31), USA, 0.01, 1e-4),
        ]
    return [
        Problem(mf.Circle(256), SA, 3.5, 1e-8, 20.0),
        Problem(mf.Circle(256), USA, 0.165, 1e-8, 20.0),
        Problem(mf.Circle(1024), SA, 5.0, 1e-8, 8.0),
        Problem(mf.Circle(1024), USA, 0.22, 1e-8, 8.0),
        Problem(mf.Sphere(63), SA, 1.5, 1e-6, 4.5),
        Problem(mf.Sphere(63), USA, 0.05, 1e-6, 4.5),
        Problem(mf.Sphere(127), SA, 2.25, 1e-6, 4.0),
        Problem(mf.Sphere(127), USA, 0.085, 1e-6, 4.0),
    ]


def evolved(problem: Problem, start: mf.Density, rtol: float) -> mf.Solution:
    """A run that stays in its space."""
    tolerances = {"rtol": rtol, "atol": 1e-3 * rtol, "largest": start.space.size}
    sol = mf.evolve(start, problem.dynamics, problem.t_end, 1, **tolerances)
    assert sol.status == "finished", sol.message
    return sol


def reference(problem: Problem) -> Callable[[Array], Array]:
    """f at t_end at points, by another representation or a finer one."""
    if problem.space.dim == 2:
        flow = mf.FlowMap(problem.law, tol=1e-13)
        sol = mf.evolve(flow, problem.dynamics, problem.t_end, 1)
        return lambda points: np.asarray(sol.density(points, problem.t_end))
    finer = mf.Density(problem.space.doubled(), problem.law)
    final: mf.Density = evolved(problem, finer, 1e-11).final
    return final.at


def ours(problem: Problem, quick: bool) -> Iterator[Setting]:
    """`evolve` from coarse to fine."""
    start = mf.Density(problem.space, problem.law)
    for rtol in TOLERANCES[2:12:5] if quick else TOLERANCES:

        def run(rtol: float = rtol) -> Array:
            final: mf.Density = evolved(problem, start, rtol).final
            return final.values

        yield Setting(OURS, f"rtol = {rtol:.0e}", run, problem.space.points)


def by_dedalus(problem: Problem, evaluations: int) -> Iterator[Iterator[Setting]]:
    """RK4 from coarse to fine, for each number of modes."""
    on_circle = problem.space.dim == 2
    for share in (1.0, 0.75) if on_circle else (1.0,):
        size = int(share * problem.space.size)
        peer = (CircleRun if on_circle else SphereRun)(size, problem.dynamics)
        peer.start(problem.law)
        # at first with an eighth of our evaluations
        yield refined(peer, f"{size} modes", problem.t_end, max(4.0, evaluations / 32.0))


def refined(peer: DedalusRun, modes: str, t_end: float, least: float) -> Iterator[Setting]:
    """Ever more steps."""
    for power in itertools.count():
        steps = int(np.ceil(least * FINER**power))

        def run(steps: int = steps) -> Array:
            return peer.run(t_end, steps)

        yield Setting(DEDALUS, f"{modes}, {steps} steps", run, peer.points)


def by_differences(problem: Problem, quick: bool) -> Iterator[Setting]:
    """Finite differences on more and more cells."""
    for cells in (64,) if quick else CELLS:
        peer = DifferencesRun(cells, problem.dynamics, "scipy" if quick else "numba")
        peer.start(problem.law)

        def run(peer: DifferencesRun = peer, cells: int = cells) -> Array:
            return peer.run(problem.t_end, cells)

        yield Setting(PDE, f"{cells} cells", run, peer.points)


def looked_at(settings: Iterable[Setting], truth: Any, error: float = 0.0) -> list[Setting]:
    """Settings with their errors: to the end, or until one reaches `error` or none gets better."""
    found: list[Setting] = []
    for setting in settings:
        setting.look(truth)
        found.append(setting)
        at_floor = len(found) > 1 and _NO_BETTER * found[-2].error < setting.error < np.inf
        if setting.error <= error or (error > 0.0 and at_floor):
            break
    return found


def first(settings: Sequence[Setting], error: float) -> Setting | None:
    """The first that reaches an error."""
    return next((setting for setting in settings if setting.error <= error), None)


def compared(
    problem: Problem, peer: Setting, own: Setting, error: float, rounds: int
) -> dict[str, Any]:
    """The row of two settings, timed in turn."""
    times = interleaved({peer.name: peer.run, own.name: own.run}, rounds)
    peer.seconds, own.seconds = median(times, peer.name), median(times, own.name)
    return {
        "ratio": ratio(times, peer.name, own.name),
        "goal": problem.goal if peer.way == DEDALUS else None,
        "problem": problem.name,
        "peer": peer.way,
        "at error": error,
        "error": peer.error,
        "our error": own.error,
        "seconds": peer.seconds,
        "our seconds": own.seconds,
        "setting": peer.what,
        "our setting": own.what,
    }


def beside_bare(problem: Problem, own: Setting, rounds: int) -> dict[str, Any]:
    """Our run over the transforms of its right-hand sides."""
    start = mf.Density(problem.space, problem.law)
    softmax = problem.dynamics.normalised
    if isinstance(problem.space, mf.Circle):
        bare = bare_circle(problem.space.size, 3 if softmax else 2)
    else:
        bare = bare_sphere(problem.space, start.coefficients, softmax)
    rtol = float(own.what.split("=")[1])
    sol = evolved(problem, start, rtol)
    count = int(sol.dataset.evaluations[-1])

    def transforms() -> None:
        for _ in range(count):
            bare()

    times = interleaved({OURS: own.run, BARE: transforms}, rounds)
    return {
        "ratio": ratio(times, OURS, BARE),
        "problem": problem.name,
        "right-hand sides": count,
        "seconds": median(times, OURS),
        "seconds of transforms": median(times, BARE),
    }


def measured(problem: Problem, quick: bool) -> tuple[list[dict[str, Any]], ...]:
    """Rows of the peers, of bare transforms and of all settings."""
    truth, error = reference(problem), problem.error
    own = looked_at(ours(problem, quick), truth)
    fastest = first(own, error)
    assert fastest is not None, f"no run of ours reaches {error:g} on {problem.name}"
    rounds = 1 if quick else ROUNDS[problem.space.dim]
    bare = beside_bare(problem, fastest, rounds)
    settings, rows = list(own), []
    if dedalus() is not None:
        found = [
            looked_at(one, truth, error) for one in by_dedalus(problem, bare["right-hand sides"])
        ]
        settings += itertools.chain(*found)
        reached = [peer for one in found if (peer := first(one, error))]
        rows += [compared(problem, peer, fastest, error, rounds) for peer in reached]
        rows = [min(rows, key=lambda row: row["ratio"])]
    else:
        rows.append({"ratio": None, "problem": problem.name, "peer": f"{DEDALUS}: not installed"})
    if problem.space.dim == 2 and pde() is not None:
        found_by_pde = looked_at(by_differences(problem, quick), truth)
        settings += found_by_pde
        best = min(found_by_pde, key=lambda setting: setting.error)
        match = first(own, best.error)
        if match is not None:
            rows.append(compared(problem, best, match, best.error, rounds))
    elif problem.space.dim == 2:
        rows.append({"ratio": None, "problem": problem.name, "peer": f"{PDE}: not installed"})
    points = [
        {"problem": problem.name, "way": s.way, "setting": s.what}
        | {"error": s.error, "seconds": s.seconds}
        for s in settings
        if np.isfinite(s.error)
    ]
    return rows, [bare], points


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
    return drawing


if __name__ == "__main__":
    main(measure, figure, packages=("dedalus", "py-pde", "pyfftw", "ducc0"))
