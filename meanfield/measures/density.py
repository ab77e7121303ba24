"""A density with respect to σ, stored by its spectral coefficients on a space."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, ClassVar, TypedDict

import numpy as np
from scipy.special import xlogy

from meanfield import _checks
from meanfield.kernels.multipliers import bandwidth
from meanfield.kernels.sinkhorn import Balanced, grid_sums, working_grid
from meanfield.laws.law import Law, Uniform, checked_pdf, drawn
from meanfield.laws.quantisation import quantised_points
from meanfield.laws.series import Pieces, fourier_rows
from meanfield.measures.measure import Measure, turned
from meanfield.spaces import Circle, Harmonics, Space, Zonal, panels
from meanfield.spaces.circle import MOST_MODES
from meanfield.spaces.geometry import difference_of_meridians, latitude_density, line_points
from meanfield.typing import Array, ArrayLike, Coefficients, NDArray, Rng

# a degree with at least this share of the power is present: 1e-8 of the L² norm
_PRESENT = 1e-16


def spectral_tail(power: Array) -> float:
    """sqrt(Σ_{last tenth} power / Σ power), over at least the last four degrees.

    Where all that there is are multiples of one degree, over at least that many, so that one of
    them is among the last.

    Examples
    --------
    >>> spectral_tail(np.array([1.0] + [0.0] * 38 + [1e-20]))
    1e-10
    """
    total = power.sum()
    least = _PRESENT * total
    # if degree 1 is present, the degrees are multiples of nothing but 1
    step = 1 if power[1] > least else int(np.gcd.reduce(np.nonzero(power > least)[0]))
    n_last = max(4, len(power) // 10, step)
    return float(np.sqrt(power[-n_last:].sum() / total))


FIT_TOLERANCE = 1e-8
# a series may miss this share of a law, since a run begins on a space that resolves the law
_COARSEST_FIT = 1e-2
SIGN_TOLERANCE = 1e-12
# coefficients below this are 0 to rounding
_SAME = 1e-14


def checked_space(space: object) -> Space:
    """Return `space` when it is one.

    Raises
    ------
    ValueError
        Naming what it is.
    """
    if not isinstance(space, Space):
        raise ValueError(
            f"space must be a Circle, Sphere or Zonal, got {_checks.shown(space)}: take "
            f"Density(space, law)"
        )
    if not _checks.is_of_package(space):
        raise ValueError(
            f"space must be a Circle, Sphere or Zonal, not of a class made from one, got "
            f"{_checks.shown_class(space)}"
        )
    return space


def law_values(space: Space, law: Law) -> Array:
    """The pdf of a law on the grid.

    Raises
    ------
    ValueError
        If dimensions differ, or the law is not axisymmetric about the axis of a `Zonal` space.
    """
    if law.dim != space.dim:
        raise ValueError(f"law must have dim = {space.dim} on {space}, got {_checks.shown(law)}")
    values = checked_pdf(law, space.points)
    if isinstance(space, Zonal):
        gap = difference_of_meridians(law.pdf, space.axis, space.nodes, space.sines, values)
        if gap:
            raise ValueError(
                f"law must be axisymmetric about the axis of {space}, but {_checks.shown(law)} "
                f"differs by {gap:.2g} between two meridians: take Zonal(dim, kmax, axis) if it "
                f"has another axis, Sphere for d = 3, Circle for d = 2, or Particles"
            )
    return values


def _checked_values(space: Space, values: ArrayLike) -> Array:
    """Return values of a density on the grid, checked.

    Raises
    ------
    ValueError
        If they are no finite numbers >= 0, one for each point.
    """
    array = _checks.real_array("values", values, 1)
    count = len(space.weights)
    if array.shape != (count,):
        raise ValueError(
            f"values must have shape ({count},), one for each row of space.points on {space}, "
            f"got {array.shape}"
        )
    lowest, tolerance = float(array.min()), max(SIGN_TOLERANCE, _checks.rounding(values, count))
    if lowest < -tolerance * float(np.abs(array).max()):
        raise ValueError(f"values must be >= 0, got {lowest:.6g} at index {int(array.argmin())}")
    return array


def _checked_mass(space: Space, mass: float, law: Law | None, unit_mass: bool, off: float) -> float:
    """Return the mass that divides the density; refuse one that is not 1, within what `off` allows.

    Raises
    ------
    ValueError
        If it is not 1; of values that are divided by it, if it is not > 0.
    """
    tolerance = max(_checks.MASS_TOLERANCE, off)
    if abs(mass - 1.0) <= tolerance or (unit_mass and law is None and mass > 0.0):
        return mass
    # the remedy for values is another one: a larger space would not take so few of them
    remedy = _checks.UNIT_MASS if law is None else "take a larger space"
    allowed = f"mass 1 within {tolerance:.2g} on {space}"
    raise ValueError(f"the density must have {allowed}, got mass {mass:.9g}: {remedy}")


def _checked_fit(
    space: Space, coefficients: Coefficients, values: Array, law: Law | None, off: float
) -> float:
    """The relative error in L² of a series, on its grid and against the law between its points.

    Raises
    ------
    ValueError
        If that is more than 1e-8 of values and than they are off by, or than 1e-2 of a law.
    """
    misfit = _misfit(space, coefficients, values, law)
    if misfit <= (max(FIT_TOLERANCE, off) if law is None else _COARSEST_FIT):
        return misfit
    if law is None:
        raise ValueError(
            f"values must be resolved by {space}, but its series misses {misfit:.2g} of "
            f"their L² norm: smooth them, or take values at more points, those of a larger space"
        )
    raise ValueError(
        f"law must be one that {space} resolves, but its series misses {misfit:.2g} of the "
        f"L² norm of {_checks.shown(law)}: take {_larger(space, law)}"
    )


def _misfit(space: Space, coefficients: Coefficients, values: Array, law: Law | None) -> float:
    square = space.weights @ (space.synthesis(coefficients) - values) ** 2
    if law is not None:
        points, weights, series = space.between_nodes(coefficients)
        square = max(square, weights @ (series - law.pdf(points)) ** 2)
    return float(np.sqrt(square / space.power(coefficients).sum()))


def _larger(space: Space, law: Law) -> str:
    """Name the space that resolves a law."""
    # a space too large for double precision can't be made
    with suppress(ValueError):
        finer: Space = space.double()
        while finer.size <= finer.size_limit:
            values = law_values(finer, law)
            if _misfit(finer, finer.analysis(values), values, law) <= FIT_TOLERANCE:
                return repr(finer)
            finer = finer.double()
    return f"a FlowMap, since no size up to {space.size_limit} resolves it"


_TURN = 2.0 * np.pi
# up to this many terms are summed one by one on S^2 if a series has lost digits
_MOST_PAIRS = 1 << 24


def _latitudes(axis: Array, width: float) -> tuple[Array, Array]:
    """Return points on a meridian and their weights of σ, on panels of at most this width."""
    steps = np.linspace(0.0, np.pi, int(np.ceil(np.pi / width)) + 1)
    edges = np.stack([steps[:-1], steps[1:]], axis=1)
    polar = panels.nodes(edges).ravel()
    weights = panels.weights(edges).ravel() * latitude_density(polar, len(axis))
    return line_points(polar, axis), weights / weights.sum()


class DensityLimits(TypedDict, total=False):
    """The limits of a run that moves a density."""

    tail_tol: float
    max_size: int | None


class Density(Measure):
    """The measure f dσ with ∫ f dσ = 1.

    Parameters
    ----------
    space : Circle, Sphere or Zonal
    law_or_values : Law, array_like, shape (N,), or callable
        A law, whose pdf is taken at ``space.points``; the values of f there; or a function that
        gives them, (N,), from points (N, d), and is called once with all of them. Values must be
        >= 0, have mass 1 within 1e-8 (made exact), and be met by their series to 1e-8 of their L²
        norm; in less than double precision each may be off by its rounding. A law's series may
        miss 1e-2 of it: a run then starts on a larger space.
    tail_tol : float
        A run refines the density where its spectral tail exceeds this: the step is taken back and
        the space doubled. 1e-15 to 1e-2; values below about 1e-14 are lost in rounding.
    max_size : int, optional
        Largest size (n, lmax or kmax) of the space in a run; if omitted 16384 on the circle, 511 on
        S^2, 1023 for zonal densities. `evolve`'s `on_unresolved` says how a run goes on beyond it:
        where that is a flow map, a density on the circle or about an axis grows 8-fold at most if
        this is omitted, for from there on nodes are faster.
    unit_mass : bool
        Whether values, also those of a function, are divided by their mass. A law has mass 1.

    Attributes
    ----------
    space : Circle, Sphere or Zonal
    axis : ndarray, shape (d,), or None
        The axis of the space; None except for `Zonal`.
    coefficients : ndarray
        In the layout of the space; the first one is the mass.
    law : Law or None
        The law that the density was made from, if any.
    misfit : float
        The part of f that the series misses, relative to its L² norm, on the grid and, for a law,
        between its points too: harmonics show there that the grid takes for others. 0 for
        coefficients.
    tail_tol : float
    max_size : int or None

    Raises
    ------
    ValueError
        If dimensions differ, f is negative, its mass is not 1, the space does not resolve it, a
        law is not axisymmetric about the axis of a `Zonal` space, or a limit is out of range.

    Examples
    --------
    >>> import meanfield as mf
    >>> mu = mf.Density(mf.Circle(16), mf.FourierSeries(cos=[0.5]))
    >>> mu.mean().round(15) + 0.0
    array([0.25, 0.  ])
    """

    _for_rooms: ClassVar[Sequence[str]] = "coefficients_on", "embed", "power", "with_limits"

    degree: int

    def __init__(
        self,
        space: Space,
        law_or_values: Law | ArrayLike | Callable[[Array], ArrayLike],
        /,
        *,
        tail_tol: float = 1e-8,
        max_size: int | None = None,
        unit_mass: bool = False,
    ) -> None:
        self.with_limits(checked_space(space), tail_tol, max_size)
        self.law: Law | None = None
        if isinstance(law_or_values, Law):
            self.law = law_or_values
            law_or_grid_values: Any = law_values(space, law_or_values)
            values = np.asarray(law_or_grid_values, dtype=np.float64)
        else:
            law_or_grid_values = law_or_values
            if callable(law_or_grid_values) and not isinstance(law_or_grid_values, type):
                law_or_grid_values = law_or_grid_values(space.points)
                if _checks.is_number(law_or_grid_values):
                    raise ValueError(
                        f"the function must return n values for points (n, d), got one number, "
                        f"{law_or_grid_values}"
                    )
            values = _checked_values(space, law_or_grid_values)
        tolerance = _checks.rounding(law_or_grid_values, len(values))
        coefficients = space.analysis(values)
        mass = float(coefficients[0].real)
        mass = _checked_mass(
            space, mass, self.law, _checks.boolean("unit_mass", unit_mass), tolerance
        )
        self.misfit = _checked_fit(space, coefficients, values, self.law, tolerance)
        self.coefficients: Coefficients = _checks.read_only(coefficients / mass)
        # this fills a cached property: a law's values are more exact than those of its series
        self.values: Array = _checks.read_only(values / mass)

    def with_limits(
        self, space: Space, tail_tol: float = 1e-8, max_size: int | None = None
    ) -> None:
        """Take a space, and what a run may do."""
        self.space, self.dim, self.axis, self.degree = space, space.dim, space.axis, space.kmax
        self.tail_tol = _checks.number("tail_tol", tail_tol, low=1e-15, high=1e-2)
        self.max_size = max_size
        if max_size is not None:
            self.max_size = _checks.integer("max_size", max_size, low=space.size)

    @property
    def run_limits(self) -> DensityLimits:
        return DensityLimits(tail_tol=self.tail_tol, max_size=self.max_size)

    @classmethod
    def from_coefficients(
        cls,
        space: Space,
        coefficients: Coefficients,
        *,
        tail_tol: float = 1e-8,
        max_size: int | None = None,
    ) -> Density:
        """The density with these coefficients, in the layout of the space; nothing is normalised.

        Raises
        ------
        ValueError
            If the shape or type is not the space's, a coefficient is not finite, one of order 0
            is not real, or a limit is out of range.

        Examples
        --------
        >>> import meanfield as mf
        >>> mu = mf.Density(mf.Circle(32), mf.FourierSeries(cos=[0.5]))
        >>> twin = mf.Density.from_coefficients(mu.space, mu.coefficients)
        >>> twin.pdf([[1.0, 0.0]]).round(12)
        array([1.5])
        """
        checked_space(space)
        series = _checks.unmasked("coefficients", coefficients)
        is_numeric = series.dtype.kind in "iufc"
        if not is_numeric or not np.can_cast(series.dtype, space.coefficient_type, "same_kind"):
            raise ValueError(
                f"coefficients must be {space.coefficient_type.__name__} on {space}, got "
                f"{series.dtype}"
            )
        tolerance = max(SIGN_TOLERANCE, _checks.rounding(series.real, series.size))
        series = np.array(series, dtype=space.coefficient_type)
        if series.shape != (space.n_coefficients,) or not np.isfinite(series).all():
            raise ValueError(
                f"coefficients must be finite with shape ({space.n_coefficients},) on {space}, "
                f"got shape {series.shape}"
            )
        if np.iscomplexobj(series):
            imaginary = series[: space.n_real].imag
            if np.abs(imaginary).max() > tolerance * np.abs(series).max():
                raise ValueError(
                    f"coefficients must be real in the first {space.n_real} places on {space}, "
                    f"got an imaginary part of {np.abs(imaginary).max():.3g}"
                )
            imaginary[:] = 0.0
        # not `cls`: a class made from this one needs more than coefficients
        density = Density.__new__(Density)
        density.with_limits(space, tail_tol, max_size)
        density.law, density.coefficients, density.misfit = None, _checks.read_only(series), 0.0
        return density

    @cached_property
    def values(self) -> Array:
        """f on ``space.points``, shape (N,); a law's own values keep the digits of small ones."""
        return _checks.read_only(self.space.synthesis(self.coefficients))

    def __repr__(self) -> str:
        return f"Density({self.space}, tail={self.tail:.1e})"

    @property
    def is_uniform(self) -> bool:  # type: ignore[override]
        """Whether the series is that of σ, to rounding."""
        return bool(np.abs(self.coefficients[1:]).max() < _SAME)

    @property
    def points(self) -> Array:  # type: ignore[override]
        """The points of the grid, shape (N, d)."""
        return self.space.points

    @cached_property
    def weights(self) -> Array:  # type: ignore[override]
        """The masses of the points, shape (N,); some may be < 0 where the series is."""
        return _checks.read_only(self.space.weights * self.values)

    def at_scale(self, radius: float) -> tuple[Array, Array]:
        """The points of the grid, or finer ones: neighbours are half a radius apart, or less."""
        grid = self.space
        if self.axis is not None:
            # there are six nodes in each wave of the highest degree
            width = min(panels.width_for(radius, self.dim), panels.NODES / grid.kmax)
            points, weights = _latitudes(self.axis, width)
        elif grid.exactness < (degree := int(np.ceil(2.0 * _TURN / radius))):
            size = grid.exact_size(degree)
            if size > grid.size_limit:
                raise ValueError(
                    f"radius must be larger for {self}, got {radius:g}, which takes a grid of size "
                    f"{size} > {grid.size_limit}"
                )
            finer = grid.resize(size)
            points, weights = finer.points, finer.weights
        else:
            return self.quadrature
        return points, weights * (self.pdf if self.law is None else self.law.pdf)(points)

    @property
    def power(self) -> Array:
        """Σ |f_k|² over the harmonics of each degree, shape (kmax + 1,)."""
        return self.space.power(self.coefficients)

    @property
    def tail(self) -> float:
        """Relative L² size of the last tenth of the spectrum, see `spectral_tail`."""
        return spectral_tail(self.power)

    def mass(self) -> float:
        """∫ f dσ, by quadrature of the values."""
        return float(self.space.weights @ self.values)

    def mean(self) -> Array:
        """∫ x f dσ, shape (d,)."""
        return self.space.mean(self.coefficients)

    def pdf(self, points: ArrayLike) -> Array:
        """f at arbitrary unit rows (n, d), shape (n,), from the series.

        On the circle one number is the point at that angle.

        Raises
        ------
        ValueError
            If the points are not unit rows of length d.
        """
        return self.space.evaluate(self.coefficients, _checks.unit_rows("points", points, self.dim))

    @property
    def _drawn_law(self) -> Law:
        """Return the law that the density was made from, or else its series."""
        return self.law or SeriesLaw(self)

    def sample(self, n: int, rng: Rng) -> Array:
        """n independent draws, unit rows (n, d); `Particles.sample(mu, n, rng)` has tokens.

        They are draws of the law that the density was made from; else of its series, exactly, by
        rejection. Where a series is negative it counts as 0: draws are then of max(f, 0)/∫ max(f,
        0) dσ, of which an event has another probability than of f by ∫ max(-f, 0) dσ at most,
        about the `tail` of what is resolved.

        Raises
        ------
        ValueError
            If n < 1 or rng is neither an integer >= 0 nor a numpy Generator.

        Examples
        --------
        >>> import meanfield as mf
        >>> mu = mf.Density(mf.Circle(32), mf.FourierSeries([0.5]))
        >>> bool(np.abs(mu.sample(10_000, rng=0).mean(axis=0) - mu.mean()).max() < 0.04)
        True
        """
        return self._drawn_law.sample(_checks.integer("n", n, low=1), _checks.generator("rng", rng))

    def quantise(self, n: int, rng: Rng | None = None) -> Array:
        """n unit rows (n, d) with equal shares of the mass, on the circle or S^2.

        See `laws.quantised_points`; `Particles.quantise(mu, n)` has tokens. Where a series is
        negative it counts as 0, as for `sample`.

        Raises
        ------
        ValueError
            If d > 3, n < 1, or rng is neither an integer >= 0 nor a numpy Generator.

        Examples
        --------
        >>> import meanfield as mf
        >>> mu = mf.Density(mf.Circle(32), mf.Uniform(2))
        >>> mu.quantise(2).round(12) + 0.0
        array([[ 0.,  1.],
               [ 0., -1.]])
        """
        return quantised_points(self._drawn_law, n, rng)

    def trigonometric_moments(self, kmax: int) -> NDArray[np.complex128]:
        """m_k = ∫ e^{-ikθ} f dσ, k = 0 … kmax; those past the degree of the series are 0.

        Raises
        ------
        ValueError
            If the space is no `Circle`, or `kmax` no integer >= 0.
        """
        if self.space.kind != Circle.kind:
            raise ValueError(f"space must be a Circle for moments in e^(ikθ), got {self.space}")
        kmax = _checks.integer("kmax", kmax, low=0, high=MOST_MODES)
        moments = np.zeros(kmax + 1, dtype=np.complex128)
        moments[: len(self.coefficients)] = self.coefficients[: kmax + 1]
        return moments

    def harmonic_moments(self, basis: Harmonics, multipliers: Array) -> tuple[Coefficients, float]:  # noqa: ARG002
        """∫ f conj(Y) dσ for all Y of the basis, with nothing left out: see `Measure.moments`."""
        coefficients, axis = self.coefficients, self.axis
        if axis is not None and basis.axis is None:
            return turned(coefficients, axis, basis), 0.0
        if basis.axis is not None and (axis is None or self.is_uniform):
            return np.eye(1, len(basis.degrees))[0] * coefficients[0].real, 0.0
        moments = self.space.embed(coefficients, basis)
        if axis is not None and basis.axis is not None and axis @ basis.axis < 0.0:
            moments[1::2] *= -1.0
        return moments, 0.0

    def entropy(self) -> float:
        """∫ f log f dσ, 0 for the uniform measure and else positive; where f < 0 it counts as 0."""
        positive = np.maximum(self.values, 0.0)
        return float(self.space.weights @ xlogy(positive, positive))

    def kernel_nodes(self, degree: int | None, reach: float) -> tuple[Array, Array]:
        """Points and masses of the least grid that is exact, often a coarser one than f's own."""
        grid, pdf = self.space, self.pdf if self.law is None else self.law.pdf
        try:
            degree = grid.kmax + (bandwidth(reach, self.dim) if degree is None else degree)
            # the law's own values keep the digits of small ones
            is_own = self.law is not None and grid.exactness >= degree
            grid = grid if is_own else grid.resize(grid.exact_size(degree))
        except ValueError as error:
            raise ValueError(
                f"z must be shorter for a density on {self.space} in dim = {self.dim}, got length "
                f"{reach:.6g}, beta for SA and USA: {error}"
            ) from error
        values = self.values if is_own else pdf(grid.points)
        return grid.points, grid.weights * np.maximum(values, 0.0)

    def balance(self, beta: float) -> Balanced:
        """The measure u mu with u(x) ∫ e^{β<x,y>} u(y) dmu(y) = 1; f counts as 0 where negative.

        Raises
        ------
        ValueError
            If β is negative, not finite, or too large for a grid or for sums over latitudes.
        """
        beta = _checks.number("beta", beta, low=0)
        grid = working_grid(self.space, beta)
        if grid is self.space:
            values = self.values
        elif self.law is not None:
            values = self.law.pdf(grid.points)
        else:
            values = grid.synthesis(self.coefficients_on(grid))
        masses, sums = grid.weights * np.maximum(values, 0.0), grid_sums(grid, beta, _MOST_PAIRS)
        return Balanced.of(grid.points, masses, beta, sums, grid.axis)

    def resize(self, size: int) -> Density:
        """The same density on the same kind of space with another size.

        A density made from a law is made from it again, else the series is embedded.

        Raises
        ------
        ValueError
            If the size is out of the space's range, smaller than the present one or larger than
            `max_size`.
        """
        _checks.check_measure("the density", self)
        size = _checks.integer("size", size, low=self.space.size, high=self.max_size)
        space = self.space.resize(size)
        if self.law is not None:
            return Density(space, self.law, **self.run_limits)
        return Density.from_coefficients(space, self.coefficients_on(space), **self.run_limits)

    def embed(self, space: Space) -> Density:
        """The series on another space of its kind, cut where that ends."""
        return Density.from_coefficients(space, self.coefficients_on(space))

    def coefficients_on(self, space: Space) -> Coefficients:
        """The coefficients of the series in the layout of another space of its kind."""
        return self.space.embed(self.coefficients, space)


class SeriesLaw:
    """The law of a density that was given by values or coefficients: its series, where positive.

    Parameters
    ----------
    density : Density

    Attributes
    ----------
    dim : int
    symmetry_axis : ndarray, shape (d,), or None
        The axis of the space.
    """

    def __init__(self, density: Density) -> None:
        self.density, self.dim, self.symmetry_axis = density, density.dim, density.axis

    def __repr__(self) -> str:
        return f"SeriesLaw({self.density})"

    def pdf(self, points: ArrayLike) -> Array:
        """f at unit rows (n, d), shape (n,)."""
        return np.maximum(self.density.pdf(points), 0.0)

    @cached_property
    def _pieces(self) -> Pieces:
        """Return f over the angle, on the circle or to the axis."""
        density, axis, kmax = self.density, self.density.axis, self.density.space.kmax
        if axis is not None:

            def meridian(angles: Array) -> Array:
                return density.pdf(line_points(angles.ravel(), axis)).reshape(angles.shape)

            return Pieces(meridian, kmax, np.pi)
        waves = np.asarray(2.0 * density.coefficients[1:], dtype=np.complex128)
        constant = density.coefficients[0].real - 1.0
        return Pieces(lambda rows: constant + fourier_rows(waves, rows), kmax, _TURN)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """n independent draws, unit rows (n, d), by rejection.

        On the circle and about an axis from a proved bound; on S^2 from twice the largest value on
        a grid of twice the degree, which is one (see `tabulated`).
        """
        density = self.density
        if density.axis is not None or density.dim == Circle.dim:
            return self._pieces.points(n, density.axis, rng)
        finer = density.space.resize(2 * density.space.size)
        bound = 2.0 * float(density.embed(finer).values.max())

        def accepted(count: int) -> Array:
            proposed = Uniform(density.dim).sample(int(bound * count) + 64, rng)
            return np.asarray(proposed[density.pdf(proposed) > bound * rng.random(len(proposed))])

        return drawn(n, accepted)
