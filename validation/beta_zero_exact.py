"""β = 0: the Möbius orbit of the uniform measure, an exact nonlinear solution in any dimension."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import solve_ivp
from scipy.special import hyp2f1

import meanfield as mf
from validation.claims import Claim, main

Array = NDArray[np.float64]


class Orbit:
    """f = ((1-r²)/|x-r e|²)^{d-1}."""

    def __init__(self, dim: int, r: float) -> None:
        self.dim, self.r = dim, r

    def pdf(self, points: ArrayLike) -> Array:
        """f at unit rows."""
        distance = 1 + self.r**2 - 2 * self.r * np.asarray(points)[:, -1]
        return np.asarray(((1 - self.r**2) / distance) ** (self.dim - 1))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Not needed here."""
        raise ValueError(f"no sampling of n = {n} points with {rng}")


def moment(dim: int, r: Any) -> Any:
    """m = (2(d-1)/d) r ₂F₁(1, 1-d/2; 1+d/2; r²)."""
    return 2 * (dim - 1) / dim * r * hyp2f1(1.0, 1.0 - dim / 2, 1.0 + dim / 2, r * r)


def radius(dim: int, r0: float, t_end: float) -> float:
    """r(t_end) of r' = (1-r²) m/2."""
    run = solve_ivp(
        lambda _, r: 0.5 * (1 - r * r) * moment(dim, r),
        (0.0, t_end),
        [r0],
        method="DOP853",
        rtol=3e-14,
        atol=1e-15,
    )
    return float(run.y[0, -1])


def check(quick: bool) -> list[Claim]:
    """Density, moment and r at t = 4 from r(0) = 0.1 and 0.3, d = 2, 3, 4, 8."""
    cases = [(mf.Circle(64), 0.1), (mf.Circle(64), 0.3), (mf.Zonal(8, 31), 0.1)]
    if not quick:
        cases += [(mf.Zonal(2, 31), 0.3), (mf.Sphere(31), 0.1), (mf.Zonal(3, 31), 0.1)]
        cases += [(mf.Zonal(3, 31), 0.3), (mf.Zonal(4, 31), 0.1), (mf.Zonal(4, 31), 0.3)]
        cases += [(mf.Zonal(8, 31), 0.3)]
    claims = []
    for space, r0 in cases:
        dim = space.dim
        mu = mf.Density(space, Orbit(dim, r0))
        sol = mf.evolve(
            mu, mf.SA(0.0), 4.0, 1, rtol=1e-12, atol=1e-14, tail_tol=1e-11, largest=2047
        )
        r = radius(dim, r0, 4.0)
        f = Orbit(dim, r).pdf(sol.final.space.points)
        shape = float(np.max(np.abs(sol.final.values - f)) / f.max())
        pole = sol.final.at(np.eye(dim)[-1:])[0] ** (1 / (dim - 1))
        numbers = max(abs(sol.final.mean()[-1] - moment(dim, r)), abs((pole - 1) / (pole + 1) - r))
        name = f"d = {dim} on {space}, r(0) = {r0}, t = 4"
        why = f"relative to the peak, {f.max():.1e}"
        claims.append(Claim(f"{name}: density", "facts of β = 0", shape, 1e-9, why))
        claims.append(Claim(f"{name}: m and r", "facts of β = 0", numbers, 1e-9, "rtol 1e-12"))
    return claims


if __name__ == "__main__":
    main(check)
