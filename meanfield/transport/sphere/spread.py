"""A measure on S^2 as masses at points, and by its moments."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meanfield.arguments import shown, tell_apart
from meanfield.geometry import perpendicular
from meanfield.measures import Density, LineFlowMap, Particles
from meanfield.spaces import Sphere
from meanfield.spaces.sphere.at import Places, SphereAt
from meanfield.spaces.sphere.fields import SphereFields
from meanfield.transport.representation import check_mass
from meanfield.transport.sphere.cells import cells_of

Array = NDArray[np.float64]
Coefficients = NDArray[Any]

# how much mass a series may have below 0
_NEGATIVE_MASS = 1e-3
# the grid of a density has at least this degree, so that masses at its points resolve transports,
# and integrates its products with potentials of such a degree
_FINEST, _POTENTIAL = 63, 64
_GATHERED_LMAX = 47
# tokens around a latitude: moments of this degree are exact
_AROUND = 128
# points with less mass than this share of the largest are left out
_LEAST = 1e-13


class Spread:
    """Masses at points of S^2 with total 1: tokens, or the grid of a density.

    A density is clipped at 0 where its series is negative, and its mass made 1.

    Parameters
    ----------
    measure : Density or Particles
        With dim = 3.

    Attributes
    ----------
    points : ndarray, shape (n, 3)
    masses : ndarray, shape (n,)
        > 0.

    Raises
    ------
    ValueError
        If a density does not have mass 1 within 1e-6, or mass below 0 of more than 1e-3.
    """

    def __init__(self, measure: Density | Particles) -> None:
        self.measure = measure
        self._scale = 1.0
        if isinstance(measure, Density):
            grid = Sphere(_FINEST)
            grid = grid.resized(max(grid.exact_size(measure.space.kmax + _POTENTIAL), _FINEST))
            values = _on_grid(measure, grid)
            points, masses = grid.points, grid.weights * np.maximum(values, 0.0)
            check_mass(measure, float(grid.weights @ values))
            _check_sign(measure, float(masses.sum() - grid.weights @ values))
            self._scale = 1.0 / float(masses.sum())
        else:
            points, masses = measure.points, measure.weights
        kept = masses > _LEAST * masses.max()
        self.points, self.masses = points[kept], masses[kept] / masses[kept].sum()

    @property
    def has_density(self) -> bool:
        """Whether `density` can be asked."""
        return isinstance(self.measure, Density)

    def density(self, points: Array) -> Array:
        """The density at points (n, 3), clipped and with mass 1."""
        measure = self.measure
        if not isinstance(measure, Density):
            raise ValueError(f"{shown(measure)} has no density, it must be a Density")
        values = measure.space.at(measure.coefficients, points)
        return np.asarray(self._scale * np.maximum(values, 0.0))

    def gathered(self, most: int) -> tuple[Array, Array]:
        """Points and masses, about so many at most, that stand for the measure in an ascent."""
        if isinstance(self.measure, Density):
            grid = Sphere(_GATHERED_LMAX)
            masses = grid.weights * np.maximum(_on_grid(self.measure, grid), 0.0)
            kept = masses > _LEAST * masses.max()
            return grid.points[kept], masses[kept] / masses[kept].sum()
        if len(self.points) <= most:
            return self.points, self.masses
        cells = cells_of(self.points, self.masses, most)
        return cells.centres, cells.masses

    def moments(self, lmax: int) -> Coefficients:
        """∫ conj(Y_lm) dmu of the degrees up to lmax, in the layout of Sphere(lmax)."""
        return SphereAt(lmax).moments(self._places, self.masses)

    @cached_property
    def _places(self) -> Places:
        return Places.of(self.points)

    @cached_property
    def concentration(self) -> float:
        """Σ |c_lm|² of a low degree: 1 for the uniform measure, more where mass is together."""
        at = SphereAt(15)
        return float(at.power(self.moments(15)).sum())


def rings(flow: LineFlowMap) -> Particles:
    """The nodes of a flow map about an axis in d = 3, each as tokens around its latitude."""
    axis = np.asarray(flow.axis)
    across = perpendicular(axis)
    longitudes = 2.0 * np.pi / _AROUND * np.arange(_AROUND)
    circle = np.outer(np.cos(longitudes), across)
    circle += np.outer(np.sin(longitudes), np.cross(axis, across))
    angles = flow.angles[:, None, None]
    points = (np.cos(angles) * axis + np.sin(angles) * circle).reshape(-1, 3)
    return Particles(points, np.repeat(flow.weights / _AROUND, _AROUND))


def _check_sign(measure: Density, negative: float) -> None:
    if negative > _NEGATIVE_MASS:
        raise ValueError(
            f"a density must have no more than {_NEGATIVE_MASS:g} of its mass below 0 to have a "
            f"distance, got {shown(measure)} with "
            f"{tell_apart(negative, _NEGATIVE_MASS)[0]}: take a larger space"
        )


def series(measure: Density, lmax: int) -> Coefficients:
    """Coefficients of a density on S^2 in the layout of Sphere(lmax), lmax at least its own."""
    space = Sphere(lmax)
    if isinstance(measure.space, Sphere):
        return measure.space.embed(measure.coefficients, space)
    return space.analysis(_on_grid(measure, space))


def _on_grid(measure: Density, grid: Sphere) -> Array:
    if isinstance(measure.space, Sphere):
        return SphereFields(grid, measure.space.size).values(measure.coefficients)
    return np.asarray(measure.space.at(measure.coefficients, grid.points))
