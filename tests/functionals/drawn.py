"""Points, tokens, laws and series that tests of several functionals draw."""

import mpmath
import numpy as np

import meanfield as mf
from meanfield.spaces.geometry import geodesic_distance

TILTED = np.array([0.6, 0.0, 0.8])
SIGMA = mf.Uniform(3)


def unit(rng, n=None, dim=3):
    points = rng.standard_normal((1 if n is None else n, dim))
    points /= np.linalg.norm(points, axis=1)[:, None]
    return points[0] if n is None else points


def cloud(rng, n, dim=2):
    return mf.Particles(unit(rng, n, dim), rng.random(n), unit_mass=True)


def cost_of(plan, mu, nu, p):
    """The cost of a plan between two clouds, to the power 1/p."""
    apart = geodesic_distance(mu.points[plan.row], nu.points[plan.col])
    # powers of small angles underflow
    scale = apart.max()
    return scale * (plan.data @ (apart / scale) ** p) ** (1 / p)


def bumps(rng, count, kappa):
    laws = [mf.VonMisesFisher(unit(rng), kappa) for _ in range(count)]
    return mf.Mixture(laws, rng.random(count) + 0.2, unit_mass=True)


def random_series(rng, lmax, decay):
    space = mf.Sphere(lmax)
    degrees = space.degrees
    coefficients = rng.standard_normal((2, len(degrees))) * np.exp(-decay * degrees)
    coefficients[1, : lmax + 1] = 0.0
    return space, coefficients[0] + 1j * coefficients[1]


def cosine():
    """Coefficients of cos θ up to degree 3: its gradient is sin θ long, π/4 in the mean."""
    space = mf.Sphere(3)
    return space.analysis(np.ascontiguousarray(space.points[:, 2]))


def power(direction, degree):
    """The density (degree + 1) ((1 + <x, e>)/2)^degree."""
    space = mf.Sphere(degree)
    values = (degree + 1.0) * (0.5 + 0.5 * space.points @ direction) ** degree
    return mf.Density(space, values)


def mean_power(degree, p):
    """The mean of dist^p to the centre of (degree + 1) ((1 + cos)/2)^degree."""
    cosines, weights = np.polynomial.legendre.leggauss(500)
    density = 0.5 * (degree + 1.0) * (0.5 + 0.5 * cosines) ** degree
    return float(weights @ (density * np.arccos(cosines) ** p))


def exact_multiplier(k, beta, dim):
    """Λ_k(β, d) with 50 digits."""
    with mpmath.workdps(50):
        order = mpmath.mpf(dim) / 2 - 1
        bessel = mpmath.besseli(order + k, beta)
        return mpmath.gamma(order + 1) * (mpmath.mpf(2) / beta) ** order * bessel
