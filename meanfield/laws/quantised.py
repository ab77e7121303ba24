"""n points that stand for a law better than n random draws: equal shares of its mass."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.polynomial.legendre import legint
from numpy.typing import NDArray

from meanfield.arguments import generator, integer, shown
from meanfield.geometry import circle_points, perpendicular, sphere_points
from meanfield.laws.protocol import Law, checked_pdf
from meanfield.laws.rings import NODES, TO_COEFFICIENTS, inverted, ring_points
from meanfield.laws.symmetry import symmetry_axis

Array = NDArray[np.float64]

_PANELS = 4096
# turns between neighbours of a Fibonacci lattice: the golden section
_GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)


def quantised_points(law: Law, n: int, rng: np.random.Generator | None = None) -> Array:
    """n points with equal shares of a law's mass: on the circle its quantiles, on S^2 a lattice.

    Circle: the quantiles at (i + u)/n, so that means of smooth functions converge faster than any
    power of n. S^2: a Fibonacci lattice carried over by the law's distribution of polar angles
    (about its axis, if it has one) and, given those, of longitudes.

    Parameters
    ----------
    law : Law
        With a density, on the circle or on S^2.
    n : int
    rng : numpy Generator, optional
        For the shift u of the lattice, uniform in [0, 1); 1/2 without one.

    Returns
    -------
    ndarray, shape (n, d)

    Raises
    ------
    ValueError
        If the law lives elsewhere, has no density or one too narrow to be resolved, n < 1, or rng
        is no Generator.

    Examples
    --------
    >>> from meanfield.laws import Uniform
    >>> quantised_points(Uniform(2), 2).round(12) + 0.0
    array([[ 0.,  1.],
           [ 0., -1.]])
    """
    n = integer("n", n, low=1)
    if not isinstance(law, Law) or law.dim not in (2, 3):
        raise ValueError(f"law must be one on the circle or S^2 to be quantised, got {shown(law)}")
    shifts = np.array([0.5, 0.5]) if rng is None else generator("rng", rng).random(2)
    levels = (np.arange(n) + shifts[0]) / n
    if law.dim == 2:
        angles = _quantiles(lambda a: checked_pdf(law, circle_points(a)), 2.0 * np.pi, levels)
        return circle_points(angles)
    turns = np.mod(np.arange(n) * _GOLDEN + shifts[1], 1.0)
    axis = symmetry_axis(law)
    if axis is not None:
        return _about_axis(law, axis, levels, turns)
    return ring_points(law, levels, turns)


def _about_axis(law: Law, axis: Array, levels: Array, turns: Array) -> Array:
    across = perpendicular(axis)

    def mass(polar: Array) -> Array:
        points = np.outer(np.cos(polar), axis) + np.outer(np.sin(polar), across)
        return checked_pdf(law, points) * np.sin(polar)

    polar = _quantiles(mass, np.pi, levels)
    frame = np.array([across, np.cross(axis, across), axis])
    return np.asarray(sphere_points(polar, 2.0 * np.pi * turns) @ frame)


def _quantiles(density: Callable[[Array], Array], end: float, levels: Array) -> Array:
    """x in [0, end] with ∫_0^x density / ∫_0^end density = level, to rounding."""
    half = 0.5 * end / _PANELS
    middles = half * (2.0 * np.arange(_PANELS) + 1.0)
    values = density((middles[:, None] + half * NODES).ravel()).reshape(_PANELS, -1)
    # Legendre coefficients of the mass from the left end of each panel, by columns
    slopes: Array = TO_COEFFICIENTS @ values.T
    shares: Array = np.asarray(legint(slopes, lbnd=-1.0), dtype=np.float64)
    before = np.append(0.0, np.cumsum(shares.sum(axis=0)))
    wanted = levels * before[-1]
    panel = np.clip(np.searchsorted(before, wanted, side="right") - 1, 0, _PANELS - 1)
    place = inverted(shares[:, panel], slopes[:, panel], wanted - before[panel])
    return np.asarray(middles[panel] + half * place)
