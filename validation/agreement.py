"""One problem on two representations, and turned by a rotation."""

from __future__ import annotations

from typing import Any

import numpy as np

import meanfield as mf
from validation.claims import Claim, main

TIGHT: dict[str, Any] = {
    "rtol": 1e-12,
    "atol": 1e-14,
    "on_unresolved": "stop",
}


def random_points(n: int, dim: int) -> np.ndarray:
    """Uniform points from a fixed seed."""
    return mf.Uniform(dim).sample(n, np.random.default_rng(5))


def gap(a: mf.Solution, b: mf.Solution, at_a: np.ndarray, at_b: np.ndarray) -> float:
    """Largest difference of energy, and of the density relative to its peak."""
    f, g = a.final.pdf(at_a), b.final.pdf(at_b)
    energy = np.max(np.abs(a.dataset["energy"].values - b.dataset["energy"].values))
    return float(max(energy, np.max(np.abs(f - g)) / f.max()))


def check(quick: bool) -> list[Claim]:
    """Sphere and Zonal(3), Circle and Zonal(2), rotated laws, Gram matrix of tokens."""
    claims = []
    axis = np.array([0.48, 0.6, 0.64])
    cases = (
        [(mf.SA(4.0), 1.0)]
        if quick
        else [(mf.SA(4.0), 1.5), (mf.USA(4.0), 0.05), (mf.SA(9.0), 1.0)]
    )
    for dynamics, t_end in cases:
        law: mf.ZonalSeries | mf.FourierSeries = mf.ZonalSeries(3, [0.8, 0.3], axis=axis)
        sphere, zonal = (
            mf.evolve(mf.Density(s, law, tail_tol=1e-11), dynamics, t_end, 2, **TIGHT)
            for s in (mf.Sphere(63), mf.Zonal(3, 63, axis=axis))
        )
        points = random_points(300, 3)
        name = f"{dynamics.name}, β = {dynamics.beta:g}, t = {t_end:g}"
        claims.append(
            Claim(
                f"Sphere against Zonal(3), {name}",
                "one law",
                gap(sphere, zonal, points, points),
                1e-11,
                "rtol 1e-12",
            )
        )
        law = mf.FourierSeries(cos=[0.5, 0.2])
        circle, zonal = (
            mf.evolve(mf.Density(s, law, tail_tol=1e-11), dynamics, t_end, 2, **TIGHT)
            for s in (mf.Circle(128), mf.Zonal(2, 63, axis=[1.0, 0.0]))
        )
        points = random_points(300, 2)
        claims.append(
            Claim(
                f"Circle against Zonal(2), {name}",
                "one law",
                gap(circle, zonal, points, points),
                1e-11,
                "rtol 1e-12",
            )
        )
    return claims + _rotations()


def _rotations() -> list[Claim]:
    claims = []
    for space, means in ((mf.Circle(128), np.eye(2)), (mf.Sphere(63), np.eye(3))):
        dim = space.dim
        turn, _ = np.linalg.qr(np.random.default_rng(3).normal(size=(dim, dim)))
        runs = []
        for t in (np.eye(dim), turn):
            laws = [mf.VonMisesFisher(t @ m, 3.0 + i) for i, m in enumerate(means)]
            weights = np.arange(1.0, dim + 1)
            start = mf.Density(space, mf.Mixture(laws, weights, unit_mass=True), tail_tol=1e-11)
            runs.append(mf.evolve(start, mf.SA(4.0), 0.5, 2, **TIGHT))
        points = random_points(300, dim)
        error = gap(runs[0], runs[1], points, points @ turn.T)
        claims.append(Claim(f"{space}, law turned", "equivariance", error, 1e-11, "rtol 1e-12"))
    return claims


if __name__ == "__main__":
    main(check)
