"""The matrix M of scores <Mx,y>."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from meanfield.arguments import real_array, tell_apart

Array = NDArray[np.float64]


def score_matrix(matrix: ArrayLike, dim: int) -> Array:
    """M as a (d, d) array; a number stands for that multiple of the identity.

    Raises
    ------
    ValueError
        If it is neither a number nor a finite (d, d) matrix.

    Examples
    --------
    >>> score_matrix(2.0, 2)
    array([[2., 0.],
           [0., 2.]])
    """
    if np.ndim(matrix) == 0:
        matrix = np.asarray(matrix, dtype=np.float64) * np.eye(dim)
    given = real_array("matrix", matrix, 2)
    if given.shape != (dim, dim):
        raise ValueError(f"matrix must be a number or ({dim}, {dim}), got shape {given.shape}")
    return given


def largest_score(matrix: Array) -> float:
    """|M|_2, the largest <Mx,y> of two points of the sphere.

    Examples
    --------
    >>> largest_score(np.diag([3.0, -5.0]))
    5.0
    """
    return float(np.linalg.norm(matrix, 2))


def check_score(score: float, largest: float, dim: int) -> None:
    """Refuse a matrix whose kernel has too many harmonics.

    Raises
    ------
    ValueError
        Naming the largest |M|_2.
    """
    # norms have errors of rounding
    if score > largest * (1.0 + 1e-12):
        raise ValueError(
            f"beta |KᵀQ| must be <= {largest:g} for series in dim = {dim}, got "
            f"{tell_apart(score, largest)[0]}: take Particles"
        )
