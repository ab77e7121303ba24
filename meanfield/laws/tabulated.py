"""A density known by its values at points: the series through them, or nearest to them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import scipy

from meanfield import _checks
from meanfield._checks import MASS_TOLERANCE, UNIT_MASS, freeze, integer, real_array, unit_rows
from meanfield._records import key
from meanfield.laws.law import KnownLaw, Uniform, drawn, vector
from meanfield.laws.series import Pieces, fourier_rows
from meanfield.spaces import CircleAt, Places, Sphere, SphereAt
from meanfield.spaces.gegenbauer import gauss_gegenbauer
from meanfield.spaces.geometry import circle_angles, polar_angles
from meanfield.typing import Array, ArrayLike, Coefficients

_TURN = 2.0 * np.pi
# angles nearer than this are one
_SAME_ANGLE = 1e-12
# the degree of a series may be this share of π over the widest gap of the data, which bounds its
# condition
_SHARE = 0.9
_CONDITION = ((1.0 + _SHARE) / (1.0 - _SHARE)) ** 2
# on S^2 data have at least so many times as many points as coefficients; each next degree is this
# share of the last
_OVERSAMPLING, _NEXT_DEGREE = 4.0, 0.8
# a series may fall below 0 by this share of its largest value
_SIGN_TOLERANCE = 1e-8
# a relative misfit above the first is reported; if a given degree smooths the values, one above the
# second
_SMALL_MISFIT, _LARGE_MISFIT = 1e-3, 0.25
_CG_TOLERANCE, _MOST_ITERATIONS = 1e-14, 1000


class _Line:
    """f(θ) = Re Σ_{k<=K} c_k e^{ikθ}; about an axis, an even series in the angle to it."""

    def __init__(self, points: Array, values: Array, axis: Array | None) -> None:
        self.axis = axis
        self.at = points if points.ndim == 1 else self._angles(points)
        angles = np.mod(self.at, _TURN)
        if axis is not None:
            angles, values = np.mod(np.concatenate([angles, -angles]), _TURN), np.tile(values, 2)
        angles[angles > _TURN - _SAME_ANGLE] = 0.0
        order = np.argsort(angles, kind="stable")
        angles, values = angles[order], values[order]
        # an angle that is given twice counts once
        starts = np.flatnonzero(np.diff(angles, prepend=-1.0) > _SAME_ANGLE)
        self.angles = angles[starts]
        self.values = np.add.reduceat(values, starts) / np.diff(starts, append=len(angles))
        self.gaps = np.diff(self.angles, append=self.angles[0] + _TURN)
        self.is_equispaced = bool(np.ptp(self.gaps) <= _SAME_ANGLE)

    def _angles(self, points: Array) -> Array:
        return circle_angles(points) if self.axis is None else polar_angles(points, self.axis)

    def degrees(self) -> list[int]:
        """The largest degree: n/2 of n equispaced angles, else 0.9 π over the widest gap."""
        if self.is_equispaced:
            return [len(self.angles) // 2]
        return [int(_SHARE * np.pi / self.gaps.max())]

    def fit(self, degree: int) -> Coefficients:
        """c_0 … c_K of equispaced angles by a Fourier transform, else by weighted least squares."""
        if self.is_equispaced:
            count = len(self.angles)
            modes = np.fft.rfft(self.values)[: degree + 1] / count
            modes *= np.exp(-1j * np.arange(degree + 1) * self.angles[0])
            # the last mode of an even number of angles is cos(nθ/2) alone
            modes[1 : (count + 1) // 2] *= 2.0
        else:
            masses = 0.5 * (self.gaps + np.roll(self.gaps, 1)) / _TURN
            gram = CircleAt(2 * degree + 1).moments(self.angles, masses)[:-1]
            right = CircleAt(degree + 1).moments(self.angles, masses * self.values)[:-1]
            two_sided = np.concatenate([right[:0:-1].conj(), right])
            modes = scipy.linalg.solve_toeplitz(gram, two_sided)[degree:]
            modes[1:] *= 2.0
        return np.asarray(modes if self.axis is None else modes.real + 0j)

    def take(self, coefficients: Coefficients) -> None:
        """Evaluate this series from now on."""
        constant, higher = coefficients[0].real - 1.0, coefficients[1:]
        self.kmax = len(higher)

        def series(rows: Array) -> Array:
            # rows of half a turn are one half of a whole row
            full_rows = rows if self.axis is None else np.hstack([rows, rows + np.pi])
            return np.asarray(constant + fourier_rows(higher, full_rows)[:, : rows.shape[1]])

        self.pieces = Pieces(series, self.kmax, _TURN if self.axis is None else np.pi)

    def mass(self, coefficients: Coefficients) -> float:
        """∫ f dσ, by a quadrature that is exact."""
        if self.axis is None:
            return float(coefficients[0].real)
        t, weights = gauss_gegenbauer(self.axis.size, len(coefficients) // 2 + 1)
        waves = np.cos(np.outer(np.arccos(t), np.arange(len(coefficients))))
        return float(weights @ (waves @ coefficients.real))

    def at_data(self) -> Array:
        """f at the angles that were given."""
        return self.pieces(np.mod(self.at, _TURN))

    def minimum(self) -> tuple[float, str]:
        """The least value of f, and where."""
        lowest, where = self.pieces.minimum()
        return lowest, f"θ = {where:.6g}{'' if self.axis is None else ' from the axis'}"

    def pdf(self, points: Array) -> Array:
        """f at unit rows (n, d)."""
        return self.pieces(self._angles(points))

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """n draws, by rejection from a proved bound."""
        return self.pieces.points(n, self.axis, rng)


class _Whole:
    """f = Σ c_lm Y_lm on S^2; points count by the inverse of their density."""

    def __init__(self, points: Array, values: Array) -> None:
        self.data, self.places = values, Places.of(points)

    def degrees(self) -> list[int]:
        """The degrees that n points may carry, (L + 1)² <= n/4, the largest first."""
        degrees = [max(1, int(np.sqrt(len(self.data) / _OVERSAMPLING)) - 1)]
        while degrees[-1] > 1:
            degrees.append(int(_NEXT_DEGREE * degrees[-1]))
        return degrees

    def _normal(self, degree: int) -> tuple[SphereAt, Array, scipy.sparse.linalg.LinearOperator]:
        """Return harmonics, masses of the points, and the operator of the normal equations."""
        basis, wide_basis = SphereAt(degree), SphereAt(2 * degree)
        # the points are smoothed over an angle of 2/L, which leaves e^{-8} of the last degree
        heat = np.exp(2.0 / degree**2 * wide_basis._laplacian)
        lie = np.ones(len(self.data))
        masses = 1.0 / wide_basis.values(wide_basis.moments(self.places, lie) * heat, self.places)

        def product(real: Array) -> Array:
            values = basis.values(_as_complex(real, degree), self.places)
            return _as_real(basis.moments(self.places, masses * values), degree)

        shape, operator = ((degree + 1) ** 2,) * 2, scipy.sparse.linalg.LinearOperator
        return basis, masses, operator(shape, matvec=product, dtype=np.float64)

    def fit(self, degree: int) -> Coefficients | None:
        """c_lm by weighted least squares; None where the points don't determine them."""
        sparse, (basis, masses, normal) = scipy.sparse.linalg, self._normal(degree)
        # a start that no symmetry makes orthogonal to an eigenvector
        start = np.cos(1.0 + np.arange(normal.shape[0]) ** 1.5)
        try:
            ends = sparse.eigsh(normal, 2, which="BE", v0=start, tol=0.1, maxiter=10)[0]
        except sparse.ArpackNoConvergence:
            return None
        if ends.max() > _CONDITION * ends.min():
            return None
        right = _as_real(basis.moments(self.places, masses * self.data), degree)
        solution, left = sparse.cg(normal, right, rtol=_CG_TOLERANCE, maxiter=_MOST_ITERATIONS)
        return None if left else _as_complex(solution, degree)

    def take(self, coefficients: Coefficients) -> None:
        """Evaluate this series from now on."""
        degree = int((np.sqrt(8.0 * len(coefficients) + 1.0) - 3.0) / 2.0)
        self.at, self.coefficients, self.kmax = SphereAt(degree), coefficients, degree

    def mass(self, coefficients: Coefficients) -> float:
        """∫ f dσ."""
        return float(coefficients[0].real)

    def at_data(self) -> Array:
        """f at the points that were given."""
        return self.at.values(self.coefficients, self.places)

    @cached_property
    def grid(self) -> tuple[Array, Array]:
        """Points of a grid on which harmonics of twice the degree are resolved, and f there."""
        points = Sphere(max(3, 2 * self.kmax)).points
        return points, self.pdf(points)

    def minimum(self) -> tuple[float, str]:
        """The least value of f on the grid, and where."""
        points, values = self.grid
        where = int(values.argmin())
        return float(values[where]), f"x = {np.array2string(points[where], precision=4)}"

    def pdf(self, points: Array) -> Array:
        """f at unit rows (n, 3)."""
        return self.at.values(self.coefficients, Places.of(points))

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """n draws, by rejection from twice the largest value on the grid.

        On a great circle f >= M cos(L s) at a distance s <= π/(2L) from where it is M (M. Riesz),
        and the grid has a point within 1/L.
        """
        bound = 2.0 * self.grid[1].max()

        def accepted(count: int) -> Array:
            proposed = Uniform(3).sample(int(bound * count) + 64, rng)
            return np.asarray(proposed[self.pdf(proposed) > bound * rng.random(len(proposed))])

        return drawn(n, accepted)


def _as_real(complex_: Coefficients, degree: int) -> Array:
    """Return coefficients as a real vector of the same norm in L²(σ)."""
    zonal, higher_orders = complex_[: degree + 1].real, np.sqrt(2.0) * complex_[degree + 1 :]
    return np.concatenate([zonal, higher_orders.real, higher_orders.imag])


def _as_complex(real: Array, degree: int) -> Coefficients:
    """Return the coefficients of such a real vector."""
    zonal, (real_part, imaginary_part) = real[: degree + 1], np.split(real[degree + 1 :], 2)
    return np.concatenate([zonal + 0j, np.sqrt(0.5) * (real_part + 1j * imaginary_part)])


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Tabulated(KnownLaw):
    """f given by its values at points: the series of that degree that is nearest to them.

    At n equispaced angles of the circle it is the trigonometric interpolant. Elsewhere it is the
    series of least squares, each value weighted by the room around its point: trigonometric at
    other angles, with the condition number 19 at most since gaps are narrower than 0.9 π/degree
    (Gröchenig 1992, Math. Comp. 59), spherical harmonics at points of S^2, where that number is
    computed. A series of at most this degree comes back to rounding, 1e-12 on S^2, and a smooth
    density up to what it has beyond.

    Parameters
    ----------
    points : array_like, shape (n,) or (n, d)
        Angles of the circle in radians, within one turn; with an `axis` angles to it, in [0, π].
        Or unit rows.
    values : array_like, shape (n,)
        f >= 0 at the points, with respect to σ: 1 everywhere is the uniform law.
    axis : array_like, shape (d,), optional
        An axis about which f is symmetric: needed for d > 3.
    degree : int, optional
        Degree of the series. If omitted, the largest that the points determine: n/2 of n equispaced
        angles, 0.9 π over the widest gap of others, on S^2 some sqrt(n)/2. A smaller one smooths.
    unit_mass : bool
        Whether values are divided by their mass. Otherwise it must be 1 within 1e-8.

    Attributes
    ----------
    points, values : ndarray
        Values after the division.
    degree : int
    misfit : float
        The part of the values that the series misses, relative in their L² norm.

    Raises
    ------
    ValueError
        If a value or the series is negative (the message says where; on S^2 the series is searched
        on a grid that resolves twice its degree, not between its points), the mass is not 1, angles
        cover more than a turn, or the points don't determine a series of that degree.

    Warns
    -----
    RuntimeWarning
        If the series misses more than 1e-3 of the values, or 0.25 where a degree was asked for.

    Examples
    --------
    >>> angles = np.linspace(0.0, 2.0 * np.pi, 16, endpoint=False)
    >>> law = Tabulated(angles, np.exp(2.0 * np.cos(angles)), unit_mass=True)
    >>> law
    Tabulated(n=16, dim=2, degree=8, misfit=0.0e+00)
    >>> law.pdf(0.0).round(6)
    array([3.241404])
    """

    points: Array = field(
        metadata=key(
            "the name of a CSV, NPY or NPZ file with the values, a list of angles, or of unit rows",
            str | list[float] | list[list[float]],
        )
    )
    values: Array = field(metadata=key("a number >= 0 for each point", list[float]))
    axis: Array | None = field(metadata=vector("an axis of symmetry: a unit vector"))
    degree: int | None = field(metadata=key("the degree of the series, >= 0", int, minimum=0))
    if TYPE_CHECKING:
        # annotated as class variables, these are no fields of the dataclass
        misfit: ClassVar[float]
        _series: ClassVar[_Line | _Whole]

    def __init__(
        self,
        points: ArrayLike,
        values: ArrayLike,
        *,
        axis: ArrayLike | None = None,
        degree: int | None = None,
        unit_mass: bool = False,
    ) -> None:
        axis = None if axis is None else _checks.unit_vector("axis", axis)
        points = _checked_points(points, axis)
        values_given, values = values, real_array("values", values, 1)
        rounding_tol = _checks.rounding(values_given, values.size)
        if values.shape != (len(points),):
            raise ValueError(
                f"values must have length {len(points)}, one for each of points, got {values.size}"
            )
        if values.min() < 0.0:
            first = int(values.argmin())
            raise ValueError(
                f"values must be >= 0, got {values[first]:g} at index {first}, at {points[first]}"
            )
        if _checks.boolean("unit_mass", unit_mass):
            # the law is that of the scaled values, to the bit
            mass = _fitted(points, values, axis, degree)[2]
            if mass <= 0.0:
                raise ValueError(f"values must have a mass > 0, got {mass:.6g}")
            values /= mass
        if rounding_tol > MASS_TOLERANCE:
            values = _unrounded(points, values, axis, degree, rounding_tol)
        series, coefficients, mass = _fitted(points, values, axis, degree)
        if abs(mass - 1.0) > MASS_TOLERANCE:
            tolerance = max(MASS_TOLERANCE, rounding_tol)
            raise ValueError(
                f"values must have mass 1 within {tolerance:.2g} with respect to σ, the "
                f"uniform probability measure, got {mass:.9g}: {UNIT_MASS}"
            )
        series.take(coefficients / mass)
        misfit = float(np.linalg.norm(series.at_data() - values) / np.linalg.norm(values))
        freeze(self, points=points, values=values, axis=axis)
        freeze(self, degree=series.kmax, misfit=misfit, _series=series)
        lowest, where = series.minimum()
        if lowest < -_SIGN_TOLERANCE * values.max():
            raise ValueError(
                f"values must give a density >= 0, but their series of degree {series.kmax} has "
                f"the minimum {lowest:.6g} at {where}: take values at more points, or a smaller "
                f"degree, or smooth them as a PointCloud with these weights and a bandwidth"
            )
        if misfit > (_SMALL_MISFIT if degree is None else _LARGE_MISFIT):
            advice = "name the degree that smooths them" if degree is None else "a larger degree"
            warnings.warn(
                f"the series of degree {series.kmax} misses {misfit:.2g} of the values in their "
                f"L² norm: take values at more points, or {advice}",
                RuntimeWarning,
                stacklevel=2,
            )

    def __repr__(self) -> str:
        return (
            f"Tabulated(n={len(self.values)}, dim={self.dim}, degree={self.degree}, "
            f"misfit={self.misfit:.1e})"
        )

    @property
    def dim(self) -> int:
        """Ambient dimension d."""
        if self.axis is not None:
            return self.axis.size
        return 2 if self.points.ndim == 1 else int(self.points.shape[1])

    def _pdf(self, points: Array) -> Array:
        """Return f at unit rows (n, d), shape (n,); rounding below 0 is cut off."""
        return np.maximum(self._series.pdf(points), 0.0)

    def _draw(self, n: int, rng: np.random.Generator) -> Array:
        """Draw n independent unit rows (n, d) by rejection from a proved bound."""
        return self._series.draw(n, rng)


def _checked_points(points: ArrayLike, axis: Array | None) -> Array:
    """Return angles (n,), or unit rows (n, d)."""
    checked = _checks.unmasked("points", points)
    if checked.ndim <= 1:
        checked = real_array("points", checked, 1)
        if axis is not None:
            checked = _checks.snap_to_ends(checked, points, 0.0, np.pi)
        if axis is not None and (checked.min() < 0.0 or checked.max() > np.pi):
            raise ValueError(
                f"points must be angles to the axis, in [0, π], got {checked.min():g} to "
                f"{checked.max():g}"
            )
        # 2π in single precision is a little more than 2π
        if np.ptp(checked) > _TURN + 1e-6:
            raise ValueError(
                f"points must be angles in radians, within one turn, got {checked.min():g} to "
                f"{checked.max():g}: of degrees take np.deg2rad"
            )
        return checked
    checked = unit_rows("points", checked, None if axis is None else axis.size)
    if axis is None and checked.shape[1] > 3:
        raise ValueError(
            f"points must be angles, or unit rows on the circle or S^2 where no axis is given, "
            f"got shape {checked.shape}"
        )
    return checked


def _unrounded(
    points: Array, values: Array, axis: Array | None, degree: int | None, off: float
) -> Array:
    """Return values of less than double precision as those of a density that is nowhere negative.

    What is further off than they may be is left to be refused.
    """
    series, coefficients, mass = _fitted(points, values, axis, degree)
    if abs(mass - 1.0) > off:
        return values
    series.take(coefficients / mass)
    lowest, _ = series.minimum()
    lift = -lowest if -off * values.max() <= lowest < 0.0 else 0.0
    return (values / mass + lift) / (1.0 + lift)


def _fitted(
    points: Array, values: Array, axis: Array | None, degree: int | None
) -> tuple[_Line | _Whole, Coefficients, float]:
    """Return the series nearest to the values, of the given degree or of the largest possible.

    Raises
    ------
    ValueError
        If the points don't determine it.
    """
    is_line = axis is not None or points.ndim == 1 or points.shape[1] == 2
    series = _Line(points, values, axis) if is_line else _Whole(points, values)
    degrees = series.degrees()
    if degree is not None:
        degrees = [integer("degree", degree, low=min(1, degrees[0]), high=degrees[0])]
    for candidate in degrees:
        if (fit := series.fit(candidate)) is not None:
            return series, fit, series.mass(fit)
    raise ValueError(
        f"points must determine a series of degree {degrees[-1]}, got {len(points)} that leave "
        f"parts of the sphere out"
    )
