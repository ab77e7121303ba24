"""d/dt of the coefficients of many densities on one space, each under a dynamics of its own."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from meanfield.measures import Density
from meanfield.spaces import Circle, CircleTransforms, Zonal, ZonalBatch
from meanfield.tendency.density import DensityTendency
from meanfield.tendency.factors import Factors
from meanfield.tendency.spectral import SMALL

Array = NDArray[np.float64]


class DensityBatch:
    """`DensityTendency` of many densities at once, with one plan of their transforms.

    The densities have lanes, which are free at first, and can be given to others. A state is a row:
    the coefficients as real numbers, then the integral of the dissipation.

    Parameters
    ----------
    space : Circle or Zonal
    lanes : int
    normalised : bool
        Whether all of them are divided by their potential.

    Attributes
    ----------
    lanes : int
    free_state : ndarray, shape (width,)
        The uniform density, for lanes that nothing else has.
    faults : dict of int to str
        Why the field of a lane was not to be had, and is nan, since this was cleared.
    """

    def __init__(self, space: Circle | Zonal, lanes: int, normalised: bool) -> None:
        self.space, self.lanes, self.faults = space, lanes, dict[int, str]()
        size = space.n_coefficients * np.dtype(space.coefficient_type).itemsize // 8
        self.free_state: Array = np.asarray(np.eye(1, size + 1)[0])
        slope = np.zeros((lanes, space.kmax + 1))
        potential = slope + (space.degrees == 0) if normalised else None
        # factors with an axis in front make it these
        transforms = space.transforms(slope, potential)
        self._transforms = cast(CircleTransforms | ZonalBatch, transforms)
        self._units = np.ones((lanes, 1))
        self._energy_factors = np.zeros(lanes)
        self._can_be_small = np.zeros(lanes, dtype=bool)
        self._factors: dict[int, tuple[Factors, float]] = {}
        self._alone: dict[int, DensityTendency] = {}

    @property
    def width(self) -> int:
        """Numbers of a state."""
        return self.free_state.size

    @property
    def values(self) -> Array:
        """The densities on the grid, shape (lanes, N), at the last states."""
        return self._transforms.values

    def coefficients(self, states: Array) -> NDArray[Any]:
        """Of states, (lanes, n_coefficients)."""
        return states[:, :-1].view(self.space.coefficient_type)

    def assign(self, lane: int, factors: Factors, time_unit: float = 1.0) -> None:
        """Give a lane to a density under the dynamics of these factors; d/dt counts time units."""
        self._transforms.assign(lane, factors.slope, factors.potential)
        self._units[lane] = factors.speed_unit * time_unit
        self._energy_factors[lane] = factors.energy_factor * time_unit
        self._can_be_small[lane] = factors.can_be_small
        self._factors[lane] = factors, time_unit
        self._alone.pop(lane, None)

    def __call__(self, states: Array, out: Array) -> None:
        """Write d/dt of the states (lanes, width) into `out`."""
        transforms, coefficients = self._transforms, self.coefficients(states)
        transforms.evaluate(coefficients)
        small: NDArray[np.intp] = np.empty(0, dtype=np.intp)
        if transforms.potential.size:
            small = self._with_small_potential()
            np.divide(transforms.gradient, transforms.potential, out=transforms.flux)
            transforms.flux *= transforms.values
        else:
            np.multiply(transforms.gradient, transforms.values, out=transforms.flux)
        transforms.weak_divergence(self.coefficients(out))
        out[:, -1] = transforms.integrals(transforms.gradient)
        if (self._units != 1.0).any():
            out[:, :-1] *= self._units
        out[:, -1] *= self._energy_factors
        for lane in small:
            self._with_care(int(lane), states, out)

    def _with_small_potential(self) -> NDArray[np.intp]:
        """Lanes where the series of G has no digits left."""
        if not self._can_be_small.any():
            return np.empty(0, dtype=np.intp)
        potential = self._transforms.potential
        is_small = potential.min(axis=1) < SMALL * potential.max(axis=1)
        return np.nonzero(is_small & self._can_be_small)[0]

    def _with_care(self, lane: int, states: Array, out: Array) -> None:
        """The field of one lane as a density's by itself, which sums positive terms."""
        factors, time_unit = self._factors[lane]
        coefficients = self.coefficients(states)[lane]
        if not np.isfinite(coefficients).all():
            return
        if lane not in self._alone:
            density = Density.from_coefficients(self.space, coefficients)
            self._alone[lane] = DensityTendency(density, factors.dynamics)
        alone = self._alone[lane]
        try:
            alone(np.ascontiguousarray(states[lane, :-1]), out[lane, :-1])
        except (ArithmeticError, ValueError) as error:
            self.faults[lane] = str(error)
            out[lane] = np.nan
            return
        out[lane, -1] = alone.scaled_dissipation()
        out[lane] *= time_unit
