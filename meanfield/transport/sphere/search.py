"""Where on a grid of S^2 the slack dist²/2 - φ can be least."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from meanfield.geometry import geodesic_distance, sphere_angles
from meanfield.spaces import Sphere
from meanfield.spaces.sphere.lattice import Lattice

Array = NDArray[np.float64]

# targets at a time: their slacks with some thousand points stay in a cache
_BLOCK = 32
# of slacks in single precision, which are below 10
_ROUNDING = 1e-5


class RingSearch:
    """The rings of a grid on which the least slack towards targets can lie.

    A point is no nearer to a target than their colatitudes are, so the slack on a ring is at
    least half the square of that minus the largest φ there. Where this exceeds the slack at the
    grid's point beside the target, the ring is left out.

    Parameters
    ----------
    grid : Sphere or Lattice
    targets : ndarray, shape (n, 3)
    """

    def __init__(self, grid: Sphere | Lattice, targets: Array) -> None:
        colatitudes, longitudes = sphere_angles(targets)
        self._grid = grid
        apart = np.abs(np.subtract.outer(colatitudes, grid.colatitudes))
        around = np.rint(longitudes * (grid.n_lon / (2.0 * np.pi))).astype(np.intp) % grid.n_lon
        self._beside = apart.argmin(axis=1) * grid.n_lon + around
        self._cost = 0.5 * geodesic_distance(targets, grid.points[self._beside]) ** 2
        self._least_cost = 0.5 * apart**2

    @staticmethod
    def order(targets: Array) -> NDArray[np.intp]:
        """The targets from the north to the south: neighbours need the same rings."""
        return sphere_angles(targets)[0].argsort(kind="stable")

    def parts(
        self, values: NDArray[np.float32], margins: NDArray[np.float32] | None = None
    ) -> Iterator[tuple[slice, slice]]:
        """Targets a block at a time, and the points of the grid to look at, φ given there.

        With margins, also the points whose slack less its margin can be as little as the least one.
        """
        raised = values if margins is None else values + margins
        rings = raised.reshape(len(self._grid.colatitudes), self._grid.n_lon)
        bound = self._cost - values[self._beside] + _ROUNDING
        needed = self._least_cost - rings.max(axis=1) <= bound[:, None]
        starts = range(0, len(needed), _BLOCK)
        wanted = np.logical_or.reduceat(needed, starts, axis=0)
        northmost = wanted.argmax(axis=1)
        behind = wanted.shape[1] - wanted[:, ::-1].argmax(axis=1)
        n_lon = self._grid.n_lon
        for first, north, south in zip(starts, northmost, behind, strict=True):
            yield slice(first, first + _BLOCK), slice(north * n_lon, south * n_lon)
