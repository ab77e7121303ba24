"""What a realisation of n = 32 tokens in d = 1024 costs by its inner products and by its points.

`OPENBLAS_NUM_THREADS=1 python -m validation.benchmarks.batches`: SA, β = 3, medians in one
process over interleaved repeats, of one realisation: inner products in chunks; points by the
same batched products; and points by `evolve`, one realisation at a time, as a script would move
them. Writes results/batches.json.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import meanfield as mf
from meanfield.integrate import evolve_batch
from meanfield.tendency import batch_tendency
from meanfield.tendency import tendency as single_tendency

RESULTS = Path(__file__).parent / "results" / "batches.json"
N, DIM, CHUNK, REPEATS = 32, 1024, 16, 15
DYNAMICS, T_END, TOLERANCE = mf.SA(3.0), 8.0, 1e-6


def seconds(call: Callable[[], Any]) -> float:
    """Of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def medians(ways: dict[str, tuple[Callable[[], Any], int]]) -> dict[str, float]:
    """Microseconds per unit of each way, the ways taken in turn."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for repeat in range(REPEATS + 1):
        for name, (call, units) in ways.items():
            found[name].append(seconds(call) / units * 1e6)
            if repeat == 0:
                # the first one only warms up
                found[name].clear()
    return {name: statistics.median(values) for name, values in found.items()}


def right_hand_sides(points: np.ndarray) -> dict[str, float]:
    """One right-hand side of one realisation."""
    calls = 20
    rates = {
        "inner products": (batch_tendency(points, DYNAMICS, "gram"), CHUNK),
        "points in chunks": (batch_tendency(points[:1], DYNAMICS, "points"), 1),
        "points one by one": (
            single_tendency(mf.Particles(points[0], sums="direct"), DYNAMICS),
            1,
        ),
    }
    ways: dict[str, tuple[Callable[[], Any], int]] = {}
    for name, (rate, units) in rates.items():
        state = rate.initial_state
        out = np.empty_like(state)

        def repeated(rate: Any = rate, state: Any = state, out: Any = out) -> None:
            for _ in range(calls):
                rate(state, out)

        ways[name] = (repeated, calls * units)
    return medians(ways)


def runs(points: np.ndarray) -> dict[str, float]:
    """One realisation from t = 0 to the end, seen at eight times."""
    times = np.linspace(1.0, T_END, 8)
    tolerances = {"rtol": TOLERANCE, "atol": 1e-2 * TOLERANCE}

    def batch(form: str, count: int) -> Callable[[], Any]:
        some = points[:count]
        return lambda: evolve_batch(some, DYNAMICS, times, form=form, **tolerances)

    def single() -> Any:
        mu = mf.Particles(points[0], sums="direct")
        return mf.evolve(mu, DYNAMICS, T_END, times, **tolerances)

    return medians(
        {
            "inner products": (batch("gram", CHUNK), CHUNK),
            "points in chunks": (batch("points", 1), 1),
            "points one by one": (single, 1),
        }
    )


def main() -> None:
    """Measure, print, write."""
    points = np.random.default_rng(0).normal(size=(CHUNK, N, DIM))
    points /= np.linalg.norm(points, axis=2, keepdims=True)
    table = {"right-hand side": right_hand_sides(points), "run": runs(points)}
    print("| of one realisation | way | microseconds | times inner products |\n|---|---|---|---|")
    for what, row in table.items():
        for name, value in row.items():
            ratio = value / row["inner products"]
            print(f"| {what} | {name} | {value:.1f} | {ratio:.1f} |")
    RESULTS.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
