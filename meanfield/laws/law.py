"""What a law is, what all laws share, random directions, the uniform law, and mixtures of laws."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from meanfield import _checks
from meanfield._checks import freeze, integer, is_of_package, shown, unit_rows
from meanfield._records import Record, key
from meanfield._shown import ShownFields
from meanfield.kernels.direct import logs
from meanfield.spaces.geometry import are_parallel, difference_of_meridians, line_points, project
from meanfield.typing import Array, ArrayLike, NDArray, Rng
from meanfield.typing import Law as Law  # noqa: PLC0414 (for others)


def _normalised(rows: Array) -> Array:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def uniform_in_span(n: int, dim: int, rng: np.random.Generator) -> Array:
    """Coordinates of n <= d uniform points on S^{d-1} in an orthonormal basis of their span.

    Rows g/|g|, shape (n, n), with g standard normal. The triangular factor of n such rows has
    independent entries, normal below the diagonal and χ with d, d - 1, … degrees of freedom on it
    (Bartlett 1933): what inner products are made of, for n² random numbers in place of n d.

    Examples
    --------
    >>> x = uniform_in_span(3, 1000, np.random.default_rng(0))
    >>> x.shape, bool(np.abs(x @ x.T - np.eye(3)).max() < 0.2)
    ((3, 3), True)
    """
    rows = np.tril(rng.standard_normal((n, n)), -1)
    rows.flat[:: n + 1] = np.sqrt(rng.chisquare(dim - np.arange(n)))
    return _normalised(rows)


def uniform_frame(n: int, dim: int, rng: np.random.Generator) -> Array:
    """n <= d orthonormal rows in R^d, uniform among all such, shape (n, d).

    The orthogonal factor of normal rows, with signs that make the triangular one's diagonal
    positive (Mezzadri 2007): the basis of `uniform_in_span`, whose points it makes points in R^d.
    """
    basis, factor = np.linalg.qr(rng.standard_normal((dim, n)))
    return np.asarray((basis * np.sign(np.diag(factor))).T)


def points_around(axes: Array, angles: Array, rng: np.random.Generator) -> Array:
    """cos φ a + sin φ u with u uniform among the unit vectors perpendicular to a.

    Parameters
    ----------
    axes : ndarray, shape (n, d) or (d,)
        Unit rows a, or one for all.
    angles : ndarray, shape (n,)
        Polar angles φ in [0, π].
    rng : numpy.random.Generator

    Returns
    -------
    ndarray, shape (n, d)
        Unit rows.

    Examples
    --------
    >>> x = points_around(np.array([[0.0, 1.0]]), np.array([np.pi / 3]), np.random.default_rng(0))
    >>> float(x[0, 1])
    0.5
    """
    n, dim = len(angles), axes.shape[-1]
    axes = np.broadcast_to(axes, (n, dim))
    if dim == 2:
        across = rng.choice([-1.0, 1.0], size=(n, 1)) * np.column_stack([-axes[:, 1], axes[:, 0]])
    else:
        across = project(axes, rng.standard_normal((n, dim)))
        # the projection is repeated, since the first may cancel most digits
        across = _normalised(project(axes, across))
    return _normalised(np.cos(angles)[:, None] * axes + np.sin(angles)[:, None] * across)


def drawn(n: int, accepted: Callable[[int], Array]) -> Array:
    """n draws by rejection, from a function that gives those of a number of proposals it accepts.

    It may give more than the number.
    """
    draws, left = [], n
    while left > 0:
        draws.append(accepted(left)[:left])
        left -= len(draws[-1])
    return np.concatenate(draws)


# a case file may ask for no larger numbers
LARGEST_DIM, LONGEST_LIST = 4096, 4096
DIM = key(
    "the ambient dimension d, 2 to 4096; that of the other table if left out",
    int,
    minimum=2,
    maximum=LARGEST_DIM,
)


def vector(about: str) -> dict[str, object]:
    """The metadata of a field that is a unit vector of any dimension."""
    return key(about, float | list[float], minItems=2, maxItems=LARGEST_DIM)


# a law is compared at so many points of a meridian
_COMPARED = 64
# a pdf may fall below 0 by this share of its maximum
_ROUNDING = 1e-10


def check_law(name: str, law: object, remedy: str = "") -> Law:
    """Return `law` when it is one.

    Parameters
    ----------
    name : str
        Of the argument.
    law : object
    remedy : str
        How the message ends: what to do about it.

    Raises
    ------
    ValueError
        If it has not what a law has.
    """
    # a class that was not called has these methods, too
    if not isinstance(law, Law) or isinstance(law, type):
        raise ValueError(f"{name} must have dim, pdf and sample, got {shown(law)}{remedy}")
    return law


def symmetry_axis(law: Law) -> Array | None:
    """A unit vector (d,) about which the law is symmetric, if its class knows one; or None.

    Uniform laws have the last unit vector; mixtures need parallel axes.

    Raises
    ------
    ValueError
        If a law of a user's own, which may have its axis from a parent, is not symmetric about it.

    Examples
    --------
    >>> from meanfield.laws import VonMisesFisher
    >>> symmetry_axis(VonMisesFisher([0.0, 1.0, 0.0], 2.0))
    array([0., 1., 0.])
    """
    axis = getattr(law, "symmetry_axis", None)
    if axis is None:
        return None
    axis = _checks.unit_vector("symmetry_axis", axis, law.dim)
    if not is_of_package(law) and has_density(law) and (gap := asymmetry(law, axis)):
        raise ValueError(
            f"symmetry_axis of {shown(law)} must be one about which it is symmetric, or None, got "
            f"{brief(axis)}, but the law differs by {gap:.2g} between two meridians"
        )
    return axis


def asymmetry(law: Law, axis: Array) -> float:
    """By how much a law differs between two meridians of an axis; 0 where that is rounding."""
    polar = np.pi * (np.arange(_COMPARED) + 0.5) / _COMPARED
    values = law.pdf(line_points(polar, axis))
    return difference_of_meridians(law.pdf, axis, np.cos(polar), np.sin(polar), values)


def has_density(law: Law) -> bool:
    """Whether the law has a density; tokens as they are have none."""
    return bool(getattr(law, "has_density", True))


def checked_pdf(law: Law, points: Array) -> NDArray[Any]:
    """f at unit rows (n, d) of a law that may be a user's own, rounding below 0 cut off.

    The values are of the type that the law gives them in.

    Raises
    ------
    ValueError
        If the values are no finite numbers >= 0 of shape (n,).
    """
    values = _checks.unmasked("the pdf of law", law.pdf(points))
    if values.shape != (len(points),) or values.dtype.kind not in "fiu":
        raise ValueError(
            f"law must have a pdf of shape (n,) = ({len(points)},), got {shown(law)} with shape "
            f"{values.shape} of {values.dtype}"
        )
    lowest, tolerance = float(values.min(initial=0.0)), max(_ROUNDING, _checks.rounding(values, 1))
    if not np.isfinite(values).all() or lowest < -tolerance * float(values.max(initial=0.0)):
        raise ValueError(
            f"law must have a finite pdf >= 0, got {shown(law)} with values from {lowest:.6g} to "
            f"{float(values.max()):.6g}"
        )
    return np.asarray(np.maximum(values, 0.0))


# smaller values of a pdf lose digits and then underflow
LEAST_HELD = 1e-290
# a logpdf may differ by this from the logarithm of its pdf
_LOG_TOLERANCE = 1e-6


def checked_logpdf(law: Law, points: Array) -> Array:
    """log f at unit rows (n, d), by the law's `logpdf`, if it has one, where f is no float.

    Raises
    ------
    ValueError
        If the pdf is none, or a law of a user's own has the logpdf of another law.
    """
    density = np.asarray(checked_pdf(law, points), dtype=np.float64)
    log_density, is_held = logs(density), density > LEAST_HELD
    if is_held.all() or not hasattr(law, "logpdf"):
        return log_density
    exact = np.asarray(law.logpdf(points))
    if not np.all(np.abs(exact - log_density)[is_held] <= _LOG_TOLERANCE) or np.isnan(exact).any():
        raise ValueError(f"law must have a logpdf that is log of its pdf, got {shown(law)}")
    return np.where(is_held, log_density, exact)


def brief(array: Array) -> str:
    """An array for a repr: at most six numbers of three digits.

    Examples
    --------
    >>> brief(np.array([0.5, 1 / 3]))
    '[0.5  , 0.333]'
    """
    return np.array2string(array, precision=3, separator=", ", threshold=6, edgeitems=2)


class KnownLaw(ShownFields, Record, ABC):
    """A law of the package, which a case and a file can tell."""

    if TYPE_CHECKING:

        @property
        def dim(self) -> int:
            """Ambient dimension d."""

    @property
    def symmetry_axis(self) -> Array | None:
        """A unit vector (d,) about which the law is symmetric, None where there is none."""
        axis: Array | None = getattr(self, "axis", None)
        return axis

    def pdf(self, points: ArrayLike) -> Array:
        """f >= 0 at unit rows (n, d), shape (n,), with respect to σ.

        On the circle one number is the point at that angle.

        Raises
        ------
        ValueError
            If the points are not unit rows of length d, or the law has no density that a float
            holds.
        """
        return self._pdf(unit_rows("points", points, self.dim))

    def logpdf(self, points: ArrayLike) -> Array:
        """log f at unit rows (n, d), shape (n,); -inf where f is 0, to rounding or cut off there.

        If the law has a closed form, it is finite also where `pdf` leaves double precision.

        Raises
        ------
        ValueError
            If the points are not unit rows of length d, or the law has no density.

        Examples
        --------
        >>> from meanfield.laws import FourierSeries
        >>> FourierSeries(cos=[1.0]).logpdf([[1.0, 0.0], [-1.0, 0.0]]).round(6)
        array([0.693147,     -inf])
        """
        return self._logpdf(unit_rows("points", points, self.dim))

    def sample(self, n: int, rng: Rng) -> Array:
        """n independent draws, unit rows (n, d).

        Raises
        ------
        ValueError
            If n < 1 or rng is neither an integer >= 0 nor a numpy Generator.
        """
        return self._draw(integer("n", n, low=1), _checks.generator("rng", rng))

    @abstractmethod
    def _pdf(self, points: Array) -> Array:
        """Return f at points that were checked."""

    def _logpdf(self, points: Array) -> Array:
        """Return log f at points that were checked."""
        return logs(self._pdf(points))

    @abstractmethod
    def _draw(self, n: int, rng: np.random.Generator) -> Array:
        """Draw n points with the generator."""


@dataclass(frozen=True, eq=False)
class Uniform(KnownLaw):
    """f = 1: the uniform law σ on S^{d-1}, the only minimiser of the energy (Proposition 3.4).

    Parameters
    ----------
    dim : int
        Ambient dimension d >= 2.

    Raises
    ------
    ValueError
        If dim is no integer >= 2.

    Examples
    --------
    >>> Uniform(3).pdf([[0.0, 0.0, 1.0]])
    array([1.])
    """

    dim: int = field(metadata=DIM)

    def __post_init__(self) -> None:
        freeze(self, dim=integer("dim", self.dim, low=2))

    @property
    def symmetry_axis(self) -> Array:
        """The last unit vector, shape (d,): any will do."""
        return np.asarray(np.eye(self.dim)[-1])

    def _pdf(self, points: Array) -> Array:
        """Return f = 1 at unit rows (n, d), shape (n,)."""
        return np.ones(len(points))

    def _draw(self, n: int, rng: np.random.Generator) -> Array:
        """Draw n independent unit rows (n, d): g/|g| with g standard normal in R^d."""
        return _normalised(rng.standard_normal((n, self.dim)))


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Mixture(KnownLaw):
    """f = Σ_i w_i f_i: the law of a draw from law i, taken with probability w_i.

    Parameters
    ----------
    laws : sequence of Law
        At least one; all of one dimension.
    weights : array_like, shape (len(laws),), optional
        Non-negative, of sum 1; equal if omitted.
    unit_mass : bool
        Whether weights are divided by their sum.

    Raises
    ------
    ValueError
        If an entry is no law, dimensions differ or the weights are not of that kind.

    Examples
    --------
    >>> from meanfield.laws import Uniform, VonMisesFisher
    >>> Mixture([VonMisesFisher([0.0, 1.0], 5.0), Uniform(2)], [0.9, 0.1])
    Mixture(2 laws, dim=2)
    """

    laws: tuple[Law, ...] = field(
        metadata=key(
            "a list of tables, each of them a law", list, minItems=1, maxItems=LONGEST_LIST
        )
    )
    weights: Array = field(
        metadata=key(
            "a number >= 0 for each law, of sum 1; equal if left out",
            list[float],
            items={"type": "number", "minimum": 0},
        )
    )

    def __init__(
        self, laws: Sequence[Law], weights: ArrayLike | None = None, *, unit_mass: bool = False
    ) -> None:
        if not isinstance(laws, Sequence) or isinstance(laws, str) or not laws:
            raise ValueError(f"laws must be a non-empty sequence of laws, got {shown(laws)}")
        for i, law in enumerate(laws):
            check_law("laws", law, f" at index {i}")
            if law.dim != laws[0].dim:
                raise ValueError(
                    f"laws must have one dim, got dim = {laws[0].dim} at index 0 "
                    f"and dim = {law.dim} at index {i}"
                )
        weights = _checks.weights("weights", weights, len(laws), unit_mass)
        freeze(self, laws=tuple(laws), weights=weights, dim=laws[0].dim)

    def __repr__(self) -> str:
        return f"Mixture({len(self.laws)} laws, dim={self.dim})"

    @property
    def symmetry_axis(self) -> Array | None:
        """The axis of all parts that are not uniform, shape (d,); None if they have no common one.

        A mixture of uniform laws has theirs.
        """
        laws = [law for law in self.laws if type(law) is not Uniform] or self.laws
        axes = [symmetry_axis(law) for law in laws]
        return axes[0] if all(are_parallel(axis, axes[0]) for axis in axes) else None

    def _pdf(self, points: Array) -> Array:
        """Return Σ_i w_i f_i at unit rows (n, d), shape (n,)."""
        total = np.zeros(len(points))
        for law, weight in zip(self.laws, self.weights, strict=True):
            if weight > 0.0:
                total += weight * law.pdf(points)
        return total

    def _logpdf(self, points: Array) -> Array:
        """Return log Σ_i w_i f_i from the logarithms of the parts, none of which overflows."""
        total = np.full(len(points), -np.inf)
        for law, weight in zip(self.laws, self.weights, strict=True):
            if weight > 0.0:
                # a law that a user wrote need not have a logpdf
                logpdf = getattr(law, "logpdf", None) or (lambda at, law=law: logs(law.pdf(at)))
                with np.errstate(under="ignore"):
                    total = np.logaddexp(total, np.log(weight) + logpdf(points))
        return total

    def _draw(self, n: int, rng: np.random.Generator) -> Array:
        """Draw n independent unit rows (n, d)."""
        chosen = rng.choice(len(self.laws), size=n, p=self.weights)
        points = np.empty((n, self.dim))
        for i, law in enumerate(self.laws):
            rows = np.flatnonzero(chosen == i)
            if rows.size:
                points[rows] = law.sample(rows.size, rng)
        return points
