"""A Kantorovich potential on S^2 and its c-transform, for the cost dist²/2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meanfield.geometry import exponential, logarithm
from meanfield.spaces import Sphere
from meanfield.spaces.sphere.at import Places, SphereAt
from meanfield.transport.sphere.search import RingSearch
from meanfield.transport.sphere.slack import Slack

Array = NDArray[np.float64]
Coefficients = NDArray[Any]

_MOST_NEWTON_STEPS = 30
# slope of the slack at which a Newton iteration has arrived
_ARRIVED = 1e-7


@dataclass(frozen=True)
class Conjugate:
    """ψ(y) = min_x dist²(x, y)/2 - φ(x) at n points y.

    Attributes
    ----------
    values : ndarray, shape (n,)
    sources : ndarray, shape (n, 3)
        The x where the minimum is taken, T(y).
    slack : Slack
        There.
    found : ndarray of bool, shape (n,)
        Where Newton's iteration has arrived at a minimum.
    """

    values: Array
    sources: Array
    slack: Slack
    found: NDArray[np.bool_]


class Potential:
    """φ as a series up to lmax.

    Parameters
    ----------
    lmax : int
    coefficients : ndarray
        In the layout of Sphere(lmax).
    """

    def __init__(self, lmax: int, coefficients: Coefficients) -> None:
        self.lmax, self.coefficients = lmax, coefficients
        self._at = SphereAt(lmax)
        # three points a wavelength, so that Newton's iteration starts beside the least slack
        self._grid = Sphere(2 * lmax)
        values = self._grid.synthesis(Sphere(lmax).embed(coefficients, self._grid))
        self._values = values.astype(np.float32)

    def values(self, points: Array) -> Array:
        """φ at points (n, 3)."""
        return self._at.values(self.coefficients, Places.of(points))

    def slack(self, points: Array, targets: Array) -> tuple[Slack, Array]:
        """The slack at x towards y, both (n, 3), and the frame at x."""
        places = Places.of(points)
        frame = places.frame()
        gradient = self._at.gradient(self.coefficients, places)
        hessian = self._at.hessian(self.coefficients, places)
        towards = np.einsum("ijk,jk->ij", frame, logarithm(points, targets))
        return Slack.of(towards, np.einsum("ijk,jk->ij", frame, gradient), hessian), frame

    def map(self, points: Array) -> tuple[Array, Slack]:
        """S(x) = exp_x(-∇φ(x)) at points (n, 3), and the slack towards it, whose slope is 0."""
        places = Places.of(points)
        gradient = self._at.gradient(self.coefficients, places)
        components = np.einsum("ijk,jk->ij", places.frame(), gradient)
        hessian = self._at.hessian(self.coefficients, places)
        targets = exponential(points, -gradient)
        targets /= np.linalg.norm(targets, axis=1)[:, None]
        return targets, Slack.of(-components, components, hessian)

    def conjugate(self, targets: Array) -> Conjugate:
        """ψ at points (n, 3): a search over the grid, and Newton's iteration from there."""
        sources = self._grid.points[self._nearest(targets)]
        reach = np.pi / len(self._grid.colatitudes)
        moving = np.arange(len(targets))
        for _ in range(_MOST_NEWTON_STEPS):
            slack, frame = self.slack(sources[moving], targets[moving])
            step = np.einsum("ij,ijk->jk", slack.step(reach), frame)
            moved = exponential(sources[moving], step)
            sources[moving] = moved / np.linalg.norm(moved, axis=1)[:, None]
            moving = moving[np.hypot(*slack.slope) > _ARRIVED]
            if len(moving) == 0:
                break
        slack, _ = self.slack(sources, targets)
        slope = np.hypot(*slack.slope)
        found = (slope < _ARRIVED) & (slack.least_curvature > 0.0)
        values = 0.5 * slack.distance**2 - self.values(sources)
        # a minimum that is not found lies within reach
        return Conjugate(values - np.where(found, 0.0, reach * slope), sources, slack, found)

    def _nearest(self, targets: Array) -> NDArray[np.intp]:
        """Where on the grid the slack is least, in single precision."""
        order = RingSearch.order(targets)
        grid, ordered = self._grid.points.astype(np.float32).T.copy(), targets[order]
        wanted, nearest = ordered.astype(np.float32), np.empty(len(targets), dtype=np.intp)
        for rows, columns in RingSearch(self._grid, ordered).parts(self._values):
            slack = wanted[rows] @ grid[:, columns]
            half_square_of_distance(slack)
            slack -= self._values[columns]
            nearest[order[rows]] = columns.start + slack.argmin(axis=1)
        return nearest


def half_square_of_distance(products: NDArray[np.float32]) -> None:
    """In place, arccos²/2 of inner products."""
    np.clip(products, -1.0, 1.0, out=products)
    np.arccos(products, out=products)
    products *= products
    products *= np.float32(0.5)
