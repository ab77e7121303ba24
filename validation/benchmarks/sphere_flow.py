"""Where a run of a flow map on S² spends its time: right-hand sides, new meshes, clusters at saves.

Three bumps without symmetry, under SA at β = 6, until three clusters have all but the tolerance of
the mass. Seconds are those of the processor, of all threads together, as `cProfile` counts them: so
other work on the machine hardly counts. A share is one of the whole run. Label maps are part of the
new meshes, and three right-hand sides of each step are part of its moments. The second table has
the largest error of the energy at the saves, beside a run to a hundredth of the least tolerance.
"""

from __future__ import annotations

import cProfile
import pstats
import time
from typing import Any

import numpy as np

import meanfield as mf
from validation.benchmarks.form import Tables, main
from validation.sphere_flow_maps import THREE

BETA = 6.0
WHOLE = "evolution/loop.py", "evolve"
PARTS = {
    "right-hand sides": ("equations/sphere.py", "__call__"),
    "moments of steps": ("evolution/flow_system.py", "moments_of_step"),
    "new meshes": ("equations/meshes.py", "renew"),
    "label maps of them": ("equations/meshes.py", "_lay_labels"),
    "clusters": ("measures/clusters.py", "clusters"),
}


def run(tol: float, t_end: float, saves: int) -> mf.Solution:
    """The run to a tolerance."""
    return mf.evolve(mf.FlowMap(THREE, tol=tol), mf.SA(BETA), t_end, saves)


def by_part(tol: float, t_end: float, saves: int) -> list[dict[str, Any]]:
    """Calls and seconds of each part of a run."""
    profile = cProfile.Profile(time.process_time)
    profile.runcall(run, tol, t_end, saves)
    stats: dict[tuple[str, int, str], Any] = vars(pstats.Stats(profile))["stats"]

    def counted(file: str, function: str) -> tuple[int, float]:
        rows = [row for (path, _, name), row in stats.items() if name == function and file in path]
        return sum(row[1] for row in rows), sum(row[3] for row in rows)

    _, whole = counted(*WHOLE)
    rows = [{"part": part, **_row(*counted(*place), whole)} for part, place in PARTS.items()]
    return [*rows, {"part": "the whole run", **_row(1, whole, whole)}]


def _row(calls: int, seconds: float, whole: float) -> dict[str, Any]:
    # a short run makes no new mesh
    return {"calls": calls, "seconds": seconds or None, "share": seconds / whole}


def errors(tols: list[float], t_end: float, saves: int) -> list[dict[str, Any]]:
    """Errors of runs to some tolerances, beside one to a hundredth of the last."""
    exact, rows = run(1e-2 * tols[-1], t_end, saves).dataset.energy, []
    for tol in tols:
        start = time.process_time()
        data = run(tol, t_end, saves).dataset
        rows.append(
            {
                "tol": tol,
                "error": float(np.abs(data.energy / exact - 1.0).max()),
                "balance_error": float(np.abs(data.balance_error).max()),
                "label_error": float(data.label_error.max()),
                "nodes": int(data["size"].max()),
                "seconds": time.process_time() - start,
            }
        )
    return rows


def measure(quick: bool) -> Tables:
    """A run to 1e-6 by its parts, and errors; the short form ends before anything has gathered."""
    tols, t_end, saves = ([1e-2, 1e-3], 1.0, 2) if quick else ([1e-4, 1e-6], 8.0, 20)
    return {
        "a run by its parts": by_part(tols[-1], t_end, saves),
        "errors": errors(tols, t_end, saves),
    }


if __name__ == "__main__":
    main(measure, packages=("ducc0",))
