"""SA's velocity far from a concentrated density, against mpmath with 60 digits."""

from __future__ import annotations

import mpmath
import numpy as np

import meanfield as mf
from validation.claims import Claim, main

KAPPA, EPSILON = 50, mpmath.mpf("1e-8")


def exact(dim: int, beta: float, angle: float) -> float:
    """Component along the polar angle for (1-ε) vMF(50) + ε uniform; G is in closed form."""
    with mpmath.workdps(60):
        order, b, theta = mpmath.mpf(dim) / 2 - 1, mpmath.mpf(beta), mpmath.mpf(angle)

        def bessel(shift: int, x: mpmath.mpf) -> mpmath.mpf:
            return mpmath.gamma(order + 1) * (2 / x) ** order * mpmath.besseli(order + shift, x)

        along, across = b * mpmath.cos(theta) + KAPPA, b * mpmath.sin(theta)
        radius = mpmath.hypot(along, across)
        bump = (1 - EPSILON) / bessel(0, mpmath.mpf(KAPPA))
        g = bump * bessel(0, radius) + EPSILON * bessel(0, b)
        return float(-bump * bessel(1, radius) * KAPPA * across / radius / g / b)


def check(quick: bool) -> list[Claim]:
    """β = 16, 25, 100 on circle, S^2 and zonal spheres, from the peak to the antipode."""
    angles = np.linspace(0.01, np.pi, 8 if quick else 60)
    claims = []
    for space in (mf.Circle(256), mf.Sphere(95), mf.Zonal(10, 95)):
        dim, worst, floor = space.dim, 0.0, 0.0
        bump = mf.VonMisesFisher(np.eye(dim)[-1], float(KAPPA))
        mu = mf.Density(space, mf.Mixture([bump, mf.Uniform(dim)], [1 - 1e-8, 1e-8]))
        points, along = np.zeros((len(angles), dim)), np.zeros((len(angles), dim))
        points[:, -1], points[:, 0] = np.cos(angles), np.sin(angles)
        along[:, -1], along[:, 0] = -np.sin(angles), np.cos(angles)
        for beta in (16.0, 25.0, 100.0):
            found = np.einsum("ij,ij->i", mf.SA(beta).velocity(mu, at=points), along)
            reference = np.array([exact(dim, beta, a) for a in angles])
            errors = np.abs(found - reference)
            large = np.abs(reference) > 1e-5
            worst = max(worst, float(np.max(errors[large] / np.abs(reference[large]))))
            floor = max(floor, float(np.max(errors)))
        name = f"{space}, β = 16, 25, 100"
        claims += [
            Claim(
                f"{name}: relative, where the speed exceeds 1e-5",
                "closed form",
                worst,
                1e-10,
                "positive terms",
            ),
            Claim(
                f"{name}: absolute, everywhere",
                "closed form",
                floor,
                1e-14,
                "rounding of speeds up to 1",
            ),
        ]
    return claims


if __name__ == "__main__":
    main(check)
