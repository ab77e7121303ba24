"""d/dt of the spectral coefficients of densities."""

from __future__ import annotations

from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from meanfield.dynamics.facts import Dynamics
from meanfield.kernels.multipliers import bandwidth, eigenvalues_in_unit, relative_eigenvalues
from meanfield.measures.density import Density, spectral_tail
from meanfield.spaces import Space, Transforms
from meanfield.spaces.circle import Circle, CircleTransforms
from meanfield.spaces.zonal import Zonal, ZonalBatch
from meanfield.typing import Array

# up to this β fields as large as e^β have squares in double precision
_LARGEST_BETA = 200.0


class Factors:
    """Multipliers of X = ± ∇u (USA) or ± ∇u / (βu) (SA), u of coefficients Λ_k f_k / β.

    Numerator and denominator of X are in units of Λ_0, the size of G itself. Where there is no
    denominator the numerator is X, up to β = 200.

    Parameters
    ----------
    dynamics : SA or USA
    dim : int
    kernel : ndarray, shape (kmax + 1,)
        Λ_k/Λ_0.
    width : int
        The bandwidth.
    first : tuple of float
        e^{-log_unit} Λ_0 and log_unit.

    Attributes
    ----------
    slope : ndarray, shape (kmax + 1,)
        Of the numerator.
    potential : ndarray of the same shape, or None
        Of the denominator, where X has one: for SA unless β = 0.
    speed_unit : float
        X in units of the fields.
    energy_factor, log_unit : float
        e^{-log_unit} dissipation over ∫ f X · numerator dσ; log_unit is β, but log Λ_0 where
        e^{-β} Λ_0 underflows.
    energies : ndarray, shape (kmax + 1,)
        e^{-log_unit} E_β (at β = 0 its limit without 1/(2β)) over the power of each degree.
    log_first : float
        log Λ_0.
    can_be_small : bool
        Whether the denominator may fall below what its series has digits for.
    """

    def __init__(
        self, dynamics: Dynamics, dim: int, kernel: Array, width: int, first: tuple[float, float]
    ) -> None:
        self.dynamics = dynamics
        beta, (size, self.log_unit) = dynamics.beta, first
        # the limit of Λ_k/(β Λ_0)
        at_zero = np.where(np.arange(len(kernel)) == 1, 1.0 / dim, 0.0)
        self.energies = size * kernel / (2.0 * beta) if beta > 0.0 else 0.5 * at_zero
        kernel = np.where(np.arange(len(kernel)) <= width, kernel, 0.0)
        self.slope = dynamics.sign * (kernel / beta if beta > 0.0 else at_zero)
        is_normalised = dynamics.normalised and beta > 0.0
        self.potential = kernel if is_normalised else None
        self.energy_factor = size
        self.speed_unit = 1.0
        if not is_normalised and beta > 0.0:
            lead = float(size * np.exp(self.log_unit))
            if beta <= _LARGEST_BETA:
                self.slope *= lead
                self.energy_factor /= lead
            else:
                self.speed_unit = lead
                self.energy_factor *= lead
        self.log_first = self.log_unit + float(np.log(size))
        self.can_be_small = bool(is_normalised and np.exp(-2.0 * beta) < SMALL)

    @classmethod
    def of(cls, dynamics: Dynamics, dim: int, kmax: int) -> Factors:
        """Those of a dynamics."""
        beta = dynamics.beta
        kernel = relative_eigenvalues(beta, dim, kmax)
        first, log_unit = eigenvalues_in_unit(beta, dim, 0)
        return cls(dynamics, dim, kernel, bandwidth(beta, dim), (float(first[0]), log_unit))


# rounding of the values of a density, as a share of its maximum
ROUNDING = 2e-16
# below this share of its maximum a series of G has lost the digits that SA divides by
SMALL = 1e-6


class LostDigitsError(ArithmeticError):
    """What moves a density is made of the rounding of its values."""


class SpectralTendency:
    """Coefficients of a density as a real vector, and what a run asks about them.

    Parameters
    ----------
    density : Density
        Any density on the space.

    Attributes
    ----------
    space : Circle, Sphere or Zonal
    initial_state : ndarray
        The density's coefficients as a real vector.
    """

    def __init__(self, density: Density) -> None:
        self.space = density.space
        self.initial_state = np.array(density.coefficients).view(np.float64)

    def measure(self, state: Array) -> Density:
        """The density of a real vector."""
        return Density.from_coefficients(self.space, self._coefficients(state))

    def tail(self, state: Array) -> float:
        """The spectral tail of a real vector."""
        return spectral_tail(self.space.power(self._coefficients(state)))

    def scale(self, state: Array) -> Array:
        """‖f_{<=k}‖ / sqrt(n), f_{<=k} the part of f up to the entry's degree k, n entries.

        What a tolerance for each entry is relative to: a concentrated density has coefficients
        that grow with the degree, by many powers of ten where d is large, and so do their
        rounding errors; low degrees have neither.
        """
        return norms_up_to_degree(self.space, self._coefficients(state))

    def _coefficients(self, state: Array) -> NDArray[Any]:
        return state.view(self.space.coefficient_type)


def norms_up_to_degree(space: Space, coefficients: NDArray[Any]) -> Array:
    """`SpectralTendency.scale` of coefficients, of many densities where they have an axis more."""
    norms = np.sqrt(np.cumsum(space.power(coefficients), axis=-1)[..., space.degrees])
    reals = coefficients.itemsize // norms.itemsize
    return np.asarray(np.repeat(norms, reals, axis=-1) / np.sqrt(reals * norms.shape[-1]))


# share of its maximum below which a density is rounding
_EMPTY = 1e-14


class DensityTendency(SpectralTendency):
    """dc/dt = ∫ f X · ∇Y dσ for the coefficients c of f, the weak form of (3.4) and (3.8).

    With u = (1/β) ∫ e^{β<·,y>} dmu, of coefficients Λ_k c_k / β: X = ± ∇u (USA) and
    X = ± ∇u / (βu) (SA). Mass is exact, since the test function 1 has no gradient.

    Parameters
    ----------
    density : Density
        Any density on the space.
    dynamics : SA or USA; DoublyStochastic has a tendency of its own
        Its noise is not part of the tendency.

    Attributes
    ----------
    initial_state : ndarray
        The density's coefficients as a real vector.
    log_unit : float
        u of `scaled_dissipation`: β, but log Λ_0 where e^{-β} Λ_0 underflows.
    energies : ndarray, shape (kmax + 1,)
        e^{-u} E_β over the power of each degree.
    """

    def __init__(self, density: Density, dynamics: Dynamics) -> None:
        super().__init__(density)
        self.dynamics = dynamics
        self._grid: Space = self.space
        factors = Factors.of(dynamics, density.dim, self.space.kmax)
        self._normalised = factors.potential is not None
        self._transforms = self.space.transforms(factors.slope, factors.potential)
        self.log_unit, self._log_first = factors.log_unit, factors.log_first
        self._speed_unit, self._energy_factor = factors.speed_unit, factors.energy_factor
        self._can_be_small, self.energies = factors.can_be_small, factors.energies

    def __call__(self, state: Array, out: Array) -> None:
        """Write d/dt of `state` into `out`."""
        self._evaluate(self._coefficients(state))
        self._transforms.weak_divergence(self._coefficients(out))
        if self._speed_unit != 1.0:
            out *= self._speed_unit

    def _evaluate(self, coefficients: NDArray[Any]) -> None:
        """Fill the transforms, and their flux with f X in units of the speed."""
        transforms = self._transforms
        transforms.evaluate(coefficients)
        if not self._normalised:
            np.multiply(transforms.gradient, transforms.values, out=transforms.flux)
        elif self._can_be_small and self._has_small_potential():
            self._divide_with_care(coefficients)
        else:
            self._divide()

    def scaled_dissipation(self) -> float:
        """e^{-u} ∫ |X|² dmu (USA), e^{-u} ∫ |X|² G(βx) dmu (SA), (3.6), at the last state."""
        return self._energy_factor * self._transforms.integral(self._transforms.gradient)

    def speed(self) -> float:
        """(∫ |X|² dmu)^{1/2} at the last state."""
        transforms = self._transforms
        if not self._normalised:
            squares = transforms.integral(transforms.gradient)
            return self._speed_unit * float(np.sqrt(max(squares, 0.0)))
        flux, values = transforms.flux, transforms.values
        squares = np.einsum("ij,ij->j", flux, flux)
        counted = values != 0.0
        np.divide(squares, values, out=squares, where=counted)
        return float(np.sqrt(max(self.space.weights[counted] @ squares[counted], 0.0)))

    def noisy_speed(self, state: Array) -> float:
        """(∫ |X - τ ∇ log f|² dmu)^{1/2}, the speed with the noise's flux; where f > 0."""
        coefficients, noise, flux = self._coefficients(state), self._noise, self._transforms.flux
        self._evaluate(coefficients)
        noise.evaluate(self._on_grid(coefficients))
        scale = 1.0 if self._normalised else float(np.exp(-0.5 * self.dynamics.beta))
        total = scale * self._speed_unit * flux + scale * noise.gradient
        # where f is rounding, f ∇ log f is not known, and small
        counted = noise.values > _EMPTY * noise.values.max()
        squares = np.einsum("ij,ij->j", total, total)[counted] / noise.values[counted]
        return float(np.sqrt(self._grid.weights[counted] @ squares)) / scale

    @cached_property
    def _noise(self) -> Transforms:
        """f, and -τ ∇f as its gradient."""
        return self._grid.transforms(np.full(self._grid.kmax + 1, -self.dynamics.noise))

    def _on_grid(self, coefficients: NDArray[Any]) -> NDArray[Any]:
        """The coefficients on the space whose grid the flux is on."""
        return coefficients

    def _divide(self) -> None:
        transforms = self._transforms
        np.divide(transforms.gradient, transforms.potential, out=transforms.flux)
        transforms.flux *= transforms.values

    def _has_small_potential(self) -> bool:
        potential = self._transforms.potential
        return bool(potential.min() < SMALL * potential.max())

    def _divide_with_care(self, coefficients: NDArray[Any]) -> None:
        """Where the series of G has no digits left, sum positive terms instead."""
        transforms, beta = self._transforms, self.dynamics.beta
        small = np.nonzero(transforms.potential < SMALL * transforms.potential.max())[0]
        density = Density.from_coefficients(self.space, coefficients)
        log_g, mean = density.log_moment(beta * self.space.points[small])
        pull = np.einsum("aid,id->ai", self.space.frame(small), mean)
        transforms.gradient[:, small] = self.dynamics.sign * pull
        transforms.potential[small] = 1.0
        self._divide()
        with np.errstate(under="ignore"):
            transforms.gradient[:, small] *= np.exp(log_g - self._log_first)


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
