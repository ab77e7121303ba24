"""A perturbation of 1e-6 of degree k of the uniform density grows at γ_k."""

from __future__ import annotations

import numpy as np

import meanfield as mf
from validation.claims import Claim, main

SIZE = 1e-6


def worst_error(dim: int, degrees: range) -> float:
    """Largest relative error of the fitted rate over SA and USA, both signs, the degrees."""
    worst = 0.0
    spaces: list[mf.Circle | mf.Sphere | mf.Zonal] = [mf.Zonal(dim, 23)]
    spaces += {2: [mf.Circle(48)], 3: [mf.Sphere(23)]}.get(dim, [])
    for kind in (mf.SA, mf.USA):
        for sign in (1, -1):
            dynamics = kind(3.0 * np.sqrt(dim), sign=sign)
            rates = mf.theory.growth_rates(dynamics, dim, degrees[-1])
            for k in degrees:
                law = mf.ZonalSeries(dim, [0.0] * (k - 1) + [SIZE])
                t_end = 0.3 / abs(rates[k])
                for space in spaces:
                    mu = mf.Density(space, law)
                    sol = mf.evolve(mu, dynamics, t_end, 1, rtol=1e-10, atol=1e-15)
                    grown = np.log(sol.final.power[k] / mu.power[k]) / (2 * t_end)
                    worst = max(worst, float(abs(grown / rates[k] - 1)))
    return worst


def check(quick: bool) -> list[Claim]:
    """SA and USA, both signs, k = 1 … 6, d = 2, 3, 5, 20."""
    degrees = range(1, 3) if quick else range(1, 7)
    return [
        Claim(
            f"d = {dim}: fitted rate against γ_k, k = 1 … {degrees[-1]}",
            "k(k+d-2) Λ_k/β [/Λ_0]",
            worst_error(dim, degrees),
            1e-5,
            "the next term is of order 1e-6",
        )
        for dim in (2, 3, 5, 20)
    ]


if __name__ == "__main__":
    main(check)
