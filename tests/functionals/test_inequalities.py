"""Inequalities between the distances: each is computed by code of its own."""

import numpy as np
import pytest

import meanfield as mf
from tests.functionals.drawn import cloud, unit


def circle_law(rng):
    parts = [mf.VonMisesFisher(unit(rng, dim=2), kappa) for kappa in (2.0, 9.0)]
    return mf.Mixture([*parts, mf.Uniform(2)], rng.random(3) + 0.1, unit_mass=True)


def zonal_law(dim, rng):
    axis = np.eye(dim)[-1]
    parts = [
        mf.VonMisesFisher(s * axis, k)
        for s, k in zip((1.0, -1.0), rng.uniform(0.5, 8.0, 2), strict=True)
    ]
    return mf.Mixture([*parts, mf.Uniform(dim)], rng.random(3) + 0.1, unit_mass=True)


def sphere_law(rng):
    parts = [mf.VonMisesFisher(unit(rng), kappa) for kappa in (2.0, 6.0)]
    return mf.Mixture([*parts, mf.Uniform(3)], rng.random(3) + 0.1, unit_mass=True)


SPACES = {
    "circle": (mf.Circle(128), circle_law),
    "zonal d=3": (mf.Zonal(3, 63), lambda rng: zonal_law(3, rng)),
    "zonal d=10": (mf.Zonal(10, 63), lambda rng: zonal_law(10, rng)),
    "sphere": (mf.Sphere(31), sphere_law),
}


def lower(distance):
    return getattr(distance, "lower", distance)


def upper(distance):
    return getattr(distance, "upper", distance)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SPACES)
def test_densities(kind):
    space, law = SPACES[kind]
    rng = np.random.default_rng(0)
    for _ in range(1 if kind == "sphere" else 4):
        mu, nu = (mf.Density(space, law(rng)) for _ in range(2))
        w1, w2 = mf.wasserstein(mu, nu), mf.wasserstein(mu, nu, 2)
        assert lower(w1) <= upper(w2)
        negative = mf.sobolev(mu, nu, -1)
        # the flow -∇Δ^{-1}ρ, and Cauchy and Schwarz
        assert lower(w1) <= negative * (1.0 + 1e-12)
        # Loeper 2006 and Peyre 2018, with densities between their extremes
        extremes = np.concatenate([mu.values, nu.values])
        assert negative <= np.sqrt(extremes.max()) * upper(w2) * (1.0 + 1e-12)
        least = max(mu.values.min(), nu.values.min())
        assert lower(w2) <= 2.0 * negative / np.sqrt(least) * (1.0 + 1e-12)
        # |K_x - K_y|² = 2(e^β - e^{β cos r}) <= β e^β r²
        for beta in 0.5, 4.0, 30.0:
            assert mf.mmd(mu, nu, beta) <= np.sqrt(beta * np.exp(beta)) * upper(w1) * (1.0 + 1e-12)
        mean = np.linalg.norm(mu.mean() - nu.mean())
        assert mean <= upper(w1) * (1.0 + 1e-12)


@pytest.mark.parametrize("dim", [2, 3, 5])
def test_tokens(dim):
    rng = np.random.default_rng(1)
    for n in 1, 7, 40:
        clouds = [cloud(rng, n, dim) for _ in range(2)]
        w1, w2, w3 = (float(mf.wasserstein(*clouds, p)) for p in (1, 2, 3))
        assert w1 <= w2 * (1 + 1e-12) <= w3 * (1 + 2e-12)
        assert w2 <= np.sqrt(np.pi * w1)
        for beta in 0.5, 4.0, 30.0:
            assert mf.mmd(*clouds, beta) <= np.sqrt(beta * np.exp(beta)) * w1 * (1.0 + 1e-12)


def test_the_inequality_of_the_kernel_is_sharp_for_near_tokens():
    """Two tokens at a small angle: mmd = sqrt(β e^β) W_1 to second order."""
    near = [mf.Particles([[np.cos(a), np.sin(a)]]) for a in (0.0, 1e-4)]
    for beta in 0.5, 4.0, 30.0:
        ratio = mf.mmd(*near, beta) / (np.sqrt(beta * np.exp(beta)) * float(mf.wasserstein(*near)))
        assert 1.0 - 1e-6 < ratio <= 1.0 + 1e-8
