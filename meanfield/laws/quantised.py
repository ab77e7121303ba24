"""n points that stand for a law better than n random draws: equal shares of its mass."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.polynomial.legendre import leggauss, legint, legval, legvander
from numpy.typing import NDArray

from meanfield.arguments import generator, integer
from meanfield.geometry import circle_points, perpendicular, sphere_points
from meanfield.laws.protocol import Law, checked_pdf
from meanfield.laws.symmetry import symmetry_axis

Array = NDArray[np.float64]

_PANELS = 4096
# where the density is averaged over each latitude first
_FEW_PANELS, _LONGITUDES = 256, 512
_ORDER = 12
_NODES, _WEIGHTS = leggauss(_ORDER)
_TO_COEFFICIENTS = (
    legvander(_NODES, _ORDER - 1) * (_WEIGHTS[:, None] * (np.arange(_ORDER) + 0.5))
).T
# halvings that end below rounding, if Newton's steps fail
_STEPS = 60
_BLOCK = 1 << 12
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
        If the law lives elsewhere or has no density, n < 1, or rng is no Generator.

    Examples
    --------
    >>> from meanfield.laws import Uniform
    >>> quantised_points(Uniform(2), 2).round(12) + 0.0
    array([[ 0.,  1.],
           [ 0., -1.]])
    """
    n = integer("n", n, low=1)
    if not isinstance(law, Law) or law.dim not in (2, 3):
        raise ValueError(f"law must be one on the circle or S^2 to be quantised, got {law!r}")
    shifts = np.array([0.5, 0.5]) if rng is None else generator("rng", rng).random(2)
    levels = (np.arange(n) + shifts[0]) / n
    if law.dim == 2:
        angles = _quantiles(lambda a: checked_pdf(law, circle_points(a)), 2.0 * np.pi, levels)
        return circle_points(angles)
    turns = np.mod(np.arange(n) * _GOLDEN + shifts[1], 1.0)
    axis = symmetry_axis(law)
    if axis is not None:
        return _about_axis(law, axis, levels, turns)
    return _without_axis(law, levels, turns)


def _about_axis(law: Law, axis: Array, levels: Array, turns: Array) -> Array:
    across = perpendicular(axis)

    def mass(polar: Array) -> Array:
        points = np.outer(np.cos(polar), axis) + np.outer(np.sin(polar), across)
        return checked_pdf(law, points) * np.sin(polar)

    polar = _quantiles(mass, np.pi, levels)
    frame = np.array([across, np.cross(axis, across), axis])
    return np.asarray(sphere_points(polar, 2.0 * np.pi * turns) @ frame)


def _without_axis(law: Law, levels: Array, turns: Array) -> Array:
    longitudes = 2.0 * np.pi * np.arange(_LONGITUDES) / _LONGITUDES

    def rings(polar: Array) -> Array:
        points = sphere_points(np.repeat(polar, _LONGITUDES), np.tile(longitudes, len(polar)))
        return checked_pdf(law, points).reshape(len(polar), _LONGITUDES)

    def mass(polar: Array) -> Array:
        parts = [
            rings(polar[start : start + _BLOCK]).mean(axis=1)
            for start in range(0, len(polar), _BLOCK)
        ]
        return np.concatenate(parts) * np.sin(polar)

    polar = _quantiles(mass, np.pi, levels, _FEW_PANELS)
    found = np.empty(len(polar))
    for start in range(0, len(polar), _BLOCK):
        part = slice(start, start + _BLOCK)
        found[part] = _places(rings(polar[part]), turns[part])
    return sphere_points(polar, 2.0 * np.pi * found)


def _places(densities: Array, levels: Array) -> Array:
    """In turns, where the share of each periodic density (n, m) before it is the level."""
    closed = np.column_stack([densities, densities[:, 0]])
    steps = 0.5 * (closed[:, 1:] + closed[:, :-1])
    shares = np.cumsum(steps, axis=1)
    wanted = levels * shares[:, -1]
    cell = np.minimum((shares <= wanted[:, None]).sum(axis=1), steps.shape[1] - 1)
    row = np.arange(len(levels))
    before = shares[row, cell] - steps[row, cell]
    return np.asarray((cell + (wanted - before) / steps[row, cell]) / steps.shape[1])


def _quantiles(
    density: Callable[[Array], Array], end: float, levels: Array, panels: int = _PANELS
) -> Array:
    """x in [0, end] with ∫_0^x density / ∫_0^end density = level, to rounding."""
    half = 0.5 * end / panels
    middles = half * (2.0 * np.arange(panels) + 1.0)
    values = density((middles[:, None] + half * _NODES).ravel()).reshape(panels, -1)
    # Legendre coefficients of the mass from the left end of each panel, by columns
    slopes: Array = _TO_COEFFICIENTS @ values.T
    shares: Array = np.asarray(legint(slopes, lbnd=-1.0), dtype=np.float64)
    before = np.append(0.0, np.cumsum(shares.sum(axis=0)))
    wanted = levels * before[-1]
    panel = np.clip(np.searchsorted(before, wanted, side="right") - 1, 0, panels - 1)
    place = _inverted(shares[:, panel], slopes[:, panel], wanted - before[panel])
    return np.asarray(middles[panel] + half * place)


def _inverted(mass: Array, slope: Array, wanted: Array) -> Array:
    """x in [-1, 1] where Legendre series (m, n) of masses have the values wanted (n,).

    Newton's steps, kept in a bracket.
    """
    low, high = np.full(len(wanted), -1.0), np.full(len(wanted), 1.0)
    x = np.zeros(len(wanted))
    for _ in range(_STEPS):
        excess = legval(x, mass, tensor=False) - wanted
        low, high = np.where(excess < 0.0, x, low), np.where(excess > 0.0, x, high)
        with np.errstate(divide="ignore", invalid="ignore"):
            trial = x - excess / legval(x, slope, tensor=False)
        new = np.where((trial >= low) & (trial <= high), trial, 0.5 * (low + high))
        moved, x = float(np.abs(new - x).max()), new
        if moved < 1e-13:
            break
    return x
