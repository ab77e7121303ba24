"""d/dt of the spectral coefficients of a density."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meanfield.dynamics import Dynamics
from meanfield.measures import Density
from meanfield.spaces import Space, Transforms
from meanfield.tendency.factors import Factors
from meanfield.tendency.spectral import SMALL, SpectralTendency

Array = NDArray[np.float64]

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
