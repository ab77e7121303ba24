"""What W_p of two clouds on the circle costs, beside POT's solvers for the circle.

`OPENBLAS_NUM_THREADS=1 python -m validation.benchmarks.transport [n]`: n tokens against n (10⁵ if
omitted), drawn from two laws and with weights, p = 1 and 2; medians in one process over interleaved
repeats. Angles are given to POT as it takes them, points to `wasserstein`, which finds the angles
itself. POT's search for p = 2 ends at its default tolerance, 1e-6. Writes results/transport.json
at the full n.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import ot

import meanfield as mf

RESULTS = Path(__file__).parent / "results" / "transport.json"
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


def measured(n: int, repeats: int) -> dict[str, dict[str, dict[str, float]]]:
    """Median seconds and the distance, by p and way; the ways taken in turn."""
    table: dict[str, dict[str, dict[str, float]]] = {}
    for p in 1, 2:
        calls = ways(n, p)
        seconds: dict[str, list[float]] = {name: [] for name in calls}
        found: dict[str, float] = {}
        for repeat in range(repeats + 1):
            for name, call in calls.items():
                start = time.perf_counter()
                found[name] = call()
                if repeat > 0:
                    # the first one only warms up
                    seconds[name].append(time.perf_counter() - start)
        table[f"p = {p}"] = {
            name: {"seconds": statistics.median(times), "distance": found[name]}
            for name, times in seconds.items()
        }
    return table


def main() -> None:
    """Measure, print, write."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else N
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = measured(n, REPEATS)
    print(f"n = {n}\n\n| p | way | seconds | times meanfield | W_p |\n|---|---|---|---|---|")
    for p, row in table.items():
        own = row["meanfield"]["seconds"]
        for name, value in row.items():
            ratio = value["seconds"] / own
            print(f"| {p} | {name} | {value['seconds']:.4f} | {ratio:.1f} | {value['distance']} |")
    if n == N:
        RESULTS.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
