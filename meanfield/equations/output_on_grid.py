"""Outputs on the grid of a density's space, of which a user's own may ask for the density."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np

from meanfield._checks import read_only, shown
from meanfield.dynamics.facts import Dynamics
from meanfield.equations.on_grid import LOST, FieldOnGrid, Frame
from meanfield.equations.rates import Rates
from meanfield.kernels.kernel import Exponential
from meanfield.measures.density import Density
from meanfield.spaces import Space, Zonal
from meanfield.spaces.geometry import lie_along
from meanfield.typing import Array, Coefficients, Indices


class ScaledSums:
    """log G and ∇ log G at β times the points of a grid, through harmonics.

    Where G is below 1e-6 of its maximum positive terms are summed. So errors are 1e-9 at most.

    Parameters
    ----------
    grid : Circle, Sphere or Zonal
    beta : float
    """

    def __init__(self, grid: Space, beta: float) -> None:
        dim, kmax, degrees = grid.dim, grid.kmax, np.arange(1, grid.kmax + 1)
        series = Exponential(beta).series(dim, kmax + 1)
        potential, self._grid = series.potential, grid
        # t p_k = (k p_{k-1} + (k+d-2) p_{k+1})/(2k+d-2) gives the series of t e^{βt}
        lower, upper = degrees * potential[:-2], (degrees + dim - 2) * potential[2:]
        along = np.append(potential[1], (lower + upper) / (2 * degrees + dim - 2))
        self._along = along[grid.degrees]
        self._transforms = grid.transforms(series.primitive[:-1], potential[:-1])
        self._log_unit = series.log_unit + float(np.log(series.unit))

    def __call__(self, coefficients: Coefficients) -> tuple[Array, Array, Array, Indices]:
        """log G (N,), ∇ log G along x (N,) and the tangents (c, N), and where G is lost."""
        transforms, grid = self._transforms, self._grid
        transforms.evaluate(coefficients)
        potential = transforms.potential.copy()
        small = LOST.settle(potential, float(potential.max()), "sum", "maximum")
        along = grid.synthesis(self._along * coefficients) / potential
        return np.log(potential) + self._log_unit, along, transforms.gradient / potential, small


class DensityOnGrid(Density):
    """A density of a run, as a user's own dynamics is handed it on the points of its grid.

    Its `log_moment` at β times these points is a series.

    Parameters
    ----------
    space : Circle, Sphere or Zonal
    coefficients : ndarray
    scaled : callable
        The `ScaledSums` of a β.
    """

    def __init__(
        self, space: Space, coefficients: Coefficients, scaled: Callable[[float], ScaledSums]
    ) -> None:
        self.with_limits(space)
        self.law, self.misfit, self._scaled = None, 0.0, scaled
        self.coefficients = read_only(np.array(coefficients))

    def log_moment_at(self, z: Array) -> tuple[Array, Array]:
        """As `log_moment`; at β times the grid in O(N log N) on the circle."""
        beta = float(np.linalg.norm(z[0]))
        if len(z) != len(self.space.weights) or beta == 0.0:
            return super().log_moment_at(z)
        points = z / beta
        if (tangents := self._tangents_at(points)) is None:
            return super().log_moment_at(z)
        log_g, along, across, lost_places = self._scaled(beta)(self.coefficients)
        mean = along[:, None] * points + np.einsum("cij,ci->ij", tangents, across)
        if len(lost_places):
            log_g[lost_places], mean[lost_places] = super().log_moment_at(z[lost_places])
        return log_g, mean

    def _tangents_at(self, points: Array) -> Array | None:
        """Return the tangents (c, N, d) if the points are those of the grid, on any meridian.

        For other points the answer is None.
        """
        space = self.space
        if not isinstance(space, Zonal):
            is_grid = np.abs(points - space.points).max() <= _SAME_POINT
            return space.tangent_frame(np.arange(len(points))) if is_grid else None
        along = points @ space.axis
        across = points - np.outer(along, space.axis)
        radii = np.linalg.norm(across, axis=1)
        if np.abs([along - space.nodes, radii - space.sines]).max() > _SAME_POINT:
            return None
        north = np.outer(space.sines, space.axis) - (space.nodes / radii)[:, None] * across
        return np.asarray(north[None])


# rounding moves a point by at most this
_SAME_POINT = 4e-15


def check_symmetry(space: Space, dynamics: Dynamics) -> None:
    """Refuse an output that is not symmetric about the axis of the space, if it has one.

    Raises
    ------
    ValueError
        Naming the dynamics, and what to take.
    """
    if space.axis is not None and not all(lie_along(v, space.axis) for v in dynamics.axis_rows):
        raise ValueError(
            f"dynamics must commute with rotations about the axis of {space}, got "
            f"{shown(dynamics)}: take a Sphere, a Circle or Particles"
        )


class OutputOnGrid(FieldOnGrid):
    """X on the grid of a density's space, of what is known by its output.

    Of a feed-forward layer it is the same for any density.
    """

    def __init__(self, space: Space, dynamics: Dynamics) -> None:
        check_symmetry(space, dynamics)
        self.grid, self._dynamics, self._frame = space, dynamics, Frame(space)
        self._points = self._frame.points @ self._frame.basis.T
        self._scaled = lru_cache(maxsize=4)(partial(ScaledSums, space))
        self._fixed = self._at(None) if dynamics.sum_method == "none" else None

    def __call__(self, coefficients: Coefficients, values: Array) -> Rates:  # noqa: ARG002 (of heads)
        """X and ∇ δE/δmu along the tangents of the frame."""
        return self._fixed or self._at(DensityOnGrid(self.grid, coefficients, self._scaled))

    def _at(self, density: Density | None) -> Rates:
        basis, tangents = self._frame.basis, self._frame.tangents
        output, gradients = self._dynamics.output_and_gradients(
            density, self._points, self.grid.axis
        )
        velocity, *along = (
            np.einsum("cjr,jr->cj", tangents, vectors @ basis) for vectors in (output, *gradients)
        )
        return Rates(velocity, energy_gradients=tuple(along))
