"""Funk-Hecke multipliers Λ_k(β, d) against mpmath with 40 digits."""

from __future__ import annotations

import mpmath
import numpy as np

from validation._inside import eigenvalues, gauss_gegenbauer, log_eigenvalues
from validation.claims import Claim, main

BETAS = [1e-8, 1e-3, 0.3, 1, 4, 9, 25, 100, 700, 1000, 1e4]
DIMS = [2, 3, 4, 5, 10, 50, 257, 1024]
DEGREES = [0, 1, 2, 7, 33, 150, 700, 2000]


def exact(beta: float, dim: int, k: int) -> mpmath.mpf:
    """Γ(d/2) (2/β)^{d/2-1} I_{k+d/2-1}(β)."""
    half, b = mpmath.mpf(dim) / 2, mpmath.mpf(beta)
    return mpmath.gamma(half) * (2 / b) ** (half - 1) * mpmath.besseli(k + half - 1, b)


def check(quick: bool) -> list[Claim]:
    """Worst relative error of Λ_k, and of log Λ_k, over the grid of β, d and k."""
    betas, dims = (BETAS[::3], DIMS[::3]) if quick else (BETAS, DIMS)
    worst, worst_log = 0.0, 0.0
    with mpmath.workdps(40):
        for beta in betas:
            for dim in dims:
                values = eigenvalues(beta, dim, DEGREES[-1])
                logs = log_eigenvalues(beta, dim, DEGREES[-1])
                for k in DEGREES:
                    reference = exact(beta, dim, k)
                    log = mpmath.log(reference)
                    error = abs(mpmath.mpf(logs[k]) - log) / max(1, abs(log))
                    worst_log = max(worst_log, float(error))
                    if 1e-300 < reference < 1e300:
                        worst = max(worst, float(abs(mpmath.mpf(values[k]) / reference - 1)))
    nodes = 0.0
    for dim in (2, 3, 10, 300, 1024):
        t, w = gauss_gegenbauer(dim, 128)
        moments = np.cumprod([(2 * j - 1) / (dim + 2 * j - 2) for j in range(1, 40)])
        found = np.array([w @ t ** (2 * j) for j in range(1, 40)])
        nodes = max(nodes, float(np.max(np.abs(found / moments - 1))))
    source = "design of Λ_k; Prop. 3.4"
    return [
        Claim("Λ_k, relative", source, worst, 1e-13, "sums of positive terms"),
        Claim("log Λ_k, relative or absolute", source, worst_log, 1e-13, "the same"),
        Claim("Gauss nodes, moments of t², 128 nodes", "exact", nodes, 1e-13, "t^78 has 78 ε"),
    ]


if __name__ == "__main__":
    main(check)
