"""Discrete measures of least and of largest energy E_{β,D}, by search and by symmetry."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize

from meanfield.measures import Particles

Array = NDArray[np.float64]

_ATOMS = 4
# mass below which an atom is left out
_NEGLIGIBLE = 1e-12


def search_largest(
    matrix: Array, beta: float, starts: int, rng: np.random.Generator
) -> tuple[Particles, float]:
    """The largest E_{β,D} among measures of four atoms, by ascent from random ones.

    Positions and weights all move; weights are squares, so that they can reach 0.

    Parameters
    ----------
    matrix : ndarray, shape (d, d)
    beta : float
    starts : int
    rng : numpy Generator

    Returns
    -------
    Particles, float
        The best measure, without atoms of no mass, and its energy.
    """
    dim = len(matrix)

    def descent(variables: Array) -> tuple[float, Array]:
        """-log ∬ e^{β<x,Dy>} dmu dmu, and its gradient."""
        rows, roots = _parts(variables, dim)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        points, total = rows / lengths, roots @ roots
        weights = roots**2 / total
        exponents = beta * points @ matrix @ points.T
        unit = exponents.max()
        kernel = np.exp(exponents - unit)
        potential = kernel @ weights
        energy = weights @ potential
        pulls = 2.0 * beta / energy * weights[:, None] * (kernel @ (weights[:, None] * points))
        pulls = pulls @ matrix
        pulls -= np.einsum("ij,ij->i", pulls, points)[:, None] * points
        shares = 4.0 * roots / total * (potential / energy - 1.0)
        return -float(np.log(energy) + unit), -np.append(pulls / lengths, shares)

    best = np.inf, np.zeros(_ATOMS * (dim + 1))
    for _ in range(starts):
        start = rng.normal(size=_ATOMS * (dim + 1))
        found = minimize(descent, start, jac=True, method="BFGS", options={"gtol": 1e-10})
        best = min(best, (float(found.fun), found.x), key=lambda pair: pair[0])
    rows, roots = _parts(best[1], dim)
    kept = roots**2 > _NEGLIGIBLE * (roots @ roots)
    rows, roots = rows[kept], roots[kept]
    points = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return Particles(points, roots**2), float(np.exp(-best[0])) / (2.0 * beta)


def _parts(variables: Array, dim: int) -> tuple[Array, Array]:
    """Rows along the atoms, of any length, and roots of their weights, to any factor."""
    return variables[: _ATOMS * dim].reshape(_ATOMS, dim), variables[_ATOMS * dim :]


def four_points(values: Array, beta: float) -> tuple[float, float]:
    """Of points (±x_1, ±x_2) in the eigenframe on the circle, the x_1² of least energy, and that.

    E = cosh(βλ_1 x_1²) cosh(βλ_2 x_2²)/(2β) is least where λ_1 tanh(βλ_1 x_1²) = λ_2 tanh(βλ_2
    x_2²), Burger et al., arXiv 2501.03096.

    Examples
    --------
    >>> four_points(np.array([1.0, 1.0]), 1.0)[0]
    0.5
    """
    first, second = (float(value) for value in values)

    def slope(share: float) -> float:
        rest = 1.0 - share
        rising = first * np.tanh(beta * first * share) - second * np.tanh(beta * second * rest)
        return float(rising)

    share = 0.0 if slope(0.0) >= 0.0 else 1.0 if slope(1.0) <= 0.0 else 0.5
    if share == 0.5:
        share = float(brentq(slope, 0.0, 1.0, xtol=1e-16, rtol=1e-15))
    products = np.cosh(beta * first * share) * np.cosh(beta * second * (1.0 - share))
    return share, float(products) / (2.0 * beta)
