"""The slack dist²(x, y)/2 - φ(x), to second order in x."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# a slack that is less convex than this has no Newton step
_LEAST_CURVATURE = 0.05


@dataclass(frozen=True)
class Slack:
    """First and second derivatives at n points x in their frames, of the slack towards n points y.

    Attributes
    ----------
    distance : ndarray, shape (n,)
        dist(x, y).
    slope : ndarray, shape (2, n)
    curvature : ndarray, shape (3, n)
        Components 11, 22 and 12.
    """

    distance: Array
    slope: Array
    curvature: Array

    @classmethod
    def of(cls, logarithm: Array, gradient: Array, hessian: Array) -> Slack:
        """From log_x y (2, n), ∇φ (2, n) and the second derivatives of φ (3, n)."""
        distance = np.hypot(logarithm[0], logarithm[1])
        at_y = distance < 1e-12
        along = np.where(at_y, 1.0, logarithm[0]) / np.where(at_y, 1.0, distance)
        across = np.where(at_y, 0.0, logarithm[1]) / np.where(at_y, 1.0, distance)
        # dist²/2 has the second derivatives 1 along the geodesic and r cot r across
        sideways = np.sinc(distance / np.pi)
        sideways = np.cos(distance) / np.where(sideways == 0.0, 1e-300, sideways)
        curvature = np.stack(
            [
                along**2 + sideways * across**2 - hessian[0],
                across**2 + sideways * along**2 - hessian[1],
                (1.0 - sideways) * along * across - hessian[2],
            ]
        )
        return cls(distance, -logarithm - gradient, curvature)

    @property
    def determinant(self) -> Array:
        """Of the curvature, shape (n,)."""
        return np.asarray(self.curvature[0] * self.curvature[1] - self.curvature[2] ** 2)

    @property
    def least_curvature(self) -> Array:
        """The lesser eigenvalue of the curvature, shape (n,)."""
        middle = 0.5 * (self.curvature[0] + self.curvature[1])
        half = 0.5 * (self.curvature[0] - self.curvature[1])
        return np.asarray(middle - np.hypot(half, self.curvature[2]))

    @property
    def jacobian(self) -> Array:
        """|det DS| of the map S with log_x S(x) = -∇φ(x), where y = S(x); shape (n,)."""
        return np.asarray(self.determinant * np.sinc(self.distance / np.pi))

    def step(self, longest: float) -> Array:
        """Newton's step to the least slack, (2, n), at most so long; downhill everywhere."""
        shift = np.maximum(_LEAST_CURVATURE - self.least_curvature, 0.0)
        first, second = self.curvature[0] + shift, self.curvature[1] + shift
        determinant = first * second - self.curvature[2] ** 2
        step = -np.stack(
            [
                second * self.slope[0] - self.curvature[2] * self.slope[1],
                first * self.slope[1] - self.curvature[2] * self.slope[0],
            ]
        )
        step /= determinant
        length = np.hypot(step[0], step[1])
        return np.asarray(step * np.minimum(longest / np.maximum(length, 1e-300), 1.0))

    def change(self, step: Array) -> Array:
        """By how much the slack changes on a step (2, n), to second order."""
        quadratic = (
            self.curvature[0] * step[0] ** 2
            + self.curvature[1] * step[1] ** 2
            + 2.0 * self.curvature[2] * step[0] * step[1]
        )
        return np.asarray(self.slope[0] * step[0] + self.slope[1] * step[1] + 0.5 * quadratic)
