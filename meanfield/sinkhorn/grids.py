"""Grids on which u f is integrated against e^{β<x,y>}, and the sums on them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from meanfield.arguments import tell_apart
from meanfield.harmonics import bandwidth
from meanfield.kernels import LARGEST_ZONAL_BETA, zonal_kernel
from meanfield.line_potential import CircleLine, LineSums
from meanfield.sinkhorn.sums import SphereNodes
from meanfield.spaces import Circle, Space, Zonal

Array = NDArray[np.float64]

# three tables of so many angles by so many take 24 MB
_MOST_ANGLES = 1024
# a grid of S^2 for this degree has some two million points
_HIGHEST_DEGREE = 2048


def working_grid(space: Space, beta: float) -> Space:
    """The space itself, or the least of its kind whose grid holds f and twice the bandwidth of K.

    u is no series, but e^{β<x,y>} u(y) has about the bandwidth of the kernel, or less.

    Raises
    ------
    ValueError
        If that takes a degree above 2048 beyond the circle.
    """
    degree = space.kmax + 2 * bandwidth(beta, space.dim)
    if space.exactness >= degree:
        return space
    if degree > _HIGHEST_DEGREE and not isinstance(space, Circle):
        raise ValueError(
            f"beta must be smaller for doubly stochastic attention on {space}, got {beta:g}, which "
            f"takes a grid for degree {degree} > {_HIGHEST_DEGREE}"
        )
    return space.resized(max(space.size, space.exact_size(degree)))


class LatitudeSums:
    """Over all pairs of latitudes of a grid, with K right relative to its own size.

    Parameters
    ----------
    space : Zonal
    beta : float

    Raises
    ------
    ValueError
        If β > 150.
    """

    def __init__(self, space: Zonal, beta: float) -> None:
        if beta > LARGEST_ZONAL_BETA:
            raise ValueError(
                f"beta must be <= {LARGEST_ZONAL_BETA:g} for doubly stochastic attention on "
                f"{space}, got {tell_apart(beta, LARGEST_ZONAL_BETA)[0]}"
            )
        polar = np.arctan2(space.sines, space.nodes)
        self._tables = zonal_kernel(beta, space.dim, polar[:, None], polar)[:2]

    def __call__(self, masses: Array, tables: int = 2) -> Array:
        """G and its derivative along the polar angle over β, shape (tables, n)."""
        with np.errstate(under="ignore"):
            return np.asarray(self._tables[:tables] @ masses)

    def potential(self, masses: Array) -> Array:
        """G, shape (n,), of masses (n,) >= 0."""
        return np.asarray(self(masses, 1)[0])


GridSums = LineSums | LatitudeSums | SphereNodes


def grid_sums(space: Space, beta: float, most_pairs: int = 0) -> GridSums:
    """Sums over masses at the points of a grid; on lines K is right relative to its own size.

    Raises
    ------
    ValueError
        If β > 150 for a `Zonal` space.
    """
    if isinstance(space, Circle):
        # a grid stays, so a table of its pairs is made but once
        gathered = 0 if len(space.angles) <= _MOST_ANGLES else None
        return LineSums(CircleLine(beta), np.asarray(space.angles, dtype=np.float64), gathered)
    if isinstance(space, Zonal):
        return LatitudeSums(space, beta)
    return SphereNodes(space.points, beta, most_pairs)
