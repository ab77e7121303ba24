"""What a realisation of n = 32 tokens in d = 1024 costs by its inner products and by its points.

`OPENBLAS_NUM_THREADS=1 python -m validation.benchmarks.batches`: SA, β = 3, medians in one
process over interleaved repeats, of one realisation: inner products in chunks; points by the
same batched products; and points by `evolve`, one realisation at a time, as a script would move
them. Ratios are over inner products.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import meanfield as mf
from validation._inside import batch_tendency, evolve_batch
from validation._inside import tendency as single_tendency
from validation.benchmarks.form import Tables, main
from validation.benchmarks.timing import interleaved, median, ratio

N, DIM, CHUNK, REPEATS = 32, 1024, 16, 15
DYNAMICS, T_END, TOLERANCE = mf.SA(3.0), 8.0, 1e-6


def rows(ways: dict[str, tuple[Callable[[], Any], int]], repeats: int) -> list[dict[str, Any]]:
    """Each way's time over that of inner products, and its microseconds per unit."""
    times = interleaved({name: call for name, (call, _) in ways.items()}, repeats)
    units = {name: count for name, (_, count) in ways.items()}
    own = "inner products"
    return [
        {
            "ratio": ratio(times, name, own) * units[own] / units[name],
            "way": name,
            "microseconds": median(times, name) / units[name] * 1e6,
        }
        for name in ways
    ]


def right_hand_sides(points: np.ndarray, repeats: int) -> list[dict[str, Any]]:
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
    return rows(ways, repeats)


def runs(points: np.ndarray, repeats: int) -> list[dict[str, Any]]:
    """One realisation from t = 0 to the end, seen at eight times."""
    times = np.linspace(1.0, T_END, 8)
    tolerances = {"rtol": TOLERANCE, "atol": 1e-2 * TOLERANCE}

    def batch(form: str, count: int) -> Callable[[], Any]:
        some = points[:count]
        return lambda: evolve_batch(some, DYNAMICS, times, form=form, **tolerances)

    def single() -> Any:
        mu = mf.Particles(points[0], sums="direct")
        return mf.evolve(mu, DYNAMICS, T_END, times, **tolerances)

    return rows(
        {
            "inner products": (batch("gram", CHUNK), CHUNK),
            "points in chunks": (batch("points", 1), 1),
            "points one by one": (single, 1),
        },
        repeats,
    )


def measure(quick: bool) -> Tables:
    """One right-hand side, and one run."""
    points = np.random.default_rng(0).normal(size=(CHUNK, N, DIM))
    points /= np.linalg.norm(points, axis=2, keepdims=True)
    repeats = 1 if quick else REPEATS
    return {
        "a right-hand side": right_hand_sides(points, repeats),
        "a run": runs(points, repeats),
    }


if __name__ == "__main__":
    main(measure)
