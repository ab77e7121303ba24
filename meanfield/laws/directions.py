"""Random directions: uniform on the sphere, and at given angles around given axes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from meanfield.geometry import project

Array = NDArray[np.float64]


def _normalised(rows: Array) -> Array:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def uniform_points(n: int, dim: int, rng: np.random.Generator) -> Array:
    """g/|g| with g standard normal in R^d: n uniform points on S^{d-1}, shape (n, d)."""
    return _normalised(rng.standard_normal((n, dim)))


def uniform_in_span(n: int, dim: int, rng: np.random.Generator) -> Array:
    """Coordinates of n <= d uniform points on S^{d-1} in an orthonormal basis of their span.

    Rows g/|g|, shape (n, n), with g standard normal. The triangular factor of n such rows has
    independent entries, normal below the diagonal and χ with d, d - 1, … degrees of freedom on it
    (Bartlett 1933): what inner products are made of, for n² random numbers in place of n d.

    Examples
    --------
    >>> x = uniform_in_span(3, 1000, np.random.default_rng(0))
    >>> x.shape, bool(np.abs(x @ x.T - np.eye(3)).max() < 0.2)
    ((3, 3), True)
    """
    rows = np.tril(rng.standard_normal((n, n)), -1)
    rows.flat[:: n + 1] = np.sqrt(rng.chisquare(dim - np.arange(n)))
    return _normalised(rows)


def uniform_frame(n: int, dim: int, rng: np.random.Generator) -> Array:
    """n <= d orthonormal rows in R^d, uniform among all such, shape (n, d).

    The orthogonal factor of normal rows, with signs that make the triangular one's diagonal
    positive (Mezzadri 2007): the basis of `uniform_in_span`, whose points it makes points in R^d.
    """
    basis, factor = np.linalg.qr(rng.standard_normal((dim, n)))
    return np.asarray((basis * np.sign(np.diag(factor))).T)


def points_around(axes: Array, angles: Array, rng: np.random.Generator) -> Array:
    """cos φ a + sin φ u with u uniform among the unit vectors perpendicular to a.

    Parameters
    ----------
    axes : ndarray, shape (n, d)
        Unit rows a.
    angles : ndarray, shape (n,)
        Polar angles φ in [0, π].
    rng : numpy.random.Generator

    Returns
    -------
    ndarray, shape (n, d)
        Unit rows.

    Examples
    --------
    >>> x = points_around(np.array([[0.0, 1.0]]), np.array([np.pi / 3]), np.random.default_rng(0))
    >>> float(x[0, 1])
    0.5
    """
    n, dim = axes.shape
    if dim == 2:
        across = rng.choice([-1.0, 1.0], size=(n, 1)) * np.column_stack([-axes[:, 1], axes[:, 0]])
    else:
        across = project(axes, rng.standard_normal((n, dim)))
        # once more, since the first difference may cancel most digits
        across = _normalised(project(axes, across))
    return _normalised(np.cos(angles)[:, None] * axes + np.sin(angles)[:, None] * across)
