"""What W_p of two clouds on the circle costs, beside POT's solvers for the circle.

`OPENBLAS_NUM_THREADS=1 python -m validation.benchmarks.transport`: 10⁵ tokens against 10⁵, drawn
from two laws and with weights, p = 1 and 2; medians in one process over interleaved repeats.
Angles are given to POT as it takes them, points to `wasserstein`, which finds the angles itself.
POT's search for p = 2 ends at its default tolerance, 1e-6.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import ot

import meanfield as mf
from validation.benchmarks.form import Tables, main
from validation.benchmarks.timing import interleaved, median, ratio

N, REPEATS = 100_000, 15
LAWS = mf.FourierSeries(cos=[0.8]), mf.VonMisesFisher([0.0, 1.0], 2.0)


def clouds(n: int) -> list[mf.Particles]:
    """Two clouds with weights."""
    rng = np.random.default_rng(0)
    return [mf.Particles(law.sample(n, rng), rng.random(n)) for law in LAWS]


def turns(cloud: mf.Particles) -> np.ndarray:
    """Angles in [0, 1)."""
    return np.arctan2(cloud.points[:, 1], cloud.points[:, 0]) / (2.0 * np.pi) % 1.0


def ways(n: int, p: int) -> dict[str, Callable[[], float]]:
    """Each way to W_p in radians."""
    mu, nu = clouds(n)
    pair = turns(mu), turns(nu), mu.weights, nu.weights

    def radians(found: Any) -> float:
        return 2.0 * np.pi * float(np.squeeze(found)) ** (1.0 / p)

    calls: dict[str, Callable[[], float]] = {
        "meanfield": lambda: float(mf.wasserstein(mu, nu, p)),
        "POT, wasserstein_circle": lambda: radians(ot.wasserstein_circle(*pair, p=p)),
    }
    if p > 1:
        calls["POT, binary_search_circle"] = lambda: radians(ot.binary_search_circle(*pair, p=p))
    return calls


def measure(quick: bool) -> Tables:
    """Each way's time over ours, and the distance that it finds."""
    found = []
    for p in 1, 2:
        calls = ways(1000 if quick else N, p)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            times = interleaved(calls, 3 if quick else REPEATS)
            distances = {name: call() for name, call in calls.items()}
        found += [
            {
                "p": p,
                "way": name,
                "ratio": ratio(times, name, "meanfield"),
                "seconds": median(times, name),
                "W_p": distances[name],
                "goal": 10.0 if p == 2 and name != "meanfield" else None,
            }
            for name in calls
        ]
    return {"": found}


if __name__ == "__main__":
    main(measure, packages=("POT",))
