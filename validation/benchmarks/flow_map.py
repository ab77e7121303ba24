"""What a flow map costs beside Fourier runs of the same problem, measured in one process.

`python -m validation.benchmarks.flow_map`: SA and USA, β = 4, f0 = 1 + cos(θ)/2 + 0.3 sin 2θ. A
Fourier run with a fixed N = 8192 is what a script would do; `evolve` starts small and doubles,
which is cheap as long as the density can be held at all.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import meanfield as mf
from validation.benchmarks.form import Tables, main

LAW = mf.FourierSeries(cos=[0.5], sin=[0.0, 0.3])
CASES = [(mf.SA(4.0), 5.0, 3.62038354988778), (mf.USA(4.0), 0.5, 3.41738665514126)]
FOURIER: dict[str, dict[str, Any]] = {
    "N = 8192": {"n": 8192, "largest": 8192, "tail_tol": 1e-2},
    "N doubled, up to 65536": {"n": 128, "largest": 1 << 16, "tail_tol": 1e-9},
}


def timed(mu: mf.Density | mf.FlowMap, *given: Any, **named: Any) -> tuple[mf.Solution, float]:
    """A run and its seconds."""
    start = time.perf_counter()
    sol = mf.evolve(mu, *given, 1, **named)
    return sol, time.perf_counter() - start


def measure(quick: bool) -> Tables:
    """One row a run, each with its ratio to the flow map's time."""
    found = []
    for dynamics, t_end, energy in CASES[:1] if quick else CASES:
        sol, own = timed(mf.FlowMap(LAW), dynamics, t_end)
        runs = [("flow map", sol, own)]
        for name, options in list(FOURIER.items())[quick:]:
            rest = dict(options)
            start = mf.Density(mf.Circle(rest.pop("n")), LAW)
            sol, seconds = timed(start, dynamics, t_end, rtol=1e-12, atol=1e-14, **rest)
            runs.append((name, sol, seconds))
        for name, sol, seconds in runs:
            reached = float(sol.t[-1])
            error = abs(float(sol.dataset.energy[-1]) - energy) if reached == t_end else np.nan
            found.append(
                {
                    "run": f"{dynamics.name}, t = {t_end:g}: {name}",
                    "seconds": round(seconds, 2),
                    "times the flow map's": round(seconds / own, 1),
                    "reached t": round(reached, 4),
                    "error of E": float(f"{error:.1e}") if np.isfinite(error) else None,
                }
            )
    return {"": found}


if __name__ == "__main__":
    main(measure)
