"""Fields on the grid of a space: what they answer, the frame they stand in, where digits end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from meanfield.equations.rates import Rates
from meanfield.kernels.bilinear import score_matrix
from meanfield.kernels.direct import Lost
from meanfield.spaces import Space, Zonal
from meanfield.spaces.geometry import asymmetry, perpendicular
from meanfield.typing import Array, Coefficients

# below this share of its maximum a series on a grid has lost its digits
LOST = Lost(1e-6)


class FieldOnGrid(ABC):
    """X on the grid of a space.

    Attributes
    ----------
    grid : Circle, Sphere or Zonal
        That of the density's space, or a finer one.
    """

    grid: Space

    @abstractmethod
    def __call__(self, coefficients: Coefficients, values: Array) -> Rates:
        """Components of X and ∇ δE/δmu along the tangents of the grid, shape (c, N).

        Parameters
        ----------
        coefficients : ndarray
            The density's, on the grid.
        values : ndarray, shape (N,)
            f on the grid.
        """

    def doubt(self, values: Array) -> float:  # noqa: ARG002 (of heads alone)
        """The share by which f X changes for each share of its maximum that f changes by.

        Of the last state, with f (N,) >= 0.
        """
        return 0.0

    def forget(self) -> None:  # noqa: B027 (of what begins with its last result)
        """Begin anew, as a run does at each save."""


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
    latitudes : Zonal or None
        The space, if it is one.

    Examples
    --------
    >>> frame = Frame(Zonal(5, 8))
    >>> frame.basis.shape, frame.points.shape, frame.tangents.shape
    ((5, 2), (14, 2), (1, 14, 2))
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self.latitudes: Zonal | None = None
        if isinstance(space, Zonal):
            across = perpendicular(space.axis)
            along = [space.axis, across]
            if space.dim == 3:
                along.append(np.cross(space.axis, across))
            self.latitudes, self.basis = space, np.stack(along, axis=1)
            self.points = np.zeros((len(space.nodes), self.basis.shape[1]))
            self.points[:, 0], self.points[:, 1] = space.nodes, space.sines
            self.tangents = np.zeros((self.basis.shape[1] - 1, *self.points.shape))
            self.tangents[0, :, 0], self.tangents[0, :, 1] = space.sines, -space.nodes
            self.tangents[1:, :, 2:] = 1.0
        else:
            self.basis, self.points = np.eye(space.dim), space.points
            self.tangents = space.tangent_frame(np.arange(len(space.weights)))

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
