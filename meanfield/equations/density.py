"""d/dt of the spectral coefficients of densities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np

from meanfield._checks import read_only, shown
from meanfield.dynamics.facts import Dynamics, Sum
from meanfield.equations.in_time import Steady
from meanfield.equations.rates import Rates, added
from meanfield.kernels.bilinear import CircleBilinear, SphereBilinear, score_matrix
from meanfield.kernels.direct import Lost, latitude_rule
from meanfield.kernels.kernel import Exponential, is_divided
from meanfield.kernels.multipliers import bandwidth, eigenvalues_in_unit
from meanfield.kernels.sinkhorn import grid_sums, scaling, working_grid
from meanfield.measures.density import Density, spectral_tail
from meanfield.measures.oscillators import OscillatorDensity
from meanfield.spaces import Space, SphereFields, Transforms, Zonal
from meanfield.spaces.gegenbauer import gegenbauer, multiplicities
from meanfield.spaces.geometry import asymmetry, lie_along, perpendicular
from meanfield.typing import Array, Coefficients, Indices, NDArray

# up to this β fields as large as e^β have squares in double precision
_LARGEST_BETA = 200.0


# rounding of the values of a density, as a share of its maximum
ROUNDING = 2e-16
# a series on a grid has lost digits below this share of its maximum
LOST = Lost(1e-6)


class LostDigitsError(ArithmeticError):
    """The velocity of a density would be made of the rounding of its values."""


# share of its maximum below which a density is rounding
_EMPTY = 1e-14


class SpectralTendency(Steady, ABC):
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
    speed_unit : float
        X in units of the flux.
    """

    speed_unit = 1.0
    # f X is on this grid, which may be finer than the space's own
    _grid: Space
    _transforms: Transforms

    def __init__(self, density: Density, dynamics: Dynamics) -> None:
        self.dynamics, self.space, self._limits = dynamics, density.space, density.run_limits
        self.initial_state = np.array(density.coefficients).view(np.float64)

    @abstractmethod
    def _evaluate(self, coefficients: NDArray[Any]) -> None:
        """Fill the transforms with f, and their flux with f X in units of the speed."""

    def measure(self, state: Array) -> Density:
        """The density of a real vector."""
        coefficients = self._coefficients(state)
        return Density.from_coefficients(self.space, coefficients, **self._limits)

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

    def noisy_speed(self, state: Array) -> float:
        """(∫ |X - τ ∇ log f|² dmu)^{1/2}, the speed with the noise's flux; where f > 0."""
        coefficients, noise = self._coefficients(state), self._noise
        self._evaluate(coefficients)
        noise.evaluate(self.space.embed(coefficients, self._grid))
        # X may be too large to be squared
        scale = 1.0 / float(np.sqrt(self.speed_unit))
        total = scale * self.speed_unit * self._transforms.flux + scale * noise.gradient
        # f ∇ log f is small, and not known, where f is rounding
        counted = noise.values > _EMPTY * noise.values.max()
        squares = np.einsum("ij,ij->j", total, total)[counted] / noise.values[counted]
        return float(np.sqrt(self._grid.weights[counted] @ squares)) / scale

    @cached_property
    def _noise(self) -> Transforms:
        """f, and -τ ∇f as its gradient."""
        return self._grid.transforms(np.full(self._grid.kmax + 1, -self.dynamics.noise))


class DensityTendency(SpectralTendency):
    """dc/dt = ∫ f X · ∇Y dσ for the coefficients c of f, the weak form of (3.4) and (3.8).

    X = ± ∇u, or ± ∇u/G where it is normalised, u of coefficients S_k f_k: with a kernel s and its
    primitive S, G has s_k f_k; for SA and USA S_k = Λ_k/β, s_k = Λ_k. Mass is exact, since the test
    function 1 has no gradient.

    Numerator and denominator of X are in the unit of the kernel's series: Λ_0 of exponentials, the
    size of G itself. Where there is no denominator the numerator is X, up to β = 200.

    Parameters
    ----------
    density : Density
        Any density on the space.
    dynamics : Dynamics
        With a kernel; DoublyStochastic moves by a `GridTendency`.
    """

    def __init__(self, density: Density, dynamics: Dynamics) -> None:
        super().__init__(density, dynamics)
        self._grid, kernel = self.space, dynamics.pair_kernel
        potential, primitive, size, log_unit = kernel.series(density.dim, self.space.kmax)
        self._normalised = dynamics.normalised and is_divided(potential)
        self._can_be_small = self._normalised and kernel.least_share < LOST.below
        self._log_size = log_unit + float(np.log(size))
        slope = dynamics.sign * primitive
        # ∫ f X · numerator dσ has this factor, since the numerator is ± the energy's gradient
        self._energy_factor = float(dynamics.sign * size)
        if not self._normalised:
            lead = float(size * np.exp(log_unit))
            if log_unit <= _LARGEST_BETA:
                slope = slope * lead
                self._energy_factor /= lead
            else:
                self.speed_unit = lead
                self._energy_factor *= lead
        self._transforms = self.space.transforms(slope, potential if self._normalised else None)

    def __call__(self, state: Array, out: Array) -> None:
        """Write d/dt of `state` into `out`."""
        self._evaluate(self._coefficients(state))
        self._transforms.weak_divergence(self._coefficients(out))
        if self.speed_unit != 1.0:
            out *= self.speed_unit

    def _evaluate(self, coefficients: NDArray[Any]) -> None:
        """Fill the transforms, and their flux with f X in units of the speed."""
        transforms, potential = self._transforms, self._transforms.potential
        transforms.evaluate(coefficients)
        if not self._normalised:
            np.multiply(transforms.gradient, transforms.values, out=transforms.flux)
            return
        if lost := self._is_lost():
            small, shares = self._sum_small(coefficients)
        np.divide(transforms.values, potential, out=potential)
        np.multiply(transforms.gradient, potential, out=transforms.flux)
        if lost:
            transforms.gradient[:, small] *= shares

    def _is_lost(self) -> bool:
        potential = self._transforms.potential
        return bool(self._can_be_small and potential.min() < LOST.below * potential.max())

    def rates(self, coefficients: NDArray[Any]) -> Rates:
        """X and ∇ δE/δmu along the tangents of the grid, for a field beside others."""
        self._transforms.evaluate(coefficients)
        pull, unit = self._transforms.gradient, self._energy_factor / self.speed_unit
        if not self._normalised:
            return Rates(self.speed_unit * pull, energy_gradients=(unit * pull,))
        if lost := self._is_lost():
            small, shares = self._sum_small(coefficients)
        velocity = pull / self._transforms.potential
        if lost:
            pull[:, small] *= shares
        return Rates(velocity, energy_gradients=(unit * pull,))

    def energy_rates(self) -> float:
        """e^{-u} dE/dt = e^{-u} ∫ <∇ δE/δmu, X> dmu at the last state, (3.6)."""
        return self._energy_factor * self._transforms.integral(self._transforms.gradient)

    def speed(self) -> float:
        """(∫ |X|² dmu)^{1/2} at the last state."""
        transforms = self._transforms
        if not self._normalised:
            squares = transforms.integral(transforms.gradient)
            return self.speed_unit * float(np.sqrt(max(squares, 0.0)))
        flux, values = transforms.flux, transforms.values
        squares = np.einsum("ij,ij->j", flux, flux)
        counted = values != 0.0
        np.divide(squares, values, out=squares, where=counted)
        return float(np.sqrt(max(self.space.weights[counted] @ squares[counted], 0.0)))

    def _sum_small(self, coefficients: NDArray[Any]) -> tuple[Indices, Array]:
        """Sum positive terms where the series of G has no digits left: there, and G in its unit."""
        transforms = self._transforms
        small = LOST.places(transforms.potential, float(transforms.potential.max()))
        density = Density.from_coefficients(self.space, coefficients)
        points = self.space.points[small]
        log_unit, potential, pull = self.dynamics.pair_kernel.attention(density, points)
        mean = np.einsum("aid,id->ai", self.space.tangent_frame(small), pull) / potential
        transforms.gradient[:, small] = self.dynamics.sign * mean
        transforms.potential[small] = 1.0
        with np.errstate(under="ignore"):
            return small, potential * np.exp(log_unit - self._log_size)


# below this share of its maximum a density is rounding, which may be negative
_LEAST_VALUE = 1e-16


class GridField(ABC):
    """X on the grid of a space.

    Attributes
    ----------
    grid : Circle, Sphere or Zonal
        That of the density's space, or a finer one.
    """

    grid: Space

    @abstractmethod
    def __call__(self, coefficients: Coefficients, values: Array) -> Rates:
        """Components of X and ∇ δE/δmu along the tangents of the grid, shape (c, N).

        Parameters
        ----------
        coefficients : ndarray
            The density's, on the grid.
        values : ndarray, shape (N,)
            f on the grid.
        """

    def doubt(self, values: Array) -> float:  # noqa: ARG002 (of heads alone)
        """The share by which f X changes for each share of its maximum that f changes by.

        Of the last state, with f (N,) >= 0.
        """
        return 0.0

    def forget(self) -> None:  # noqa: B027 (of what begins with its last result)
        """Begin anew, as a run does at each save."""


class BalancedOnGrid(GridField):
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


class Frame:
    """r coordinates in which the grid of a space lies: all d of them, or those of a meridian.

    On a `Zonal` space they are along the axis, across it and, for d = 3, east of the meridian.

    Parameters
    ----------
    space : Circle, Sphere or Zonal

    Attributes
    ----------
    basis : ndarray, shape (d, r)
        Unit vectors along the coordinates.
    points : ndarray, shape (N, r)
        The grid.
    tangents : ndarray, shape (c, N, r)
        Unit tangent vectors; the first ones are those along which a flux of the space has
        components.
    latitudes : Zonal or None
        The space, if it is one.

    Examples
    --------
    >>> frame = Frame(Zonal(5, 8))
    >>> frame.basis.shape, frame.points.shape, frame.tangents.shape
    ((5, 2), (14, 2), (1, 14, 2))
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self.latitudes: Zonal | None = None
        if isinstance(space, Zonal):
            across = perpendicular(space.axis)
            along = [space.axis, across]
            if space.dim == 3:
                along.append(np.cross(space.axis, across))
            self.latitudes, self.basis = space, np.stack(along, axis=1)
            self.points = np.zeros((len(space.nodes), self.basis.shape[1]))
            self.points[:, 0], self.points[:, 1] = space.nodes, space.sines
            self.tangents = np.zeros((self.basis.shape[1] - 1, *self.points.shape))
            self.tangents[0, :, 0], self.tangents[0, :, 1] = space.sines, -space.nodes
            self.tangents[1:, :, 2:] = 1.0
        else:
            self.basis, self.points = np.eye(space.dim), space.points
            self.tangents = space.tangent_frame(np.arange(len(space.weights)))

    def matrix(self, name: str, matrix: Any) -> Array:
        """A matrix, or a number for a multiple of the identity, in these coordinates.

        Raises
        ------
        ValueError
            If a matrix does not commute with rotations about the axis of a `Zonal` space.
        """
        if np.ndim(matrix) == 0:
            return score_matrix(matrix, self.basis.shape[1])
        space = self._space
        if space.axis is not None and (gap := asymmetry(matrix, space.axis)):
            others = "a Sphere or Particles" if space.dim == 3 else "Particles"
            raise ValueError(
                f"{name} must commute with rotations about the axis of {space}, got a matrix that "
                f"differs from all that do by {gap:.2g}: take {others}"
            )
        return np.asarray(self.basis.T @ matrix @ self.basis)


class SeriesScores:
    """G(Mx) and ∫ y e^{<Mx,y>} dmu on the grid of a `Circle` or a `Sphere`, through harmonics.

    Parameters
    ----------
    space : Circle or Sphere
    matrix : ndarray, shape (d, d)

    Attributes
    ----------
    log_unit : float
        What is returned is in units of e^{log_unit}.

    Examples
    --------
    >>> from meanfield.spaces import Circle, Sphere
    >>> scores = SeriesScores(Circle(8), np.eye(2))
    >>> fields, _ = scores(np.eye(1, 4, dtype=complex)[0])  # uniform: G = I_0(1)
    >>> bool(abs(fields[0, 0] * np.e - 1.2660658777520084) < 1e-14)
    True
    >>> fields, _ = SeriesScores(Sphere(3), np.eye(3))(np.eye(1, 10, dtype=complex)[0])
    >>> bool(abs(fields[0, 0] * np.e - np.sinh(1.0)) < 1e-14)
    True
    """

    def __init__(self, space: Any, matrix: Array) -> None:
        self._space, self._bilinear = space, _BILINEAR[space.dim](matrix)
        self.log_unit = self._bilinear.log_unit
        # the circle's may end beyond the degree that its grid resolves
        self._fields = SphereFields(space, self._bilinear.degree) if space.dim == 3 else None

    def __call__(self, coefficients: Coefficients) -> tuple[Array, float]:
        """Fields, shape (1 + d, N), and what the errors of G are relative to."""
        moments = self._space.embed(coefficients, self._bilinear.sources)
        series = self._bilinear.coefficients(moments)
        if self._fields is None:
            fields = _on_circle(series, len(self._space.angles))
        else:
            fields = np.stack([self._fields.values(row) for row in series])
        return fields, max(float(fields[0].max()), self._bilinear.scale(moments))


def _on_circle(series: Coefficients, count: int) -> Array:
    """Series (m, degree + 1) at so many equispaced angles, fewer than resolve them maybe."""
    folded = np.zeros((len(series), count), dtype=np.complex128)
    series = np.where(np.arange(series.shape[1]) > 0, 2.0, 1.0) * count * series
    # degrees that the grid does not tell from lower ones are added to these
    for start in range(0, series.shape[1], count):
        part = series[:, start : start + count]
        folded[:, : part.shape[1]] += part
    return np.asarray(np.fft.ifft(folded).real)


_BILINEAR: dict[int, type[CircleBilinear] | type[SphereBilinear]] = {
    2: CircleBilinear,
    3: SphereBilinear,
}


class ZonalScores:
    """G(Mx) and ∫ y e^{<Mx,y>} dmu on the meridian of a `Zonal` space.

    M commutes with rotations about the axis, so |Mx| and its part along the axis depend on the
    latitude of x only. The integral over each latitude of y is a Gauss sum, that over latitudes one
    on a grid that is exact for f e^{<Mx,y>}: a matrix of positive terms.

    Parameters
    ----------
    space : Zonal
    frame : Frame
        Of the space.
    matrix : ndarray, shape (r, r)
        M in the coordinates of the frame.

    Attributes
    ----------
    log_unit : ndarray, shape (N,)
        What is returned is in units of e^{log_unit}: |Mx|.

    Raises
    ------
    ValueError
        If no grid of the space is fine enough.
    """

    def __init__(self, space: Zonal, frame: Frame, matrix: Array) -> None:
        z = frame.points @ matrix.T
        self.log_unit = np.linalg.norm(z, axis=1)
        along, radius = z[:, 0], np.linalg.norm(z[:, 1:], axis=1)
        self._across = (z[:, 1:] / np.where(radius > 0.0, radius, 1.0)[:, None]).T
        grid = _exact_grid(space, float(self.log_unit.max()))
        polynomials = gegenbauer(space.dim, space.kmax, grid.nodes)
        polynomials *= np.sqrt(multiplicities(space.dim, space.kmax))[:, None]
        self._at_sources = np.ascontiguousarray(polynomials.T)
        potential, across = np.zeros((2, len(z), len(grid.nodes)))
        for u, share in zip(*latitude_rule(space.dim, float(radius.max())), strict=True):
            exponents = np.outer(along, grid.nodes) + np.outer(radius, u * grid.sines)
            with np.errstate(under="ignore"):
                terms = share * np.exp(exponents - self.log_unit[:, None])
            potential += terms
            across += u * terms
        potential *= grid.weights
        across *= grid.weights * grid.sines
        self._sums = np.stack([potential, potential * grid.nodes, across])
        # rounding is judged against the density 1
        self._masses = potential.sum(axis=1)

    def __call__(self, coefficients: Coefficients) -> tuple[Array, Array]:
        """Fields, shape (1 + r, N), and what the errors of each G are relative to."""
        values = self._at_sources @ coefficients
        potential, along, across = self._sums @ values
        scale = float(np.abs(values).max()) * self._masses
        return np.vstack([potential, along, across * self._across]), scale


def _exact_grid(space: Zonal, length: float) -> Zonal:
    size = space.exact_size(space.kmax + bandwidth(length, space.dim))
    try:
        return space.resize(size)
    except ValueError as error:
        raise ValueError(
            f"beta |KᵀQ| must be smaller on {space}, got {length:.6g}, which takes size {size}: "
            f"{error}"
        ) from error


# rounding of a density may make this share of a field
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
    dynamics : DoublyStochastic, Attention or FeedForward
    tables : dict, optional
        Of heads that other right-hand sides on the space have made, which these are added to.

    Attributes
    ----------
    field : BalancedOnGrid, HeadsOnGrid or OutputOnGrid

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
        self.field = grid_field(density.space, dynamics, tables)
        self._grid = self.field.grid
        # the transforms give values and the divergence only
        self._transforms = self._grid.transforms(np.zeros(self._grid.kmax + 1))
        self._rates = Rates(np.zeros((1, len(self._grid.weights))))

    def __call__(self, state: Array, out: Array) -> None:
        """Write d/dt of `state` into `out`."""
        self._evaluate(self._coefficients(state))
        if self._grid is self.space:
            self._transforms.weak_divergence(self._coefficients(out))
            return
        rate = np.empty(self._grid.n_coefficients, dtype=self.space.coefficient_type)
        self._transforms.weak_divergence(rate)
        self._coefficients(out)[:] = self._grid.embed(rate, self.space)

    def _evaluate(self, coefficients: NDArray[Any]) -> None:
        """Fill the transforms with f, and their flux with f X."""
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
        # τ is in the gradient of the noise
        heat = self._noise.gradient
        weights = self._grid.weights
        gradients = self._rates.energy_gradients
        return np.array([weights @ (g[: len(heat)] * heat).sum(axis=0) for g in gradients])

    def _check_digits(self) -> None:
        """Refuse a field that rounding of f makes where f is.

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
        """dE/dt in units of e^β (or Λ_0), at the last state."""
        return self._rates.energy_rates(self._grid.weights * self._transforms.values, axis=0)

    def speed(self) -> float:
        """(∫ |X|² dmu)^{1/2} at the last state."""
        # without softmax it may be too large to be squared
        velocity = self._rates.velocity
        unit = float(np.abs(velocity).max()) or 1.0
        shares = velocity / unit
        squares = np.einsum("cj,cj->j", shares, shares) * self._transforms.values
        return unit * float(np.sqrt(max(float(self._grid.weights @ squares), 0.0)))


# a slower field may be rounding of what is 0, as at a stationary measure
_SLOWEST = 1e-6


def unseen_share(density: Density, dynamics: Dynamics) -> float:
    """How much of df/dt by outputs a grid twice as fine sees and this one does not, as a share.

    In the norm of H^{-1}, that of f X. It is 0 where X is a series, and where no finer grid is.
    """
    # a drift whose energy is followed must be seen as one that acts
    drifts = [
        (weight or 1.0, term) for weight, term in dynamics.weighted_terms if term.known_by_output
    ]
    # kinks are narrower than any grid
    smooth = [(weight, term) for weight, term in drifts if term.is_smooth]
    if not smooth:
        return 0.0
    try:
        finer = density.embed(density.space.double())
    except ValueError:
        return 0.0
    weights, terms = zip(*smooth, strict=True)
    here, whole = (GridTendency(f, Sum(terms, weights=weights)) for f in (density, finer))
    rates = []
    for equation in (here, whole):
        rates.append(np.empty_like(equation.initial_state))
        equation(equation.initial_state, rates[-1])
    fine = whole._coefficients(rates[1])
    apart = fine - here.space.embed(here._coefficients(rates[0]), whole.space)
    degrees = np.maximum(np.unique(whole.space.degrees), 1.0)
    missed, size = (
        float(np.sqrt(whole.space.power(part) @ degrees**-2.0)) for part in (apart, fine)
    )
    return missed / max(size, _SLOWEST)


def check_on_space(space: Space, dynamics: Dynamics) -> None:
    """Refuse what can't move a density on the space, before anything large is computed.

    Raises
    ------
    ValueError
        As `GridTendency`.
    """
    if dynamics.score_matrices:
        frame = Frame(space)
        for name, scores, values in _matrices(dynamics):
            frame.matrix(f"V of {name}", values)
            matrix = frame.matrix(f"KᵀQ of {name}", scores)
            if frame.latitudes is None:
                _BILINEAR[space.dim].checked_score(matrix)
            else:
                longest = float(np.linalg.norm(frame.points @ matrix.T, axis=1).max())
                _exact_grid(frame.latitudes, longest)
    elif space.axis is not None and not all(lie_along(v, space.axis) for v in dynamics.axis_rows):
        raise ValueError(
            f"dynamics must commute with rotations about the axis of {space}, got "
            f"{shown(dynamics)}: take a Sphere, a Circle or Particles"
        )


def _matrices(dynamics: Dynamics) -> Iterator[tuple[str, Any, Any]]:
    """Name, β KᵀQ and V of each head."""
    for i, (scores, value) in enumerate(
        zip(dynamics.score_matrices, dynamics.value_matrices, strict=True)
    ):
        yield f"heads[{i}]", scores, value


# by the bytes of a matrix on one grid: the sums of a head, and G of the uniform measure
ScoreTables = dict[bytes, tuple[SeriesScores | ZonalScores, Array]]


class HeadsOnGrid(GridField):
    """X of attention on the grid of a density's space, as a function of coefficients.

    Parameters
    ----------
    space : Circle, Sphere or Zonal
    dynamics : Attention

    Raises
    ------
    ValueError
        If a matrix is none for the space.
    """

    def __init__(self, space: Space, dynamics: Dynamics, tables: ScoreTables | None = None) -> None:
        self.grid, self._normalise = space, dynamics.normalised
        self._frame = frame = Frame(self.grid)
        self._heads: list[tuple[Array, SeriesScores | ZonalScores, Array]] = []
        kernel: SeriesScores | ZonalScores
        # G of the uniform measure, and of the last one, on the grid, head by head
        self._uniform: list[Array] = []
        self._potentials: list[Array] = []
        # the gradient of an energy, which one head alone has, over X or X times G
        self._energy = dynamics.energy_functional
        log_unit = self._energy.log_unit if self._energy else 0.0
        self._log_unit = eigenvalues_in_unit(log_unit, self.grid.dim, 0)[1]
        unit_series = Density(self.grid, np.ones(len(self.grid.weights))).coefficients
        for name, scores, values in _matrices(dynamics):
            matrix = frame.matrix(f"KᵀQ of {name}", scores)
            # V takes a vector to these components along each tangent
            along = frame.tangents @ frame.matrix(f"V of {name}", values)
            known = tables.get(matrix.tobytes()) if tables is not None else None
            if known is None:
                if frame.latitudes is None:
                    kernel = SeriesScores(self.grid, matrix)
                else:
                    kernel = ZonalScores(frame.latitudes, frame, matrix)
                known = kernel, np.array(kernel(unit_series)[0][0])
            if tables is not None:
                tables[matrix.tobytes()] = known
            self._heads.append((matrix, known[0], along))
            self._uniform.append(known[1])

    def __call__(self, coefficients: Coefficients, values: Array) -> Rates:  # noqa: ARG002 (of masses)
        """X and ∇ δE/δmu along the tangents of the frame."""
        velocity = np.zeros(self._frame.tangents.shape[:2])
        log_g: Array = np.zeros(velocity.shape[1])
        self._potentials = []
        for matrix, scores, along in self._heads:
            (potential, *parts), scale = scores(coefficients)
            self._potentials.append(np.array(potential))
            mean = np.array(parts)
            if not self._normalise:
                mean *= np.exp(scores.log_unit)
            else:
                lost = LOST.settle(potential, scale, "sum", "scale")
                mean /= potential
                log_g = np.log(potential) + scores.log_unit
                if len(lost):
                    log_g[lost], mean[:, lost] = self._summed(coefficients, matrix, lost)
                    with np.errstate(under="ignore"):
                        self._potentials[-1][lost] = np.exp((log_g - scores.log_unit)[lost])
            velocity += np.einsum("cjr,rj->cj", along, mean)
        if self._energy is None:
            return Rates(velocity)
        # ± X, or with softmax ± G X
        weights = self._energy.sign * np.exp(log_g - self._log_unit)
        return Rates(velocity, energy_gradients=(velocity * weights,))

    def doubt(self, values: Array) -> float:
        """See `GridField`; such a change looks to heads like a uniform measure."""
        largest, worst = float(values.max()), 0.0
        for uniform, potential in zip(self._uniform, self._potentials, strict=True):
            if self._normalise:
                # X has the size of V, and f X is compared with max f
                counted = values > 0.0
                divisors = potential[counted]
                if not divisors.all():
                    # G has underflowed where there is mass
                    return np.inf
                ratios = values[counted] * uniform[counted] / divisors
                worst = max(worst, float(ratios.max(initial=0.0)))
            else:
                most = float((values * potential).max())
                worst = max(worst, largest * float((values * uniform).max()) / most)
        return worst

    def _summed(
        self, coefficients: Coefficients, matrix: Array, lost: Indices
    ) -> tuple[Array, Array]:
        """log G(Mx) (count,) and its gradient (r, count), by sums of positive terms."""
        density, basis = Density.from_coefficients(self.grid, coefficients), self._frame.basis
        z = self._frame.points[lost] @ matrix.T @ basis.T
        log_g, mean = density.log_moment(z)
        return log_g, np.asarray((mean @ basis).T)


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
        self._log_unit = series.log_unit + float(np.log(series.size))

    def __call__(self, coefficients: Coefficients) -> tuple[Array, Array, Array, Indices]:
        """log G (N,), ∇ log G along x (N,) and the tangents (c, N), and where G is lost."""
        transforms, grid = self._transforms, self._grid
        transforms.evaluate(coefficients)
        potential = transforms.potential.copy()
        lost = LOST.settle(potential, float(potential.max()), "sum", "maximum")
        along = grid.synthesis(self._along * coefficients) / potential
        return np.log(potential) + self._log_unit, along, transforms.gradient / potential, lost


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
        log_g, along, across, lost = self._scaled(beta)(self.coefficients)
        mean = along[:, None] * points + np.einsum("cij,ci->ij", tangents, across)
        if len(lost):
            log_g[lost], mean[lost] = super().log_moment_at(z[lost])
        return log_g, mean

    def _tangents_at(self, points: Array) -> Array | None:
        """The tangents (c, N, d) at the points of the grid, on any meridian; None at others."""
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


# by which rounding may move a point
_SAME_POINT = 4e-15


class OutputOnGrid(GridField):
    """X on the grid of a density's space, of what is known by its output.

    Of a feed-forward layer it is the same for any density.
    """

    def __init__(self, space: Space, dynamics: Dynamics) -> None:
        check_on_space(space, dynamics)
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


class KernelOnGrid(GridField):
    """X of a dynamics with a kernel on the grid of a space, beside other terms.

    A kernel alone moves a density by a `DensityTendency`.

    Parameters
    ----------
    space : Circle, Sphere or Zonal
    dynamics : Dynamics
    """

    def __init__(self, space: Space, dynamics: Dynamics) -> None:
        self.grid = space
        self._sums = DensityTendency(Density(space, np.ones(len(space.weights))), dynamics)

    def __call__(self, coefficients: Coefficients, values: Array) -> Rates:  # noqa: ARG002 (of others)
        """X and ∇ δE/δmu."""
        return self._sums.rates(coefficients)


class SumOnGrid(GridField):
    """The weighted fields of several terms, on the finest grid that one of them asks for.

    Parameters
    ----------
    space : Circle, Sphere or Zonal
    dynamics : Dynamics
        With terms.
    """

    def __init__(self, space: Space, dynamics: Dynamics, tables: ScoreTables | None = None) -> None:
        grids = (_grid_of(space, weight, term) for weight, term in dynamics.weighted_terms)
        self.grid = max(grids, key=lambda grid: grid.size)
        self._parts = [
            (w, _field_on(self.grid, term, tables)) for w, term in dynamics.weighted_terms
        ]

    def __call__(self, coefficients: Coefficients, values: Array) -> Rates:
        """X and the gradients of the energies of all terms."""
        return added((weight, field(coefficients, values)) for weight, field in self._parts)

    def doubt(self, values: Array) -> float:
        """See `GridField`."""
        return sum(weight * field.doubt(values) for weight, field in self._parts if weight)

    def forget(self) -> None:
        """Begin the next scalings from 1."""
        for _, field in self._parts:
            field.forget()


def _grid_of(space: Space, weight: float, term: Dynamics) -> Space:
    """The space, or a finer one that the field of a term takes, or the energy of a form."""
    is_wide = term.is_balanced or (weight == 0.0 and not term.is_isotropic)
    return working_grid(space, term.reach) if is_wide else space


def _field_on(grid: Space, term: Dynamics, tables: ScoreTables | None) -> GridField:
    """The field of one term on a grid that is fine enough for it."""
    if term.is_balanced:
        return BalancedOnGrid(grid, term)
    if term.score_matrices and not term.is_isotropic:
        return HeadsOnGrid(grid, term, tables)
    return KernelOnGrid(grid, term) if term.is_isotropic else OutputOnGrid(grid, term)


def grid_field(space: Space, dynamics: Dynamics, tables: ScoreTables | None = None) -> GridField:
    """The field of a dynamics on a grid: that of its term, or the sum of several."""
    ((weight, term), *others) = dynamics.weighted_terms
    if others or weight != 1.0:
        return SumOnGrid(space, dynamics, tables)
    return _field_on(_grid_of(space, weight, term), term, tables)


Complex = NDArray[np.complex128]


class OscillatorDensityTendency(Steady):
    """d/dt of the coefficients of f(θ|ω_j), each in the frame that turns with ω_j.

    y_jk = e^{ikω_j s} c_jk, s the time since the frames were at rest, obeys

        dy_jk/dt = e^{ikω_j s} N_jk - (|k| γ_j + τk²) y_jk,

    N the weak form of -∂_θ (f(θ|ω_j) X). X is a short series, so that each product with it is a
    sum over its terms, without aliasing.

    Parameters
    ----------
    density : OscillatorDensity
    dynamics : CircleInteraction

    Attributes
    ----------
    initial_state : ndarray
        The coefficients as a real vector.
    elapsed : float
        s.
    """

    def __init__(self, density: OscillatorDensity, dynamics: Dynamics) -> None:
        self.density, self.dynamics, self.space = density, dynamics, density.space
        self.initial_state: Array = density.parts.flatten().view(np.float64)
        self.elapsed = 0.0
        degrees = np.arange(self.space.kmax + 1)
        self._decay = np.multiply.outer(density.widths, degrees) + dynamics.noise * degrees**2.0
        self._rates = 1j * np.multiply.outer(density.frequencies, degrees)
        self._reach = min(int(dynamics.reach), self.space.kmax)
        self._multipliers = np.asarray(dynamics.multipliers)[: self._reach + 1]
        self._divergence = -1j * degrees
        # c_k for k = -reach … kmax + reach, those beyond kmax 0
        self._wide = np.zeros((len(density.parts), len(degrees) + 2 * self._reach), np.complex128)

    def _parts(self, state: Array) -> Complex:
        return state.view(np.complex128).reshape(self._decay.shape)

    def at_rest(self, state: Array) -> Array:
        """The state in frames that are at rest, those of the coefficients."""
        turned = self._parts(state) * np.exp(-self.elapsed * self._rates)
        return np.asarray(turned.ravel().view(np.float64))

    def measure(self, state: Array) -> OscillatorDensity:
        """The density of a real vector."""
        start, parts = self.density, self._parts(self.at_rest(state))
        nodes = start.frequencies, start.frequency_weights, start.widths
        return OscillatorDensity.from_parts(self.space, parts, *nodes, **start.run_limits)

    def tail(self, state: Array) -> float:
        """The largest spectral tail of the parts of a real vector."""
        return max(spectral_tail(self.space.power(part)) for part in self._parts(state))

    def scale(self, state: Array) -> Array:
        """‖f_{<=k}(·|ω_j)‖ / sqrt(n), n entries of one j, what a tolerance is relative to."""
        parts = self._parts(state)
        norms = np.sqrt(np.cumsum(self.space.power(parts), axis=1) / (2 * parts.shape[1]))
        return np.asarray(np.repeat(norms, 2))

    def __call__(self, state: Array, out: Array) -> None:
        """Write d/dt of `state` into `out`."""
        turn, turned = np.exp(self.elapsed * self._rates), self._parts(state)
        parts, reach, wide = turned * np.conj(turn), self._reach, self._wide
        count = len(self._divergence)
        field = self._multipliers * (self.density.frequency_weights @ parts[:, : reach + 1])
        wide[:, :reach] = np.conj(parts[:, reach:0:-1])
        wide[:, reach : reach + count] = parts
        total = self._parts(out)
        total[:] = 0.0
        for k in range(1, reach + 1):
            total += field[k] * wide[:, reach - k : reach - k + count]
            total += np.conj(field[k]) * wide[:, reach + k : reach + k + count]
        total *= self._divergence
        total *= turn
        total -= self._decay * turned
