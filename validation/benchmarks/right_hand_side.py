"""One right-hand side over the bare transforms that it can't do without, at β = 4.

`python -m validation.benchmarks.right_hand_side`: medians over interleaved repeats, the ratio
first; the same library, kind of plan and number of threads on either side: one thread, to which
`python -m validation.benchmarks` holds ducc0 too, which has two from lmax 127 on otherwise. SHTns
is a peer that may be missing; its transforms take so little that products and quotients at each
point of the grid, filters and calls are up to a quarter of them. A second table has one head of
identities over SA, on every measure.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import ducc0
import numpy as np
import pyfftw

import meanfield as mf
from validation._inside import Library, adapt, bandwidth, tendency
from validation.benchmarks.form import Tables, main
from validation.benchmarks.timing import interleaved, median, peer, ratio

BETA, REPEATS = 4.0, 31
LAW = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])
BUMPS = mf.Mixture(
    [mf.VonMisesFisher([0.0, 0.0, 1.0], 5.0), mf.VonMisesFisher([0.6, 0.0, -0.8], 3.0)]
)
ONE_HEAD: dict[str, Callable[[], Any]] = {
    "density, circle": lambda: mf.Density(mf.Circle(256), LAW),
    "density, S²": lambda: mf.Density(mf.Sphere(63), BUMPS),
    "flow map, circle": lambda: mf.FlowMap(LAW),
    "flow map, S²": lambda: mf.FlowMap(BUMPS, tol=1e-6),
    "tokens, circle": lambda: mf.Particles.sample(LAW, 2000, np.random.default_rng(0)),
    "tokens, S²": lambda: mf.Particles.sample(BUMPS, 2000, np.random.default_rng(0)),
    "tokens, d = 10": lambda: mf.Particles.sample(mf.Uniform(10), 200, np.random.default_rng(0)),
}
GOALS = {("circle", 256): 3.0, ("circle", 1024): 2.0, ("sphere", 63): 1.15, ("sphere", 127): 1.15}


def bare_circle(n: int, inverse: int) -> Callable[[], None]:
    """So many inverse and one forward real transform of 3n/2 points, each with its plan."""
    count = 3 * n // 2
    plans = []
    for _ in range(inverse):
        modes = pyfftw.zeros_aligned(count // 2 + 1, dtype=np.complex128)
        field = pyfftw.zeros_aligned(count, dtype=np.float64)
        plans.append(pyfftw.FFTW(modes, field, direction="FFTW_BACKWARD", flags=("FFTW_ESTIMATE",)))
    plans.append(
        pyfftw.FFTW(
            pyfftw.zeros_aligned(count, dtype=np.float64),
            pyfftw.zeros_aligned(count // 2 + 1, dtype=np.complex128),
            flags=("FFTW_ESTIMATE",),
        )
    )
    runs = [plan.execute for plan in plans]

    def run() -> None:
        for execute in runs:
            execute()

    return run


def bare_ducc0(space: mf.Sphere, state: np.ndarray, potential: bool) -> Callable[[], None]:
    """Synthesis of f, gradient synthesis (and synthesis) at the kernel's degree, its adjoint."""
    alm = np.array(state.view(np.complex128))[None]
    out, low, grid = np.empty_like(alm), bandwidth(BETA, 3), space.grid
    orders = np.arange(low + 1)
    starts = orders * (2 * space.size + 1 - orders) // 2
    band = {"lmax": low, "mstart": starts.astype(np.uint64)}
    scalar, vector = np.empty((1, len(space.weights))), np.empty((2, len(space.weights)))

    def run() -> None:
        ducc0.sht.synthesis(alm=alm, map=scalar, lmax=space.size, spin=0, **grid)
        ducc0.sht.synthesis(alm=alm, map=vector, spin=1, mode="DERIV1", **band, **grid)
        if potential:
            ducc0.sht.synthesis(alm=alm, map=scalar, spin=0, **band, **grid)
        ducc0.sht.adjoint_synthesis(
            map=vector, alm=out, lmax=space.size, spin=1, mode="DERIV1", **grid
        )

    return run


def bare_shtns(space: mf.Sphere, state: np.ndarray, potential: bool) -> Callable[[], None]:
    """The same by SHTns, planned as the package does: no timing, no polar shortcut, one thread."""
    library: Any = peer("shtns")
    low = bandwidth(BETA, 3)
    plans = [library.sht(degree, degree, 1, library.sht_fourpi, 1) for degree in (space.size, low)]
    for plan in plans:
        flags = library.sht_quick_init | library.SHT_PHI_CONTIGUOUS
        plan.set_grid(len(space.colatitudes), space.n_lon, flags, 0.0, 1)
    whole, part = plans
    alm = np.array(state.view(np.complex128))
    few, out, rest = alm[: part.nlm].copy(), np.empty_like(alm), np.empty_like(alm)
    scalar, south, east = np.empty((3, len(space.weights)))

    def run() -> None:
        whole.SH_to_spat(alm, scalar)
        part.SHsph_to_spat(few, south, east)
        if potential:
            part.SH_to_spat(few, scalar)
        whole.spat_to_SHsphtor(south, east, out, rest)

    return run


def bare_sphere(space: mf.Sphere, state: np.ndarray, potential: bool) -> Callable[[], None]:
    """Those of the space's own library."""
    bare = bare_shtns if space.library == "shtns" else bare_ducc0
    return bare(space, state, potential)


def libraries() -> tuple[Library, ...]:
    """What can transform on S²."""
    return ("ducc0", "shtns") if peer("shtns") else ("ducc0",)


def compare(
    package: Callable[[], Any], bare: Callable[[], Any], calls: int, repeats: int
) -> dict[str, float]:
    """The package's time over the bare transforms', and either in microseconds."""
    ways = {"package": package, "bare": bare}
    times = interleaved(ways, repeats, calls=dict.fromkeys(ways, calls))
    return {
        "ratio": ratio(times, "package", "bare"),
        "package us": median(times, "package") * 1e6,
        "bare us": median(times, "bare") * 1e6,
    }


def allocated(package: Callable[[], Any]) -> int:
    """Peak of the memory, in bytes, that a call takes through Python's allocators."""
    package()
    tracemalloc.start()
    package()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def measure(quick: bool) -> Tables:
    """All comparisons."""
    found = []
    laws = {"circle": LAW, "sphere": BUMPS}
    spaces: list[mf.Circle | mf.Sphere] = [mf.Circle(n) for n in (256, 512, 1024, 4096)]
    spaces += [mf.Sphere(lmax, library) for library in libraries() for lmax in (31, 63, 127)]
    repeats = 3 if quick else REPEATS
    for space in spaces:
        mu = mf.Density(space, laws[space.kind])
        for kind in (mf.USA, mf.SA):
            rate = tendency(mu, kind(BETA))
            state, out = rate.initial_state, np.empty_like(rate.initial_state)
            softmax = kind is mf.SA
            if isinstance(space, mf.Circle):
                bare = bare_circle(space.size, 3 if softmax else 2)
            else:
                bare = bare_sphere(space, state, softmax)

            def package(rate: Any = rate, state: Any = state, out: Any = out) -> None:
                rate(state, out)

            goal = GOALS.get((space.kind, space.size))
            calls = max(3, int(2e6 / len(space.weights) ** 1.2 / (40 if quick else 4)))
            times = compare(package, bare, calls, repeats)
            found.append(
                {
                    "ratio": times["ratio"],
                    "goal": goal,
                    "goal is": goal and "at most",
                    "library": space.library if isinstance(space, mf.Sphere) else "pyfftw",
                    "space": space.kind,
                    "size": space.size,
                    "dynamics": kind.__name__,
                }
                | times
                | {"allocated/grid": allocated(package) / (8 * len(space.weights))}
            )
    return {"": found, "one head of identities": [one_head(place, quick) for place in ONE_HEAD]}


def one_head(place: str, quick: bool) -> dict[str, Any]:
    """A right-hand side of `Attention(β, [Head()])` over that of `SA(β)`: one way for both."""
    start, repeats = ONE_HEAD[place], 3 if quick else REPEATS
    ways, size = {}, 0
    for name, dynamics in ("Attention", mf.Attention(BETA, [mf.Head()])), ("SA", mf.SA(BETA)):
        measure = start()
        rate, size = tendency(measure, adapt(dynamics)), len(measure.points)
        ways[name] = partial(rate, rate.initial_state, np.empty_like(rate.initial_state))
    calls = 1 if quick else max(3, int(2e5 / size))
    times = interleaved(ways, repeats, calls=dict.fromkeys(ways, calls))
    return {
        "ratio": ratio(times, "Attention", "SA"),
        "goal": 1.1,
        "goal is": "at most",
        "measure": place,
        "size": size,
        "Attention us": median(times, "Attention") * 1e6,
        "SA us": median(times, "SA") * 1e6,
    }


if __name__ == "__main__":
    main(measure, packages=("pyfftw", "ducc0", "shtns"))
