"""Right-hand sides of n tokens: in O(n) beside blocked direct sums, and runs of 10⁷ tokens.

`python -m validation.benchmarks.tokens`: medians over interleaved repeats, the ratio first; the
runs of 10⁷ tokens with the peak memory of the process.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from typing import Any

import numpy as np

import meanfield as mf
from validation._inside import tendency
from validation.benchmarks.form import Tables, main
from validation.benchmarks.timing import interleaved, median, ratio, seconds

NAMES = {2: "circle", 3: "S^2"}
BETAS = (1.0, 9.0, 100.0)


def right_hand_side(dim: int, n: int, beta: float, sums: str) -> Callable[[], None]:
    """One evaluation for uniform tokens."""
    tokens = mf.Particles.sample(mf.Uniform(dim), n, np.random.default_rng(0), sums=sums)
    rate = tendency(tokens, mf.SA(beta))
    state = rate.initial_state
    out = np.empty_like(state)
    return lambda: rate(state, out)


def beside_direct(dim: int, beta: float, n: int, repeats: int) -> dict[str, Any]:
    """Direct sums over O(n), and seconds of either."""
    ways = {
        "O(n)": right_hand_side(dim, n, beta, "transforms"),
        "direct": right_hand_side(dim, n, beta, "direct"),
    }
    times = interleaved(ways, repeats, calls={"O(n)": 20})
    return {
        "ratio": ratio(times, "direct", "O(n)"),
        "space": NAMES[dim],
        "β": beta,
        "n": n,
        "O(n), s": median(times, "O(n)"),
        "direct, s": median(times, "direct"),
    }


def alone(dim: int, beta: float, n: int, repeats: int) -> dict[str, Any]:
    """Seconds of the sums in O(n)."""
    times = interleaved({"O(n)": right_hand_side(dim, n, beta, "transforms")}, repeats)
    return {"space": NAMES[dim], "β": beta, "n": n, "O(n), s": median(times, "O(n)")}


def large(dim: int, n: int) -> dict[str, Any]:
    """A run to t = 0.1, and the peak memory of the process in GiB."""
    tokens = mf.Particles.sample(mf.Uniform(dim), n, np.random.default_rng(0))
    runs: list[mf.Solution] = []
    spent = seconds(lambda: runs.append(mf.evolve(tokens, mf.SA(4.0), 0.1, 1, rtol=1e-6)))
    return {
        "space": NAMES[dim],
        "n": n,
        "status": runs[0].status,
        "right-hand sides": int(runs[0].dataset.evaluations[-1]),
        "seconds": spent,
        "peak GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def measure(quick: bool) -> Tables:
    """Beside direct sums, alone, and whole runs."""
    cases = [(dim, beta) for dim in NAMES for beta in (BETAS[:1] if quick else BETAS)]
    some, many, most = (2000, 10**4, 10**5) if quick else (10**4, 10**6, 10**7)
    return {
        "beside direct sums": [beside_direct(*case, some, 1 if quick else 9) for case in cases],
        "alone": [alone(*case, many, 1 if quick else 7) for case in cases],
        "a run": [large(dim, most) for dim in NAMES],
    }


if __name__ == "__main__":
    main(measure, packages=("ducc0", "pyfftw"))
