"""d/dt of the spectral coefficients of densities."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property

import numpy as np

from meanfield.dynamics.facts import Dynamics, Sum
from meanfield.equations.heads_on_grid import ScoreTables
from meanfield.equations.kernel_on_grid import KernelOnGrid
from meanfield.equations.rates import Tendency
from meanfield.equations.sum_on_grid import field_on_grid
from meanfield.measures.density import Density, spectral_tail
from meanfield.spaces import Space, Transforms
from meanfield.typing import Array, Coefficients

# the values of a density have this rounding error, as a share of its maximum
ROUNDING = 2e-16


class LostDigitsError(ArithmeticError):
    """The velocity of a density would be made of the rounding of its values."""


# below this share of its maximum a density is rounding
_EMPTY = 1e-14


class SpectralTendency(Tendency[Density]):
    """Coefficients of a density as a real vector, what a run asks about them, and their flux f X.

    Parameters
    ----------
    density : Density
        Any density on the space.
    dynamics : Dynamics
        Its noise is not part of the tendency.

    Attributes
    ----------
    dynamics : Dynamics
    space : Circle, Sphere or Zonal
    initial_state : ndarray
        The density's coefficients as a real vector.
    """

    # f X is the flux times this number
    unit = 1.0
    # f X is computed on this grid, which may be finer than that of the space
    _grid: Space
    _transforms: Transforms

    def __init__(self, density: Density, dynamics: Dynamics) -> None:
        self.dynamics, self.space, self._limits = dynamics, density.space, density.run_limits
        self.initial_state = np.array(density.coefficients).view(np.float64)

    @abstractmethod
    def _evaluate(self, coefficients: Coefficients) -> None:
        """Fill the transforms with f, and their flux with f X in its unit."""

    def measure(self, state: Array) -> Density:
        """The density of a real vector."""
        coefficients = self._coefficients(state)
        return Density.from_coefficients(self.space, coefficients, **self._limits)

    def tail(self, state: Array) -> float:
        """The spectral tail of a real vector."""
        return spectral_tail(self.space.power(self._coefficients(state)))

    def allowed_errors(self, state: Array, tol: float) -> Array:
        """The tolerance times ‖f_{<=k}‖ / sqrt(n) for an entry of degree k, of n entries.

        Here f_{<=k} is the part of f up to degree k. A concentrated density has coefficients that
        grow with the degree, by many powers of ten where d is large, and so do their rounding
        errors; low degrees have neither.
        """
        coefficients = self._coefficients(state)
        norms = np.sqrt(np.cumsum(self.space.power(coefficients))[self.space.degrees])
        reals = coefficients.itemsize // norms.itemsize
        return tol * np.asarray(np.repeat(norms, reals) / np.sqrt(reals * len(norms)))

    def _coefficients(self, state: Array) -> Coefficients:
        return state.view(self.space.coefficient_type)

    def noisy_speed(self, state: Array) -> float:
        """(∫ |X - τ ∇ log f|² dmu)^{1/2}, the speed with the noise's flux; where f > 0."""
        coefficients, noise = self._coefficients(state), self._noise
        self._evaluate(coefficients)
        noise.evaluate(self.space.embed(coefficients, self._grid))
        # X is scaled, since its square may leave double precision
        share = 1.0 / float(np.sqrt(self.unit))
        total = share * self.unit * self._transforms.flux + share * noise.gradient
        # f ∇ log f is unknown, and small, where f is rounding
        counted = noise.values > _EMPTY * noise.values.max()
        squares = np.einsum("ij,ij->j", total, total)[counted] / noise.values[counted]
        return float(np.sqrt(self._grid.weights[counted] @ squares)) / share

    @cached_property
    def _noise(self) -> Transforms:
        """Return transforms that give f, and -τ ∇f as its gradient."""
        return self._grid.transforms(np.full(self._grid.kmax + 1, -self.dynamics.noise))


class SeriesTendency(SpectralTendency):
    """dc/dt = ∫ f X · ∇Y dσ for the coefficients c of f, the weak form of (3.4) and (3.8).

    X is that of a kernel, see `KernelOnGrid`. Mass is exact, since the test function 1 has no
    gradient.

    Parameters
    ----------
    density : Density
        Any density on the space.
    dynamics : Dynamics
        With a kernel; DoublyStochastic moves by a `GridTendency`.
    """

    def __init__(self, density: Density, dynamics: Dynamics) -> None:
        super().__init__(density, dynamics)
        self._field = KernelOnGrid(density.space, dynamics)
        self._grid, self._transforms = density.space, self._field.transforms
        self.unit = self._field.unit

    def __call__(self, state: Array, out: Array) -> None:
        """Write d/dt of `state` into `out`."""
        self._field.fill_flux(self._coefficients(state))
        self._transforms.weak_divergence(self._coefficients(out))
        if self.unit != 1.0:
            out *= self.unit

    def _evaluate(self, coefficients: Coefficients) -> None:
        """Fill the transforms, and their flux with f X in its unit."""
        self._field.fill_flux(coefficients)

    def energy_rates(self) -> float:
        """dE/dt = ∫ <∇ δE/δmu, X> dmu in units of e^{log_unit}, at the last state, (3.6)."""
        return self._field.rate_unit * self._transforms.integral(self._transforms.gradient)

    def speed(self) -> float:
        """(∫ |X|² dmu)^{1/2} at the last state."""
        transforms = self._transforms
        if not self._field.is_divided:
            squares = transforms.integral(transforms.gradient)
            return self.unit * float(np.sqrt(max(squares, 0.0)))
        flux, values = transforms.flux, transforms.values
        squares = np.einsum("ij,ij->j", flux, flux)
        counted = values != 0.0
        np.divide(squares, values, out=squares, where=counted)
        return float(np.sqrt(max(self.space.weights[counted] @ squares[counted], 0.0)))


# the rounding of a density may make at most this share of a field
_LARGEST_SHARE = 1e-9


class GridTendency(SpectralTendency):
    """dc/dt = ∫ f X · ∇Y dσ for the coefficients c of f, with X on a grid: (2.3), (2.7), (2.8).

    Of heads, G(Mx) and ∫ y e^{<Mx,y>} dmu, M = β KᵀQ, are linear in moments of mu: on the circle
    and S^2 through harmonics (`kernels.bilinear`), about an axis through latitudes. Where G of
    softmax is below 1e-6 of its scale, and its series has lost the digits, positive terms are
    summed, in O(N) for each point. X then has errors of 1e-9 at most, 1e-14 where G varies little.
    Mass is exact, since the test function 1 has no gradient.

    Heads may look where f is rounding, 1e-16 of its maximum: with negative scores opposite to a
    concentrated mass. Where that would change f X by more than 1e-9 the right-hand side is refused.

    The activation of `FeedForward` is evaluated on the grid. gelu and tanh are smooth; where relu
    has a kink f comes to jump, its series converge like size^{-1/2} in L², and a run ends as
    under-resolved unless `tail_tol` is large.

    Parameters
    ----------
    density : Density
        Any density on the space.
    dynamics : Dynamics
        One kernel alone that is not scaled moves by a `SeriesTendency`.
    tables : dict, optional
        Of heads that other right-hand sides on the space have made, which these are added to.

    Attributes
    ----------
    field : FieldOnGrid
        That of the only term, or a `SumOnGrid`.

    Raises
    ------
    ValueError
        If |M| is too large for the space (10000 on the circle, 128 on S^2), or M, V or a
        feed-forward layer does not commute with rotations about the axis of a `Zonal` space.
    """

    def __init__(
        self, density: Density, dynamics: Dynamics, tables: ScoreTables | None = None
    ) -> None:
        super().__init__(density, dynamics)
        self.field = field_on_grid(density.space, dynamics, tables)
        self._grid = self.field.grid
        # with multipliers 0 the transforms give values and a divergence, and no gradient
        self._transforms = self._grid.transforms(np.zeros(self._grid.kmax + 1))

    def __call__(self, state: Array, out: Array) -> None:
        """Write d/dt of `state` into `out`."""
        self._evaluate(self._coefficients(state))
        if self._grid is self.space:
            self._transforms.weak_divergence(self._coefficients(out))
            return
        rate = np.empty(self._grid.n_coefficients, dtype=self.space.coefficient_type)
        self._transforms.weak_divergence(rate)
        self._coefficients(out)[:] = self._grid.embed(rate, self.space)

    def _evaluate(self, coefficients: Coefficients) -> None:
        """Evaluate f on the grid, and f X."""
        transforms, flux = self._transforms, self._transforms.flux
        on_grid = coefficients
        if self._grid is not self.space:
            on_grid = self.space.embed(coefficients, self._grid)
        transforms.evaluate(on_grid)
        self._rates = self.field(on_grid, transforms.values)
        self._check_digits()
        np.multiply(self._rates.velocity[: len(flux)], transforms.values, out=flux)

    def forget(self) -> None:
        """Begin the next scaling of attention from 1."""
        self.field.forget()

    def heating(self, state: Array) -> Array:
        """-τ ∫ <∇ δE/δmu, ∇f> dσ, what heat does to each energy, at the last state: this one."""
        self._noise.evaluate(self.space.embed(self._coefficients(state), self._grid))
        # the gradient that the noise returns contains τ already
        heat = self._noise.gradient
        weights = self._grid.weights
        gradients = self._rates.energy_gradients
        return np.array([weights @ (g[: len(heat)] * heat).sum(axis=0) for g in gradients])

    def _check_digits(self) -> None:
        """Refuse a field that the rounding of f changes too much where f has mass.

        Raises
        ------
        LostDigitsError
            If f X is changed by more than 1e-9 of its maximum, or of f's.
        """
        values = np.maximum(self._transforms.values, 0.0)
        share = ROUNDING * self.field.doubt(values)
        if share > _LARGEST_SHARE:
            raise LostDigitsError(
                f"rounding of f, {ROUNDING:g} of its maximum, makes {share:.1e} of the field under "
                f"{self.dynamics!r}, whose scores are largest where f is least: take a FlowMap or "
                f"Particles"
            )

    def energy_rates(self) -> Array:
        """dE/dt of each energy in units of e^{log_unit}, at the last state."""
        return self._rates.energy_rates(self._grid.weights * self._transforms.values, axis=0)

    def speed(self) -> float:
        """(∫ |X|² dmu)^{1/2} at the last state."""
        # without softmax X may be too large to be squared
        velocity = self._rates.velocity
        largest = float(np.abs(velocity).max()) or 1.0
        shares = velocity / largest
        squares = np.einsum("cj,cj->j", shares, shares) * self._transforms.values
        return largest * float(np.sqrt(max(float(self._grid.weights @ squares), 0.0)))


# a slower field may be the rounding of 0, as at a stationary measure
_SLOWEST = 1e-6


def unseen_share(density: Density, dynamics: Dynamics) -> float:
    """How much of df/dt by outputs a grid twice as fine sees and this one does not, as a share.

    In the norm of H^{-1}, that of f X. It is 0 where X is a series, and where no finer grid is.
    """
    # a drift of weight 0 has an energy that is followed, so it counts as if it acted
    drifts = [
        (weight or 1.0, term) for weight, term in dynamics.weighted_terms if term.known_by_output
    ]
    # a field with a kink is narrower than any grid, so no grid can be asked for
    smooth_drifts = [(weight, term) for weight, term in drifts if term.is_smooth]
    if not smooth_drifts:
        return 0.0
    try:
        finer = density.embed(density.space.double())
    except ValueError:
        return 0.0
    weights, terms = zip(*smooth_drifts, strict=True)
    coarse, fine_field = (GridTendency(f, Sum(terms, weights=weights)) for f in (density, finer))
    rates = []
    for equation in (coarse, fine_field):
        rates.append(np.empty_like(equation.initial_state))
        equation(equation.initial_state, rates[-1])
    fine = fine_field._coefficients(rates[1])
    difference = fine - coarse.space.embed(coarse._coefficients(rates[0]), fine_field.space)
    degrees = np.maximum(np.unique(fine_field.space.degrees), 1.0)
    missed_norm, whole_rate = (
        float(np.sqrt(fine_field.space.power(part) @ degrees**-2.0)) for part in (difference, fine)
    )
    return missed_norm / max(whole_rate, _SLOWEST)
