"""Symmetry about an axis: of directions, of functions and of matrices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from meanfield.typing import Array

# unit vectors nearer than this are one; their cosine could tell no angle below 1e-8
_PARALLEL = 1e-14
# of a matrix, by which it may miss its symmetry
_ALIKE = 1e-12
# of its maximum, by which a function may differ between two meridians
_EVEN = 1e-9


def are_parallel(one: Array | None, other: Array | None) -> bool:
    """Whether there are two unit vectors (d,), and they are one but for rounding and direction.

    Examples
    --------
    >>> are_parallel(np.array([0.0, 1.0]), np.array([0.0, -1.0]))
    True
    """
    if one is None or other is None:
        return False
    return bool(min(np.linalg.norm(one - other), np.linalg.norm(one + other)) < _PARALLEL)


def difference_of_meridians(
    function: Callable[[Array], Array], axis: Array, cosines: Array, sines: Array, values: Array
) -> float:
    """By how much a function differs between two meridians; 0 where that is rounding.

    Parameters
    ----------
    function : callable
        Values (n,) of points (n, d).
    axis : ndarray, shape (d,)
    cosines, sines : ndarray, shape (n,)
        Of polar angles.
    values : ndarray, shape (n,)
        The function there on a meridian; the others are in general position.
    """
    direction = np.cos(1.0 + np.arange(len(axis)) ** 1.5)
    direction -= (direction @ axis) * axis
    direction /= np.linalg.norm(direction)
    along, across = np.outer(cosines, axis), np.outer(sines, direction)
    gap = max(float(np.abs(function(along + s * across) - values).max()) for s in (1.0, -1.0))
    return 0.0 if gap <= _EVEN * float(values.max()) else gap


def axial_part(matrix: Array, axis: Array) -> tuple[float, complex]:
    """The multiples of the identity that a matrix (d, d) is along an axis and across it.

    Across it is a complex one in d = 3: with a turn about the axis.

    Examples
    --------
    >>> axial_part(np.diag([2.0, 2.0, 1.0]), np.array([0.0, 0.0, 1.0]))
    (1.0, (2+0j))
    """
    along = float(axis @ matrix @ axis)
    across = (float(np.trace(matrix)) - along) / (len(axis) - 1)
    turn = 0.5 * float((_turn(axis) * matrix).sum()) if len(axis) == 3 else 0.0
    return along, complex(across, turn)


def axial_matrix(along: float, across: complex, axis: Array) -> Array:
    """The matrix (d, d) of which `axial_part` is given; it commutes with turns about the axis."""
    found = across.real * np.eye(len(axis)) + (along - across.real) * np.outer(axis, axis)
    if across.imag:
        found += across.imag * _turn(axis)
    return np.asarray(found)


def asymmetry(matrix: Array, axis: Array) -> float:
    """By how much a matrix (d, d) differs from `axial_part`; 0 if it commutes with turns.

    Examples
    --------
    >>> asymmetry(np.diag([2.0, 3.0, 1.0]), np.array([0.0, 0.0, 1.0]))
    0.5
    """
    gap = float(np.abs(axial_matrix(*axial_part(matrix, axis), axis) - matrix).max())
    return 0.0 if gap <= _ALIKE * np.abs(matrix).max() else gap


def lie_along(rows: Array, axis: Array) -> bool:
    """Whether all rows (m, d) of a matrix are multiples of an axis."""
    gap = np.abs(rows - np.outer(rows @ axis, axis)).max()
    return bool(gap <= _ALIKE * np.abs(rows).max(initial=1e-300))


def _turn(axis: Array) -> Array:
    """The generator of turns about an axis in d = 3."""
    return np.cross(axis, np.eye(3)).T
