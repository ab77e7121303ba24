"""Right-hand sides of n tokens: in O(n) beside blocked direct sums, up to 10⁷ tokens.

`python -m validation.benchmarks.tokens [--large]`: medians over interleaved repeats, the ratio
first. Writes results/tokens.json; --large adds n = 10⁷ with the peak memory of the process.
"""

from __future__ import annotations

import json
import platform
import resource
import statistics
import sys
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import meanfield as mf
from meanfield.tendency import tendency

RESULTS = Path(__file__).parent / "results" / "tokens.json"
NAMES = {2: "circle", 3: "S^2"}
BETAS = (1.0, 9.0, 100.0)


def right_hand_side(dim: int, n: int, beta: float, sums: str) -> Callable[[], None]:
    """One evaluation for uniform tokens."""
    tokens = mf.Particles.sample(mf.Uniform(dim), n, np.random.default_rng(0), sums=sums)
    rate = tendency(tokens, mf.SA(beta))
    state = rate.initial_state
    out = np.empty_like(state)
    return lambda: rate(state, out)


def beside_direct(dim: int, beta: float, n: int = 10_000) -> dict[str, Any]:
    """Median ratio of direct sums to O(n) at n = 10⁴, and both times in seconds."""
    fast, direct = (right_hand_side(dim, n, beta, sums) for sums in ("transforms", "direct"))
    pairs = [
        (timeit.timeit(fast, number=20) / 20, timeit.timeit(direct, number=1)) for _ in range(9)
    ]
    return {
        "space": NAMES[dim],
        "beta": beta,
        "n": n,
        "ratio": statistics.median(slow / quick for quick, slow in pairs),
        "fast_s": statistics.median(quick for quick, _ in pairs),
        "direct_s": statistics.median(slow for _, slow in pairs),
    }


def alone(dim: int, beta: float, n: int, repeats: int) -> dict[str, Any]:
    """Median time in seconds."""
    times = timeit.repeat(right_hand_side(dim, n, beta, "transforms"), number=1, repeat=repeats)
    return {"space": NAMES[dim], "beta": beta, "n": n, "fast_s": statistics.median(times)}


def ten_million(dim: int) -> dict[str, Any]:
    """A run of 10⁷ tokens to t = 0.1, and the peak memory of the process in GiB."""
    tokens = mf.Particles.sample(mf.Uniform(dim), 10**7, np.random.default_rng(0))
    start = timeit.default_timer()
    run = mf.evolve(tokens, mf.SA(4.0), 0.1, 1, rtol=1e-6)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {
        "space": NAMES[dim],
        "n": 10**7,
        "status": run.status,
        "evaluations": int(run.dataset.evaluations[-1]),
        "seconds": timeit.default_timer() - start,
        "peak_GiB": peak,
    }


def main() -> None:
    """Print and write the table."""
    rows = [beside_direct(dim, beta) for dim in NAMES for beta in BETAS]
    for row in rows:
        print(
            f"{row['space']:>7} β = {row['beta']:<4g} n = 10^4: direct over O(n) {row['ratio']:.0f}"
        )
    rows += [alone(dim, beta, 10**6, 7) for dim in NAMES for beta in BETAS]
    for row in rows[-6:]:
        print(f"{row['space']:>7} β = {row['beta']:<4g} n = 10^6: {row['fast_s']:.3f} s")
    if "--large" in sys.argv:
        rows += [ten_million(dim) for dim in NAMES]
        for row in rows[-2:]:
            print(
                f"{row['space']:>7} n = 10^7: {row['evaluations']} right-hand sides in "
                f"{row['seconds']:.0f} s, {row['peak_GiB']:.1f} GiB, {row['status']}"
            )
    machine = {"machine": platform.machine(), "python": platform.python_version()}
    RESULTS.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
