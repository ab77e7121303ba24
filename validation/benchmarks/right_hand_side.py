"""One right-hand side over the bare transforms that it can't do without, at β = 4.

`python -m validation.benchmarks.right_hand_side`: medians over interleaved repeats, the ratio
first; the same library, kind of plan and number of threads on either side. Writes
results/right_hand_side.json.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import timeit
import tracemalloc
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import ducc0
import numpy as np
import pyfftw

import meanfield as mf
from meanfield.harmonics import bandwidth
from meanfield.tendency import tendency

BETA, REPEATS = 4.0, 31
RESULTS = Path(__file__).parent / "results" / "right_hand_side.json"
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


def bare_sphere(space: mf.Sphere, state: np.ndarray, potential: bool) -> Callable[[], None]:
    """Synthesis of f, gradient synthesis (and synthesis) at the kernel's degree, its adjoint."""
    alm = np.array(state.view(np.complex128))[None]
    out, low = np.empty_like(alm), bandwidth(BETA, 3)
    factors = np.zeros(space.kmax + 1)
    factors[: low + 1] = 1.0
    band, grid = space.band(factors), space.grid
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


def compare(package: Callable[[], Any], bare: Callable[[], Any], calls: int) -> dict[str, float]:
    """Median over interleaved repeats of the ratio, and of either time in microseconds."""
    ratios, ours, theirs = [], [], []
    for _ in range(REPEATS):
        ours.append(timeit.timeit(package, number=calls) / calls * 1e6)
        theirs.append(timeit.timeit(bare, number=calls) / calls * 1e6)
        ratios.append(ours[-1] / theirs[-1])
    middle = statistics.median
    return {"ratio": middle(ratios), "package_us": middle(ours), "bare_us": middle(theirs)}


def allocated(package: Callable[[], Any]) -> int:
    """Peak of the memory, in bytes, that a call takes through Python's allocators."""
    package()
    tracemalloc.start()
    package()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def rows() -> list[dict[str, Any]]:
    """All comparisons."""
    found = []
    laws = {
        "circle": mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3]),
        "sphere": mf.Mixture(
            [mf.VonMisesFisher([0.0, 0.0, 1.0], 5.0), mf.VonMisesFisher([0.6, 0.0, -0.8], 3.0)]
        ),
    }
    spaces: list[mf.Circle | mf.Sphere] = [mf.Circle(n) for n in (256, 512, 1024, 4096)]
    spaces += [mf.Sphere(lmax) for lmax in (31, 63, 127)]
    for space in spaces:
        mu = mf.Density(space, laws[space.name])
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

            calls = max(3, int(2e6 / len(space.weights) ** 1.2 / 4))
            row = {"space": space.name, "size": space.size, "dynamics": kind.__name__}
            goal = GOALS.get((space.name, space.size))
            found.append(
                row
                | compare(package, bare, calls)
                | {
                    "goal": goal,
                    "allocated_bytes": allocated(package),
                    "grid_bytes": 8 * len(space.weights),
                }
            )
    return found


def main() -> None:
    """Measure, print, write."""
    machine = {
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "threads": "1; 2 on S² from lmax 127",
        **{name: version(name) for name in ("numpy", "pyfftw", "ducc0")},
        "python": platform.python_version(),
    }
    found = rows()
    print("ratio  goal  space   size  dynamics  package us    bare us  allocated/grid")
    for r in found:
        goal = "" if r["goal"] is None else f"{r['goal']:.2f}"
        share = r["allocated_bytes"] / r["grid_bytes"]
        print(
            f"{r['ratio']:5.2f}  {goal:>4}  {r['space']:<6}  {r['size']:>4}  {r['dynamics']:<8}  "
            f"{r['package_us']:>10.1f} {r['bare_us']:>10.1f}  {share:.2f}"
        )
    print(", ".join(f"{name} {value}" for name, value in machine.items()))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"machine": machine, "rows": found}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
