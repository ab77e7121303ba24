"""How times grow with sizes, beside the order that the method has, and with threads and workers.

One right-hand side for SA, β = 4, on one thread, over the number of modes N on the circle (N log N
by FFTs), the degree lmax on S² (lmax³ by Legendre transforms) for either library of transforms, the
degree N about an axis (N² by dense products), the number n of tokens summed by transforms (n) and
directly (n²), and the nodes of a flow map (n). Tokens on S² take two threads from n = 20,000 on;
those on the circle are summed in cells, by one. A `Sphere` of its own accord has SHTns, where it is
installed, for 20 ≤ lmax ≤ 127, and ducc0 elsewhere. Times are the least of all rounds, which other
processes disturb least, and orders are fitted to the logarithms of the four largest sizes; the
expected ones are those of the law at the same sizes, so that N log N counts with its logarithm.
Below the sizes where the law holds, calls into Python and caches hide it: fitted orders are below
the expected ones where the sizes are small, and above where the largest no longer fits the
processor's cache. The short form has too few sizes to fit any. "side by side" is the same work on
one and on two threads or processes; the gain is at most 2 on two cores, and less where other
processes have them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import ducc0
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from numpy.typing import NDArray

import meanfield as mf
from validation._inside import Library, tendency
from validation.benchmarks.form import THREADS, Tables, main
from validation.benchmarks.right_hand_side import libraries
from validation.benchmarks.timing import interleaved, median, ratio
from validation.drawing import CLAIMED, COLOURS, label, panels, sparse_ticks

# OpenMP's limit would hold the threads that are compared to one
ONE_THREAD = THREADS[:1]

Array = NDArray[np.float64]
Call = Callable[[], Any]

DYNAMICS = mf.SA(4.0)
LAWS = {
    2: mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3]),
    3: mf.VonMisesFisher([0.0, 0.0, 1.0], 5.0),
}
REPEATS, FITTED = 7, 4
# a call of a round takes this long, so that a clock's tick does not count
ROUND = 2e-3
BETAS = [float(beta) for beta in np.linspace(1.0, 8.0, 8)]


def of_state(measure: Any) -> Call:
    """One right-hand side."""
    rate = tendency(measure, DYNAMICS)
    state = rate.initial_state
    out = np.empty_like(state)
    return lambda: rate(state, out)


def circle(n: int) -> Call:
    """A density on the circle."""
    return of_state(mf.Density(mf.Circle(n), LAWS[2]))


def sphere(library: Library) -> Callable[[int], Call]:
    """A density on S², on one thread."""

    def call(lmax: int) -> Call:
        space = mf.Sphere(lmax, library)
        space.grid["nthreads"] = 1
        return of_state(mf.Density(space, LAWS[3]))

    return call


def zonal(degree: int) -> Call:
    """A density about an axis, d = 3."""
    return of_state(mf.Density(mf.Zonal(3, degree), LAWS[3]))


def tokens(dim: int, sums: str) -> Callable[[int], Call]:
    """Tokens of a law."""

    def call(n: int) -> Call:
        rng = np.random.default_rng(0)
        return of_state(mf.Particles.sample(LAWS[dim], n, rng, sums=sums))

    return call


def nodes(bumps: int) -> Call:
    """A flow map of a comb of bumps, whose nodes are as many as their number asks for."""
    return of_state(comb(bumps))


def comb(bumps: int) -> mf.FlowMap:
    """Equal bumps at equal angles, as narrow as they are many."""
    turns = 2.0 * np.pi / bumps * np.arange(bumps)
    kappa = 2.0 * (1.0 + bumps) ** 2
    return mf.FlowMap(mf.Mixture([mf.VonMisesFisher([np.cos(a), np.sin(a)], kappa) for a in turns]))


SHTNS = "S² by SHTns, lmax"
# what grows, how it is made, the law, sizes of the full and of the short form
KINDS: dict[str, tuple[Callable[[int], Call], Callable[[Array], Array], list[int], list[int]]] = {
    "circle, N": (circle, lambda n: n * np.log(n), [1 << k for k in range(8, 18)], [256, 512]),
    "S² by ducc0, lmax": (
        sphere("ducc0"),
        lambda n: n**3,
        [31, 47, 63, 95, 127, 191, 255, 383],
        [15, 31],
    ),
    SHTNS: (sphere("shtns"), lambda n: n**3, [23, 31, 47, 63, 95, 127], [23, 31]),
    "about an axis, N": (zonal, lambda n: n**2, [64, 128, 256, 512, 1024, 2048], [64, 128]),
    "tokens on the circle, n": (
        tokens(2, "transforms"),
        lambda n: n,
        [1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000],
        [1_000, 3_000],
    ),
    "tokens on S², n": (
        tokens(3, "transforms"),
        lambda n: n,
        [1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000],
        [1_000, 3_000],
    ),
    "tokens, direct sums, n": (
        tokens(2, "direct"),
        lambda n: n**2,
        [250, 500, 1_000, 2_000, 4_000, 8_000],
        [250, 500],
    ),
    "flow map, nodes": (nodes, lambda n: n, [2, 4, 8, 16, 32, 64, 128], [2, 4]),
}


def sizes(kind: str, made: list[int]) -> list[int]:
    """The sizes themselves; of flow maps the nodes that they came to have."""
    return [len(comb(k).points) for k in made] if kind == "flow map, nodes" else made


def grown(kind: str, quick: bool) -> list[dict[str, Any]]:
    """Seconds over sizes."""
    make, _, full, short = KINDS[kind]
    made = short if quick else full
    calls = {f"{k}": make(k) for k in made}
    once = interleaved(calls, 1)
    counts = {name: max(1, int(ROUND / median(once, name))) for name in calls}
    times = interleaved(calls, 2 if quick else REPEATS, calls=counts)
    return [
        {"what": kind, "size": size, "seconds": min(times[f"{k}"])}
        for size, k in zip(sizes(kind, made), made, strict=True)
    ]


def order(kind: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Fitted to the largest sizes, beside that of the law at the same sizes."""
    last = rows[-FITTED:]
    size = np.array([row["size"] for row in last], dtype=np.float64)
    is_enough = len(last) == FITTED

    def slope(values: Array) -> float:
        return float(np.polyfit(np.log(size), np.log(values), 1)[0])

    return {
        "what": kind,
        "expected order": slope(np.asarray(KINDS[kind][1](size))),
        "fitted order": slope(np.array([row["seconds"] for row in last])) if is_enough else None,
        "from": last[0]["size"],
        "to": last[-1]["size"],
    }


def by_threads(lmax: int, rounds: int) -> dict[str, Any]:
    """Synthesis and its adjoint on S², on one thread and two."""
    space = mf.Sphere(lmax)
    alm = np.zeros((1, space.n_coefficients), dtype=np.complex128)
    alm[0, : lmax + 1] = 1.0

    def both(threads: int) -> Call:
        grid = space.grid | {"nthreads": threads}

        def call() -> None:
            values = ducc0.sht.synthesis(alm=alm, lmax=lmax, spin=0, **grid)
            ducc0.sht.adjoint_synthesis(map=values, lmax=lmax, spin=0, **grid)

        return call

    calls = max(1, int(2e7 / lmax**3))
    ways = {"1": both(1), "2": both(2)}
    times = interleaved(ways, rounds, calls=dict.fromkeys(ways, calls))
    return _gain(f"threads of transforms, lmax = {lmax}", times)


def run_of(beta: float) -> float:
    """A run, and the energy at its end."""
    start = mf.Density(mf.Circle(512), LAWS[2], max_size=512)
    tight = {"rtol": 1e-12, "atol": 1e-14}
    sol = mf.evolve(start, mf.SA(beta), 0.5, 4, on_unresolved="stop", **tight)
    return float(sol.dataset.energy[-1])


def by_workers(rounds: int, betas: list[float]) -> dict[str, Any]:
    """A sweep over β, in pools that stand."""
    with ProcessPoolExecutor(1) as one, ProcessPoolExecutor(2) as two:
        ways = {
            "1": lambda: list(one.map(run_of, betas)),
            "2": lambda: list(two.map(run_of, betas)),
        }
        times = interleaved(ways, rounds)
    return _gain(f"workers of a sweep over {len(betas)} β, N = 512", times)


def _gain(what: str, times: Any) -> dict[str, Any]:
    return {
        "ratio": ratio(times, "1", "2"),
        "what": what,
        "seconds on one": median(times, "1"),
        "seconds on two": median(times, "2"),
        "at most": 2,
    }


def measure(quick: bool) -> Tables:
    """Orders, gains of two over one, and all times."""
    kinds = [kind for kind in KINDS if kind != SHTNS or "shtns" in libraries()]
    times = {kind: grown(kind, quick) for kind in kinds}
    rounds = 1 if quick else REPEATS
    beside = [by_threads(lmax, rounds) for lmax in ([31] if quick else [63, 127, 255])]
    beside.append(by_workers(rounds, BETAS[:2] if quick else BETAS))
    return {
        "orders": [order(kind, rows) for kind, rows in times.items()],
        "side by side": beside,
        "times": [row for rows in times.values() for row in rows],
    }


def figure(tables: Tables) -> Figure:
    """Seconds over sizes, with the law through the largest."""
    drawing, axes = panels(3, "Seconds of one right-hand side; dashed: the expected order", rows=3)
    kinds = dict.fromkeys(row["what"] for row in tables["times"])
    for ax in axes[len(kinds) : -1]:
        ax.set_axis_off()
    for ax, kind in zip(axes, kinds, strict=False):
        law = KINDS[kind][1]
        rows = [row for row in tables["times"] if row["what"] == kind]
        size = np.array([row["size"] for row in rows], dtype=np.float64)
        seconds = np.array([row["seconds"] for row in rows])
        expected = law(size)
        ax.loglog(size, seconds, "o-", color=COLOURS[0], markersize=3)
        ax.loglog(size, expected / expected[-1] * seconds[-1], **CLAIMED)
        name, _, unit = kind.rpartition(", ")
        ax.xaxis.set_minor_formatter(NullFormatter())
        label(ax, unit, "seconds", name)
        sparse_ticks(ax)
    _draw_gains(axes[-1], tables["side by side"])
    return drawing


def _draw_gains(ax: Any, rows: Any) -> None:
    """How much less time two threads or workers take."""
    names = ["\n".join(row["what"].split(", ")) for row in rows]
    ax.bar(range(len(rows)), [row["ratio"] for row in rows], color=COLOURS[1])
    ax.axhline(2.0, **CLAIMED)
    ax.set_xticks(range(len(rows)), names, rotation=30, ha="right")
    label(ax, "", "gain of two over one", "threads and workers")


if __name__ == "__main__":
    main(measure, figure, packages=("ducc0", "shtns", "pyfftw"))
