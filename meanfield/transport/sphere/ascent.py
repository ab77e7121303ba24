"""The ascent of Kantorovich's dual functional, D(φ) = ∫ φ dmu + ∫ ψ dnu, on S^2."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meanfield.geometry import exponential
from meanfield.spaces import Sphere
from meanfield.spaces.sphere.at import Places, SphereAt
from meanfield.spaces.sphere.fields import SphereFields
from meanfield.transport.sphere.potential import half_square_of_distance
from meanfield.transport.sphere.search import RingSearch
from meanfield.transport.sphere.slack import Slack
from meanfield.transport.sphere.spread import Spread

Array = NDArray[np.float64]
Coefficients = NDArray[Any]

_SEARCH_LMAX = 31
_BLOCK = 256
_MEMORY = 15
_SHORTENED, _MOST_CUTS, _ENOUGH = 0.4, 6, 1e-4
_LOOK_BACK = 10
_STALLED = 3e-5
_SOLVER_STEPS, _SOLVER_TOLERANCE = 12, 1e-4


class DualAscent:
    """Potentials of degree lmax that ascend, by L-BFGS with the Laplacian weighted by mu.

    The derivative of D is mu - T#nu with T(y) where the c-transform ψ(y) takes its minimum, and its
    second derivative is about -div(mu ∇): steps are solutions of weighted Poisson equations, as the
    back-and-forth method (Jacobs and Léger 2020) has them for a constant weight.

    Parameters
    ----------
    mu, nu : Spread
    targets, masses : ndarray, shapes (n, 3) and (n,)
        nu, coarse enough for a table of n times the search grid.
    lmax : int
    """

    def __init__(self, mu: Spread, targets: Array, masses: Array, lmax: int) -> None:
        order = RingSearch.order(targets)
        self._targets, self._masses, self.lmax = targets[order], masses[order], lmax
        space = self._space = Sphere(lmax)
        self._moments = mu.moments(lmax)
        self._fields, self._at = SphereFields(space), SphereAt(lmax)
        eigenvalues = space.degrees * (space.degrees + 1.0)
        self._inverse = np.where(eigenvalues > 0.0, 1.0 / np.maximum(eigenvalues, 1.0), 0.0)
        smooth = np.exp(-2.0 * eigenvalues / lmax**2) * self._moments
        self._weight = np.maximum(space.synthesis(smooth), 0.0)
        self._search = Sphere(max(_SEARCH_LMAX, lmax))
        self._search_fields = SphereFields(self._search, lmax)
        self._frame = self._search.frame(np.arange(len(self._search.weights)))
        self._rings = RingSearch(self._search, self._targets)
        self._costs = _cost_table(self._targets, self._search.points)

    def climb(
        self, start: Coefficients, floor: float, most_steps: int, goal: float
    ) -> Coefficients:
        """From a potential to a better one; the weight is at least `floor` of its largest value.

        Ends where D reaches the goal, no longer grows, or after so many steps.
        """
        weight = np.maximum(self._weight, floor * self._weight.max())
        place, (height, slope) = start, self._dual(start)
        changes: deque[tuple[Coefficients, Coefficients]] = deque(maxlen=_MEMORY)
        heights = [height]
        for _ in range(most_steps):
            direction = self._direction(slope, changes, weight)
            moved = self._line_search(place, height, slope, direction)
            if moved is None:
                break
            step, height, new_slope = moved
            change = slope - new_slope
            if self._fields.inner(step, change) > 0.0:
                changes.append((step, change))
            place, slope = place + step, new_slope
            heights.append(height)
            before = heights[-min(_LOOK_BACK, len(heights))]
            if height >= goal or (
                len(heights) > _LOOK_BACK and height - before < _STALLED * height
            ):
                break
        return place

    def _line_search(
        self, place: Coefficients, height: float, slope: Coefficients, direction: Coefficients
    ) -> tuple[Coefficients, float, Coefficients] | None:
        """Step, height and slope there; None where no step ascends."""
        expected, length = self._fields.inner(direction, slope), 1.0
        for _ in range(_MOST_CUTS):
            new_height, new_slope = self._dual(place + length * direction)
            if new_height > height + _ENOUGH * length * expected:
                return length * direction, new_height, new_slope
            length *= _SHORTENED
        return None

    def _dual(self, potential: Coefficients) -> tuple[float, Coefficients]:
        """D and its derivative, with the c-transform to second order from the search grid."""
        fields, frame = self._search_fields, self._frame
        values = fields.values(potential)
        nearest = self._least(values.astype(np.float32))
        gradient, hessian = fields.gradient(potential), fields.hessian(potential)
        at, sources = frame[:, nearest], self._search.points[nearest]
        inner = np.clip(np.einsum("jk,jk->j", sources, self._targets), -1.0, 1.0)
        towards = np.einsum("ijk,jk->ij", at, self._targets)
        distance = np.arctan2(np.hypot(towards[0], towards[1]), inner)
        towards *= distance / np.maximum(np.hypot(towards[0], towards[1]), 1e-300)
        slack = Slack.of(towards, gradient[:, nearest], hessian[:, nearest])
        step = slack.step(np.pi / len(self._search.colatitudes))
        conjugate = 0.5 * distance**2 - values[nearest] + np.minimum(slack.change(step), 0.0)
        moved = exponential(sources, np.einsum("ij,ijk->jk", step, at))
        slope = self._moments - self._at.moments(Places.of(moved), self._masses)
        slope[0] = 0.0
        return self._fields.inner(potential, self._moments) + float(self._masses @ conjugate), slope

    def _least(self, values: NDArray[np.float32]) -> NDArray[np.intp]:
        nearest = np.empty(len(self._targets), dtype=np.intp)
        for rows, columns in self._rings.parts(values):
            slack = self._costs[rows, columns] - values[columns]
            nearest[rows] = columns.start + slack.argmin(axis=1)
        return nearest

    def _direction(
        self,
        slope: Coefficients,
        changes: deque[tuple[Coefficients, Coefficients]],
        weight: Array,
    ) -> Coefficients:
        """L-BFGS, two loops around the weighted Poisson equation."""
        inner = self._fields.inner
        rest, shares = slope.copy(), []
        for step, change in reversed(changes):
            share = inner(step, rest) / inner(step, change)
            rest -= share * change
            shares.append(share)
        direction = self._poisson(rest, weight)
        for (step, change), share in zip(changes, reversed(shares), strict=True):
            direction += step * (share - inner(change, direction) / inner(step, change))
        return direction

    def _poisson(self, source: Coefficients, weight: Array) -> Coefficients:
        """-div(weight ∇ x) = source by a few steps of conjugate gradients."""
        x, rest = np.zeros_like(source), source.copy()
        ahead = self._inverse * rest
        along = ahead.copy()
        size = first = self._fields.inner(rest, ahead)
        for _ in range(_SOLVER_STEPS):
            image = self._fields.weak_divergence(weight * self._fields.gradient(along))
            image[0] = 0.0
            length = size / self._fields.inner(along, image)
            x += length * along
            rest -= length * image
            ahead = self._inverse * rest
            new_size = self._fields.inner(rest, ahead)
            if new_size < _SOLVER_TOLERANCE * first:
                break
            along = ahead + (new_size / size) * along
            size = new_size
        return x


def _cost_table(targets: Array, sources: Array) -> NDArray[np.float32]:
    """dist²/2 of all pairs in single precision."""
    table = np.empty((len(targets), len(sources)), dtype=np.float32)
    columns = sources.astype(np.float32).T.copy()
    for first in range(0, len(targets), _BLOCK):
        rows = table[first : first + _BLOCK]
        np.matmul(targets[first : first + _BLOCK].astype(np.float32), columns, out=rows)
        half_square_of_distance(rows)
    return table
