"""Right-hand sides of n tokens: in O(n) beside blocked direct sums, and runs of 10⁷ tokens.

`python -m validation.benchmarks.tokens`: medians over interleaved repeats, the ratio first; the
runs of 10⁷ tokens with the peak memory of the process. In the many dimensions of hidden states,
sums over all pairs beside PyTorch's attention in the same precision on as many threads, which
leaves the projection to the tangent spaces out; the ratio is the time of the attention over ours,
and errors are largest lengths beside float64, of ours the lengths beside PyTorch's float64.
Under a causal mask beside none, and beside sums over the pairs of fewer tokens, on the circle.
Clusters of tokens about 20 points in d = 100 beside all their inner products, in blocks.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import meanfield as mf
from meanfield.typing import Array
from validation._inside import adapt, float32_error, project, tendency
from validation.benchmarks.form import Tables, main
from validation.benchmarks.timing import interleaved, median, peer, ratio, seconds

NAMES = {2: "circle", 3: "S^2"}
BETAS = (1.0, 9.0, 100.0)
# tokens whose inner products with all are held at once
BLOCK = 256


def right_hand_side(
    dim: int, n: int, beta: float, sums: str, mask: mf.Causal | None = None
) -> Callable[[], None]:
    """One evaluation for uniform tokens."""
    tokens = mf.Particles.sample(mf.Uniform(dim), n, np.random.default_rng(0), sums=sums)
    rate: Any = tendency(tokens, adapt(mf.SA(beta, mask=mask)))
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


def masked(dim: int, beta: float, decay: float, n: int, pairs: int, repeats: int) -> dict[str, Any]:
    """Seconds under a causal mask over those without one; of few tokens also over all pairs."""
    mask = mf.Causal(decay)
    ways = {
        "masked": right_hand_side(dim, n, beta, "transforms", mask),
        "unmasked": right_hand_side(dim, n, beta, "transforms"),
        "masked, few": right_hand_side(dim, pairs, beta, "transforms", mask),
        "pairs, few": right_hand_side(dim, pairs, beta, "direct", mask),
    }
    times = interleaved(ways, repeats)
    return {
        "ratio": ratio(times, "masked", "unmasked"),
        "space": NAMES[dim],
        "β": beta,
        "λ": decay,
        "n": n,
        "masked, s": median(times, "masked"),
        "unmasked, s": median(times, "unmasked"),
        f"{pairs} tokens, s": median(times, "masked, few"),
        "their pairs, s": median(times, "pairs, few"),
    }


def velocity(rate: Any) -> Array:
    """That of the tokens of a right-hand side as they are."""
    out = np.empty_like(rate.initial_state)
    rate(rate.initial_state, out)
    return out.reshape(rate.measure(rate.initial_state).points.shape)


def beside_attention(dim: int, n: int, repeats: int) -> list[dict[str, Any]]:
    """One evaluation in each precision, beside attention of the same tokens; β = 8."""
    if (torch := peer("torch")) is None:
        return []
    torch.set_num_threads(int(os.environ.get("OPENBLAS_NUM_THREADS") or os.cpu_count() or 1))
    beta, points = 8.0, mf.Uniform(dim).sample(n, np.random.default_rng(0))
    exact, rows = None, []
    for sums, name in ("direct", "float64"), ("float32", "float32"):
        rate = tendency(mf.Particles(points, sums=sums), mf.SA(beta))
        given = torch.from_numpy(points).to(getattr(torch, name))[None, None]

        def attention(given: Any = given) -> Any:
            with torch.no_grad():
                attend = torch.nn.functional.scaled_dot_product_attention
                return attend(given, given, given, scale=beta)[0, 0]

        found = [velocity(rate), project(points, attention().numpy().astype(np.float64))]
        exact = found[1] if exact is None else exact
        errors = [float(np.linalg.norm(one - exact, axis=1).max()) for one in found]
        times = interleaved({"ours": partial(velocity, rate), "PyTorch": attention}, repeats)
        rows.append(
            {
                "ratio": ratio(times, "PyTorch", "ours"),
                "d": dim,
                "n": n,
                "precision": name,
                "ours, s": median(times, "ours"),
                "PyTorch, s": median(times, "PyTorch"),
                "error": errors[0],
                "PyTorch's": errors[1] if name == "float32" else None,
                "bound": float32_error(beta, dim, np.ones(n)) if name == "float32" else None,
            }
        )
    return rows


def clusters(n: int, repeats: int) -> dict[str, Any]:
    """Seconds of the clusters of n tokens and of all their inner products; the memory of both."""
    rng, dim, count = np.random.default_rng(0), 100, 20
    places = mf.Uniform(dim).sample(count, rng)[rng.integers(count, size=n)]
    # nearer to one another than the radius, 0.1
    points = places + 0.003 * rng.normal(size=(n, dim))
    tokens = mf.Particles(points / np.linalg.norm(points, axis=1, keepdims=True))

    def products() -> None:
        for start in range(0, n, BLOCK):
            tokens.points[start : start + BLOCK] @ tokens.points.T

    assert len(mf.clusters(tokens)) == count
    times = interleaved({"clusters": partial(mf.clusters, tokens), "products": products}, repeats)
    return {
        "ratio": ratio(times, "clusters", "products"),
        "d": dim,
        "n": n,
        "clusters, s": median(times, "clusters"),
        "products, s": median(times, "products"),
        "peak GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


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
        "under a causal mask": [
            masked(2, beta, decay, many, some, 1 if quick else 7)
            for beta in (4.0, 30.0)
            for decay in (0.0, 1.0)
        ],
        "many dimensions": [
            row
            for dim in ((64,) if quick else (768, 4096))
            for row in beside_attention(dim, some, 1 if quick else 3)
        ],
        "clusters": [clusters(n, 1 if quick else 3) for n in ((some,) if quick else (some, 10**5))],
        "a run": [large(dim, most) for dim in NAMES],
    }


if __name__ == "__main__":
    main(measure, packages=("ducc0", "pyfftw", "torch"))
