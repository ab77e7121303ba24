"""The velocity of a kernel on the grid of a density's space, by series, and of scaled masses."""

from __future__ import annotations

import numpy as np

from meanfield.dynamics.facts import Dynamics
from meanfield.equations.on_grid import LOST, FieldOnGrid
from meanfield.equations.rates import Rates
from meanfield.kernels.kernel import is_divided
from meanfield.kernels.sinkhorn import grid_sums, scaling
from meanfield.measures.density import Density
from meanfield.spaces import Space
from meanfield.typing import Array, Coefficients, Indices

# up to this β the squares of fields as large as e^β stay in double precision
_LARGEST_BETA = 200.0
# below this share of its maximum a density is rounding, which may be negative
_LEAST_VALUE = 1e-16


class KernelOnGrid(FieldOnGrid):
    """X = ± ∇u, or ± ∇u/G where it is normalised, of a kernel on the grid of a space, by series.

    G is ∫ s(<x,y>) dmu(y) of a kernel s, and u is ∫ S(<x,y>) dmu(y) of its primitive S, so that ∇u
    is P_x ∫ s(<x,y>) y dmu(y). They have the coefficients s_k f_k and S_k f_k. For SA and USA
    s_k = Λ_k, S_k = Λ_k/β, and X is ± P_x ∇G(βx) [/ G(βx)]; `Phases` have S_k alone. Numerator and
    denominator of X are in the unit of the kernel's series: Λ_0 of exponentials, the size of G
    itself. Where there is no denominator the numerator is X, up to β = 200.

    Parameters
    ----------
    space : Circle, Sphere or Zonal
    dynamics : Dynamics
        With a kernel, whose masses are not scaled.

    Attributes
    ----------
    transforms : Transforms
        With f of the coefficients that were asked for last, and the numerator as the gradient.
    is_divided : bool
        Whether X is the numerator over G.
    unit : float
        Of the flux: f X is this times it.
    rate_unit : float
        Of dE/dt: it is this times ∫ flux · numerator dσ, since the numerator is ± the energy's
        gradient.
    """

    def __init__(self, space: Space, dynamics: Dynamics) -> None:
        self.grid, self._dynamics = space, dynamics
        self._kernel = kernel = dynamics.pair_kernel
        potential, primitive, series_unit, log_unit = kernel.series(space.dim, space.kmax)
        self.is_divided = dynamics.normalised and is_divided(potential)
        self._can_be_small = self.is_divided and kernel.least_share < LOST.below
        self._log_unit = log_unit + float(np.log(series_unit))
        factors, self.unit = dynamics.sign * primitive, 1.0
        self.rate_unit = float(dynamics.sign * series_unit)
        if not self.is_divided:
            unit = float(series_unit * np.exp(log_unit))
            if log_unit <= _LARGEST_BETA:
                factors = factors * unit
                self.rate_unit /= unit
            else:
                self.unit = unit
                self.rate_unit *= unit
        self.transforms = space.transforms(factors, potential if self.is_divided else None)

    def fill_flux(self, coefficients: Coefficients) -> None:
        """Fill the transforms, and their flux with f X in its unit."""
        transforms, potential = self.transforms, self.transforms.potential
        transforms.evaluate(coefficients)
        if not self.is_divided:
            np.multiply(transforms.gradient, transforms.values, out=transforms.flux)
            return
        if lost := self._is_lost():
            places, shares = self._sum_small(coefficients)
        # f X = ± ∇u f/G: the array that had G has f/G from here on
        np.divide(transforms.values, potential, out=potential)
        np.multiply(transforms.gradient, potential, out=transforms.flux)
        if lost:
            # the gradient has X at these places, and X times G is the numerator again
            transforms.gradient[:, places] *= shares

    def __call__(self, coefficients: Coefficients, values: Array) -> Rates:  # noqa: ARG002 (of others)
        """X and ∇ δE/δmu."""
        self.transforms.evaluate(coefficients)
        pull, gradient_unit = self.transforms.gradient, self.rate_unit / self.unit
        if not self.is_divided:
            return Rates(self.unit * pull, energy_gradients=(gradient_unit * pull,))
        if lost := self._is_lost():
            small, shares = self._sum_small(coefficients)
        velocity = pull / self.transforms.potential
        if lost:
            pull[:, small] *= shares
        return Rates(velocity, energy_gradients=(gradient_unit * pull,))

    def _is_lost(self) -> bool:
        potential = self.transforms.potential
        return bool(self._can_be_small and potential.min() < LOST.below * potential.max())

    def _sum_small(self, coefficients: Coefficients) -> tuple[Indices, Array]:
        """Put X over 1 for ± ∇u over G where the series of G has no digits, by positive sums.

        These places are returned, with G there in the unit of the series.
        """
        transforms, grid = self.transforms, self.grid
        small = LOST.places(transforms.potential, float(transforms.potential.max()))
        density = Density.from_coefficients(grid, coefficients)
        log_unit, potential, pull = self._kernel.attention(density, grid.points[small])
        mean = np.einsum("aid,id->ai", grid.tangent_frame(small), pull) / potential
        transforms.gradient[:, small] = self._dynamics.sign * mean
        transforms.potential[small] = 1.0
        with np.errstate(under="ignore"):
            return small, potential * np.exp(log_unit - self._log_unit)


class BalancedOnGrid(FieldOnGrid):
    """X of `DoublyStochastic` on a grid, u scaled from its last value.

    Parameters
    ----------
    grid : Circle, Sphere or Zonal
        See `working_grid`: it holds f and twice the kernel's bandwidth.
    dynamics : DoublyStochastic
    """

    def __init__(self, grid: Space, dynamics: Dynamics) -> None:
        self._dynamics, self.grid = dynamics, grid
        self._sums = grid_sums(self.grid, dynamics.pair_kernel.beta)
        self.forget()

    def forget(self) -> None:
        """Begin the next scaling from 1, not from the last."""
        self._log_u = np.zeros(len(self.grid.weights))

    def __call__(self, coefficients: Coefficients, values: Array) -> Rates:  # noqa: ARG002 (of heads)
        """X and ∇ δE/δmu = ± X."""
        masses = self.grid.weights * np.maximum(values, _LEAST_VALUE * values.max())
        masses /= masses.sum()
        self._log_u = scaling(self._sums.potential, masses, self._log_u)
        potential, velocity = self._sums.components(masses * np.exp(self._log_u))
        velocity /= potential
        return Rates(self._dynamics.sign * velocity, energy_gradients=(velocity,))
