"""Points, tangent vectors and matrices in the coordinates that a space needs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from meanfield.bilinear import score_matrix
from meanfield.geometry import perpendicular
from meanfield.spaces import Space, Zonal
from meanfield.spaces.symmetry import asymmetry

Array = NDArray[np.float64]


class Frame:
    """r coordinates in which the grid of a space lies: all d of them, or those of a meridian.

    On a `Zonal` space they are along the axis, across it and, for d = 3, east of the meridian.

    Parameters
    ----------
    space : Circle, Sphere or Zonal

    Attributes
    ----------
    basis : ndarray, shape (d, r)
        Unit vectors along the coordinates.
    points : ndarray, shape (N, r)
        The grid.
    tangents : ndarray, shape (c, N, r)
        Unit tangent vectors; the first ones are those along which a flux of the space has
        components.

    Examples
    --------
    >>> frame = Frame(Zonal(5, 8))
    >>> frame.basis.shape, frame.points.shape, frame.tangents.shape
    ((5, 2), (14, 2), (1, 14, 2))
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        if isinstance(space, Zonal):
            self.basis = _meridian(space)
            self.points = np.zeros((len(space.nodes), self.basis.shape[1]))
            self.points[:, 0], self.points[:, 1] = space.nodes, space.sines
            self.tangents = np.zeros((self.basis.shape[1] - 1, *self.points.shape))
            self.tangents[0, :, 0], self.tangents[0, :, 1] = space.sines, -space.nodes
            self.tangents[1:, :, 2:] = 1.0
        else:
            self.basis, self.points = np.eye(space.dim), space.points
            self.tangents = space.frame(np.arange(len(space.weights)))

    def matrix(self, name: str, matrix: Any) -> Array:
        """A matrix, or a number for a multiple of the identity, in these coordinates.

        Raises
        ------
        ValueError
            If a matrix does not commute with rotations about the axis of a `Zonal` space.
        """
        if np.ndim(matrix) == 0:
            return score_matrix(matrix, self.basis.shape[1])
        space = self._space
        if space.axis is not None and (gap := asymmetry(matrix, space.axis)):
            others = "a Sphere or Particles" if space.dim == 3 else "Particles"
            raise ValueError(
                f"{name} must commute with rotations about the axis of {space}, got a matrix that "
                f"differs from all that do by {gap:.2g}: take {others}"
            )
        return np.asarray(self.basis.T @ matrix @ self.basis)


def _meridian(space: Zonal) -> Array:
    across = perpendicular(space.axis)
    columns = [space.axis, across]
    if space.dim == 3:
        columns.append(np.cross(space.axis, across))
    return np.stack(columns, axis=1)
