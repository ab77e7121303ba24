"""d/dt of the spectral coefficients of densities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from meanfield.dynamics.facts import Dynamics
from meanfield.kernels.kernel import is_divided
from meanfield.measures.density import Density, spectral_tail
from meanfield.spaces import Circle, Space, Transforms, Zonal
from meanfield.typing import Array, Indices, NDArray

# up to this β fields as large as e^β have squares in double precision
_LARGEST_BETA = 200.0


@dataclass(frozen=True, eq=False)
class Factors:
    """Multipliers of X = ± ∇u, or ± ∇u/G where it is normalised, u of coefficients S_k f_k.

    With a kernel s and its primitive S, G has s_k f_k; for SA and USA S_k = Λ_k/β, s_k = Λ_k.
    Numerator and denominator of X are in the unit of the kernel's series: Λ_0 of exponentials, the
    size of G itself. Where there is no denominator the numerator is X, up to β = 200.

    Attributes
    ----------
    slope : ndarray, shape (kmax + 1,)
        Of the numerator.
    potential : ndarray of the same shape, or None
        Of the denominator, where X has one that is not 1.
    speed_unit : float
        X in units of the fields.
    energy_factor, log_unit : float
        e^{-log_unit} dissipation over ∫ f X · numerator dσ; log_unit is that of the series, β of
        exponentials, but log Λ_0 where e^{-β} Λ_0 underflows.
    energies : ndarray, shape (kmax + 1,)
        e^{-log_unit} E over the power of each degree.
    log_size : float
        Of the unit.
    can_be_small : bool
        Whether the denominator may fall below what its series has digits for.
    """

    slope: NDArray[Any]
    potential: Array | None = None
    speed_unit: float = 1.0
    energy_factor: float = 1.0
    log_unit: float = 0.0
    energies: Array = field(default_factory=lambda: np.zeros(0))
    log_size: float = 0.0
    can_be_small: bool = False

    @classmethod
    def of(cls, dynamics: Dynamics, dim: int, kmax: int) -> Factors:
        """Those of a dynamics with a kernel."""
        kernel = dynamics.kernel
        potential, primitive, size, log_unit = kernel.series(dim, kmax)
        slope, energies = dynamics.sign * primitive, 0.5 * size * primitive.real
        is_normalised = dynamics.normalised and is_divided(potential)
        unit, factor = 1.0, size
        if not is_normalised:
            lead = float(size * np.exp(log_unit))
            if log_unit <= _LARGEST_BETA:
                slope = slope * lead
                factor /= lead
            else:
                unit = lead
                factor *= lead
        small = is_normalised and kernel.least_share < SMALL
        log_size = log_unit + float(np.log(size))
        divisor = potential if is_normalised else None
        return cls(slope, divisor, unit, factor, log_unit, energies, log_size, small)


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
        coefficients = self._coefficients(state)
        norms = np.sqrt(np.cumsum(self.space.power(coefficients))[self.space.degrees])
        reals = coefficients.itemsize // norms.itemsize
        return np.asarray(np.repeat(norms, reals) / np.sqrt(reals * len(norms)))

    def _coefficients(self, state: Array) -> NDArray[Any]:
        return state.view(self.space.coefficient_type)


# share of its maximum below which a density is rounding
_EMPTY = 1e-14


class DensityTendency(SpectralTendency):
    """dc/dt = ∫ f X · ∇Y dσ for the coefficients c of f, the weak form of (3.4) and (3.8).

    X = ± ∇u, or ± ∇u/G where it is normalised, of the kernel's multipliers: see `Factors`. Mass is
    exact, since the test function 1 has no gradient.

    Parameters
    ----------
    density : Density
        Any density on the space.
    dynamics : Dynamics
        With a kernel; DoublyStochastic has a tendency of its own. Its noise is not part of this.

    Attributes
    ----------
    initial_state : ndarray
        The density's coefficients as a real vector.
    factors : Factors
        Its `log_unit` is u of `scaled_energy` and `scaled_dissipation`.
    """

    def __init__(self, density: Density, dynamics: Dynamics) -> None:
        super().__init__(density)
        self.dynamics = dynamics
        self._grid: Space = self.space
        self.factors = factors = Factors.of(dynamics, density.dim, self.space.kmax)
        self._normalised = factors.potential is not None
        self._transforms = self.space.transforms(factors.slope, factors.potential)

    def __call__(self, state: Array, out: Array) -> None:
        """Write d/dt of `state` into `out`."""
        self._evaluate(self._coefficients(state))
        self._transforms.weak_divergence(self._coefficients(out))
        if self.factors.speed_unit != 1.0:
            out *= self.factors.speed_unit

    def _evaluate(self, coefficients: NDArray[Any]) -> None:
        """Fill the transforms, and their flux with f X in units of the speed."""
        transforms, potential = self._transforms, self._transforms.potential
        transforms.evaluate(coefficients)
        if not self._normalised:
            np.multiply(transforms.gradient, transforms.values, out=transforms.flux)
            return
        lost = self.factors.can_be_small and potential.min() < SMALL * potential.max()
        if lost:
            small, shares = self._sum_small(coefficients)
        np.divide(transforms.gradient, potential, out=transforms.flux)
        transforms.flux *= transforms.values
        if lost:
            transforms.gradient[:, small] *= shares

    def scaled_dissipation(self) -> float:
        """e^{-u} ∫ |X|² dmu, or ∫ |X|² G dmu where X is normalised, (3.6), at the last state."""
        return self.factors.energy_factor * self._transforms.integral(self._transforms.gradient)

    def scaled_energy(self, state: Array) -> float:
        """e^{-u} E of a state."""
        return float(self.factors.energies @ self.space.power(self._coefficients(state)))

    def speed(self) -> float:
        """(∫ |X|² dmu)^{1/2} at the last state."""
        transforms = self._transforms
        if not self._normalised:
            squares = transforms.integral(transforms.gradient)
            return self.factors.speed_unit * float(np.sqrt(max(squares, 0.0)))
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
        scale = 1.0 if self._normalised else float(np.exp(-0.5 * self.dynamics.kernel.log_unit))
        total = scale * self.factors.speed_unit * flux + scale * noise.gradient
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

    def _sum_small(self, coefficients: NDArray[Any]) -> tuple[Indices, Array]:
        """Sum positive terms where the series of G has no digits left: there, and G in its unit."""
        transforms = self._transforms
        small = np.nonzero(transforms.potential < SMALL * transforms.potential.max())[0]
        density = Density.from_coefficients(self.space, coefficients)
        points = self.space.points[small]
        log_unit, potential, pull = self.dynamics.kernel.attention(density, points)
        mean = np.einsum("aid,id->ai", self.space.frame(small), pull) / potential
        transforms.gradient[:, small] = self.dynamics.sign * mean
        transforms.potential[small] = 1.0
        with np.errstate(under="ignore"):
            return small, potential * np.exp(log_unit - self.factors.log_size)


class DensityBatch:
    """`DensityTendency` of many densities on one space at once, with one plan of their transforms.

    A state is a row: the coefficients as real numbers, then the integral of the dissipation.

    Parameters
    ----------
    space : Circle or Zonal
    dynamics : sequence of SA or USA
        Of one density after the other.
    """

    def __init__(self, space: Circle | Zonal, dynamics: Sequence[Dynamics]) -> None:
        uniform = Density(space, np.ones(len(space.weights)))
        self._each = [DensityTendency(uniform, one) for one in dynamics]
        factors = [each.factors for each in self._each]
        potential = None
        if any(one.potential is not None for one in factors):
            # f_0 = 1 divides nothing
            first = np.eye(1, space.kmax + 1)[0]
            potential = np.stack([first if f.potential is None else f.potential for f in factors])
        self._transforms = space.transforms(np.stack([f.slope for f in factors]), potential)
        self._units = np.array([[f.speed_unit] for f in factors])
        self._energy_factors = np.array([f.energy_factor for f in factors])
        self._can_be_small = np.array([f.can_be_small for f in factors])
        self._coefficient_type = space.coefficient_type

    def __call__(self, states: Array, out: Array) -> None:
        """Write d/dt of the states, one a row, into `out`."""
        transforms, kind = self._transforms, self._coefficient_type
        transforms.evaluate(states[:, :-1].view(kind))
        small: Indices = np.empty(0, dtype=np.intp)
        if (potential := transforms.potential).size:
            is_small = potential.min(axis=1) < SMALL * potential.max(axis=1)
            small = np.nonzero(is_small & self._can_be_small)[0]
            np.divide(transforms.gradient, potential, out=transforms.flux)
            transforms.flux *= transforms.values
        else:
            np.multiply(transforms.gradient, transforms.values, out=transforms.flux)
        transforms.weak_divergence(out[:, :-1].view(kind))
        out[:, :-1] *= self._units
        out[:, -1] = self._energy_factors * transforms.integrals(transforms.gradient)
        for row in small:
            each = self._each[row]
            each(np.ascontiguousarray(states[row, :-1]), out[row, :-1])
            out[row, -1] = each.scaled_dissipation()
