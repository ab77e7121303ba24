"""Kernels s(<x,y>) of an interaction: X is made of ∫ s(<x,y>) y dmu(y) and ∫ s(<x,y>) dmu(y)."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple, Self

import numpy as np
from numpy.polynomial import chebyshev, polynomial
from scipy import fft, special

from meanfield._checks import freeze, real_array, shown, unmasked
from meanfield.kernels import direct, line, multipliers
from meanfield.spaces.gegenbauer import gauss_gegenbauer, gegenbauer, multiplicity_growth
from meanfield.typing import Array, ArrayLike, Coefficients, Summable

Function = Callable[[Array], Array]


class Series(NamedTuple):
    """Multipliers of a kernel, by degree.

    Attributes
    ----------
    potential : ndarray, shape (kmax + 1,)
        Of ∫ s(<x,y>) dmu(y), in units of unit · e^{log_unit}.
    primitive : ndarray, shape (kmax + 1,)
        Of ∫ S(<x,y>) dmu(y), S' = s, of which the gradient is ∫ s(<x,y>) P_x y dmu(y), in the same
        units.
    unit, log_unit : float
    """

    potential: Array
    primitive: Coefficients
    unit: float = 1.0
    log_unit: float = 0.0

    def energy(self, power: Array) -> float:
        """½ ∬ S(<x,y>) dmu dmu in units of e^{log_unit}, of the measure's power by degree."""
        return 0.5 * self.unit * float(self.primitive @ power)


class PrimitiveTable(NamedTuple):
    """The table of a line that sums to the potential of a kernel's primitive, times a factor."""

    row: int
    factor: float


def is_divided(potential: Array) -> bool:
    """Whether a field is divided by this potential: not by 1, as that of e^{βt} is at β = 0."""
    return bool(potential[0] != 1.0 or potential[1:].any())


class Kernel(ABC):
    """A kernel s on [-1, 1].

    Attributes
    ----------
    log_unit : float
        Sums are in units of e^{log_unit}.
    reach : float
        On angles of 3/reach s(cos a) is a polynomial of 16 terms to rounding; β of e^{βt}.
    growth : float or None
        λ where s' = λs, so that gradients of the potential and of its primitive are proportional.
    largest : float
        The largest |s|, in its units.
    least_share : float
        The least value of s over its largest; 0 where s has zeros or two signs.
    at_one : float
        s(1), in its units: > 0 where neighbours attract each other.
    primitive_table : PrimitiveTable or None
        The table of `line` that sums to the primitive's potential.
    """

    log_unit: float = 0.0
    growth: float | None = None
    reach: float
    largest: float
    least_share: float
    at_one: float
    primitive_table: PrimitiveTable | None

    @abstractmethod
    def degree(self, dim: int) -> int:
        """The degree past which no multiplier counts."""

    @abstractmethod
    def series(self, dim: int, kmax: int) -> Series:
        """The multipliers up to a degree."""

    @abstractmethod
    def energy(self, measure: Summable) -> float:
        """½ ∬ S(<x,y>) dmu dmu, in units of e^{log_unit}, of what moments and points tell."""

    @abstractmethod
    def line(self, dim: int) -> line.Line:
        """Cells on the circle, or on polar angles for dim >= 3, and tables between them.

        K and its pull and div of pull, as `circle_kernel`; where there is no `growth` the
        derivative of K and the primitive of K, too.
        """


class PotentialKernel(Kernel):
    """A kernel s(<x,y>) with a potential ∫ s(<x,y>) dmu(y), which a normalised field divides by."""

    @property
    @abstractmethod
    def is_exponential(self) -> bool:
        """Whether s' = λs for some λ, so that the potential's gradient is λ P_x ∫ s y dmu."""

    @abstractmethod
    def values(self, t: Array) -> Array:
        """s(t), in units of e^{log_unit}."""

    @abstractmethod
    def attention(self, measure: Summable, points: Array) -> tuple[Array | float, Array, Array]:
        """u, ∫ s dmu (n,) and ∫ s y dmu (n, d) at unit rows (n, d), in units of e^u."""

    @abstractmethod
    def sums(
        self, sources: Array, masses: Array, points: Array
    ) -> tuple[Array | float, Array | float, Array]:
        """u, Σ m_j s (n,) and Σ m_j s y_j (n, d) at unit rows (n, d), in units of e^u."""

    @abstractmethod
    def pull_of_others(self, points: Array, masses: Array) -> tuple[Array, Array, Array]:
        """P_x Σ m_j s y_j (n, d) in units of e^{u_i}, u (n,), and log Σ m_j s (n,), at tokens."""

    @abstractmethod
    def velocity_and_divergence(
        self, points: Array, sources: tuple[Array, Array]
    ) -> tuple[Array, Array]:
        """X (n, d) and div X (n,) of the normalised kernel at points, by sums over sources."""


@dataclass(frozen=True)
class Exponential(PotentialKernel):
    """e^{βt}, whose primitive is e^{βt}/β, at β = 0 t, and the precision of its sums over pairs."""

    beta: float
    precision: direct.Precision = np.float64

    at_one = largest = 1.0
    is_exponential = True

    def __post_init__(self) -> None:
        beta = self.beta
        # the primitive is the potential over β; at β = 0 it is t, which no table sums to
        table = PrimitiveTable(line.ROWS.potential, 1.0 / beta) if beta > 0.0 else None
        # the least value is held above 0, which would mean that the kernel has zeros
        least = max(math.exp(-2.0 * beta), sys.float_info.min)
        freeze(
            self, log_unit=beta, reach=beta, growth=beta, least_share=least, primitive_table=table
        )

    def degree(self, dim: int) -> int:
        """The degree past which no multiplier counts."""
        return multipliers.bandwidth(self.beta, dim)

    def series(self, dim: int, kmax: int) -> Series:
        """Λ_k/Λ_0 and Λ_k/(βΛ_0), and Λ_0."""
        beta, degrees = self.beta, np.arange(kmax + 1)
        relative = multipliers.relative_eigenvalues(beta, dim, kmax)
        (unit,), log_unit = multipliers.eigenvalues_in_unit(beta, dim, 0)
        potential = np.where(degrees <= self.degree(dim), relative, 0.0)
        # at β = 0 this is the limit of Λ_k/(β Λ_0)
        primitive = potential / beta if beta > 0.0 else np.where(degrees == 1, 1.0 / dim, 0.0)
        return Series(potential, primitive, float(unit), log_unit)

    def energy(self, measure: Summable) -> float:
        """E_β; at β = 0 |∫ x dmu|²/2."""
        if self.beta == 0.0:
            return 0.5 * float(np.sum(measure.mean() ** 2))
        points, masses = measure.quadrature
        log_g, _ = measure.log_moment(self.beta * points)
        return float(masses @ np.exp(log_g - self.beta)) / (2.0 * self.beta)

    def line(self, dim: int) -> line.Line:
        """Cells, and K, ∂K/β and ΔK/β between them."""
        return line.line(self.beta, dim)

    def values(self, t: Array) -> Array:
        """e^{β(t - 1)}."""
        exponents = t - 1.0
        exponents *= self.beta
        with np.errstate(under="ignore"):
            return np.exp(exponents, out=exponents)

    def attention(self, measure: Summable, points: Array) -> tuple[Array, Array, Array]:
        """log G (n,), 1 (n,) and ∇ log G (n, d) at βx, of G = ∫ e^{<z,y>} dmu(y)."""
        log_g, mean = measure.log_moment(self.beta * points)
        return log_g, np.ones(len(mean)), mean

    def sums(self, sources: Array, masses: Array, points: Array) -> tuple[Array, float, Array]:
        """log G (n,), 1 and ∇ log G (n, d) at βx, of G = Σ m_j e^{<z,y_j>}."""
        log_g, mean = direct.log_moment(sources, masses, self.beta * points, self.precision)
        return log_g, 1.0, mean

    def pull_of_others(self, points: Array, masses: Array) -> tuple[Array, Array, Array]:
        """See `direct.pull_of_others`."""
        return direct.pull_of_others(points, masses, self.beta, self.precision)

    def velocity_and_divergence(
        self, points: Array, sources: tuple[Array, Array]
    ) -> tuple[Array, Array]:
        """P_x mean and div = β tr(P_x Cov) - (d-1) <x, mean>, under p ∝ m e^{β<x,y>}."""
        if points.shape[1] == 2:
            return self._along_circle(points, sources)
        mean, second_moment = direct.means(self.beta * points, sources)
        along = np.einsum("ij,ij->i", points, mean)
        along_squared = np.einsum("ij,ijk,ik->i", points, second_moment, points)
        across = mean - along[:, None] * points
        trace = 1.0 - along_squared - np.einsum("ij,ij->i", across, across)
        return across, self.beta * trace - (points.shape[1] - 1.0) * along

    def _along_circle(self, points: Array, sources: tuple[Array, Array]) -> tuple[Array, Array]:
        """See `velocity_and_divergence`; the variance about the mean keeps its digits at any β."""
        places, masses = sources
        pull, divergence = np.empty(len(points)), np.empty(len(points))
        tangents = points[:, ::-1] * [-1.0, 1.0]
        for part in direct.blocks(len(points), len(places)):
            cosine, sine = points[part] @ places.T, tangents[part] @ places.T
            with np.errstate(divide="ignore", under="ignore"):
                share = special.softmax(self.beta * cosine + np.log(masses), axis=1)
            pull[part] = (share * sine).sum(axis=1)
            apart = sine - pull[part, None]
            divergence[part] = (share * (self.beta * apart * apart - cosine)).sum(axis=1)
        return pull[:, None] * tangents, divergence


class SmoothKernel(PotentialKernel):
    """A kernel that is a polynomial to rounding.

    Attributes
    ----------
    highest : int
        Its degree.
    """

    highest: int
    primitive_table = PrimitiveTable(line.ROWS.primitive, 1.0)

    def energy_bounds(self) -> tuple[float, float, bool]:
        """Half the least and the largest S, of any pair of points."""
        # S has its extrema where s changes its sign
        values = self.primitive(self._turns(self))
        return 0.5 * float(values.min()), 0.5 * float(values.max()), False

    def energy(self, measure: Summable) -> float:
        """½ Σ m_i m_j S(<x_i,x_j>), through multipliers or over all pairs, in blocks."""
        points, masses = measure.quadrature
        if (fast := measure.series_sums(self, len(points))) is not None:
            return float(fast.energy(points, masses))
        total = 0.0
        for part in direct.blocks(len(points), len(points)):
            t = np.clip(points[part] @ points.T, -1.0, 1.0)
            total += float(masses[part] @ (self.primitive(t) @ masses))
        return 0.5 * total

    def __call__(self, t: Array) -> Array:
        """s(t)."""
        return self.values(t)

    @abstractmethod
    def derivative(self, t: Array) -> Array:
        """s'(t)."""

    @abstractmethod
    def primitive(self, t: Array) -> Array:
        """S(t), S' = s, S(0) = 0."""

    def degree(self, dim: int) -> int:  # noqa: ARG002 (of exponentials)
        """The degree past which there is no multiplier, that of the primitive."""
        return max(1, self.highest + 1)

    @property
    def at_one(self) -> float:  # type: ignore[override]
        """s(1)."""
        return float(self(np.ones(1))[0])

    @cached_property
    def largest(self) -> float:  # type: ignore[override]
        """The largest |s|."""
        return float(np.abs(self(self._turns(self.derivative))).max())

    def check_size(self) -> None:
        """Refuse values whose products leave double precision, or that have no digits.

        Raises
        ------
        ValueError
            If the largest |s| is beyond 1e100, or below 1e-100 and not 0, or rounding is more than
            1e-10 of it.
        """
        if self.largest != 0.0 and not 1.0 / _LARGEST <= self.largest <= _LARGEST:
            raise ValueError(
                f"kernel must have a largest |s| from {1.0 / _LARGEST:g} to {_LARGEST:g}, got "
                f"{self.largest:.3g} of {shown(self)}"
            )
        rounding = float(self._rounding(np.array([-1.0, 1.0])).max())
        if rounding > _RELATIVE * self.largest:
            raise ValueError(
                f"kernel must be a sum whose terms do not cancel, got {shown(self)}, of whose "
                f"largest value, {self.largest:.3g}, rounding makes {rounding:.1e}: give functions"
            )

    @cached_property
    def reach(self) -> float:  # type: ignore[override]
        """The least for which 16 Chebyshev nodes resolve s(cos a) and s'(cos a) on cells."""
        reach = 1.0
        while reach < self.highest + 1.0:
            cells = line.node_count(2, reach) // line.NODES
            width = 2.0 * np.pi / cells
            angles = (np.arange(cells)[:, None] + 0.5 * (1.0 + line.CHEBYSHEV)) * width
            values = np.stack([f(np.cos(angles)) for f in (self, self.derivative)])
            tails = np.abs(np.einsum("kj,fcj->fck", line.LAGRANGE[-2:], values)).max(axis=(1, 2))
            if (tails <= _TAIL * np.abs(values).max(axis=(1, 2))).all():
                return reach
            reach *= 1.25
        return self.highest + 1.0

    @cached_property
    def least(self) -> tuple[float, float]:
        """The t of the least s beside its rounding, and s there: 0 if not known to 1e-10."""
        candidates = self._turns(self.derivative)
        values = self(candidates)
        # values within their rounding are neither positive nor negative for certain
        unknown = (values > 0.0) & (values * _RELATIVE <= self._rounding(candidates))
        values[unknown] = 0.0
        worst = int(values.argmin())
        return float(candidates[worst]), float(values[worst])

    @cached_property
    def least_share(self) -> float:  # type: ignore[override]
        """The least value over the largest, 0 where it is not above what rounding makes of s."""
        return max(self.least[1], 0.0) / (self.largest or 1.0)

    @cached_property
    def is_exponential(self) -> bool:
        """Whether s' = λs on [-1, 1], to the digits in which values are trusted."""
        nodes = self._turns(self.derivative)
        values, derivatives = self(nodes), self.derivative(nodes)
        at_one = float(self.derivative(np.ones(1))[0])
        gap = np.abs(derivatives * self.at_one - values * at_one).max()
        return bool(gap <= _RELATIVE * self.largest * np.abs(derivatives).max())

    def _turns(self, derivative: Function) -> Array:
        """Nodes in [-1, 1], and between them the places where a derivative changes its sign."""
        nodes = np.cos(np.linspace(0.0, np.pi, 16 * (self.highest + 2)))
        turns = np.flatnonzero(np.diff(np.sign(derivative(nodes))) != 0)
        low, high = nodes[turns + 1], nodes[turns]
        for _ in range(60):
            middle = 0.5 * (low + high)
            same = np.sign(derivative(middle)) == np.sign(derivative(low))
            low, high = np.where(same, middle, low), np.where(same, high, middle)
        return np.concatenate([nodes, low, high])

    @abstractmethod
    def _rounding(self, t: Array) -> Array:
        """Return a bound of the rounding error of s(t)."""

    def line(self, dim: int) -> line.Line:
        """Cells, and K, its pull, div of pull, derivative and primitive between them."""
        if dim == 2:
            return line.CircleLine(self.reach, self._on_circle)
        name = "reach of the kernel, 3 over the angle on which 16 terms make it,"
        return line.latitude_line(dim, self.reach, partial(self._between_latitudes, dim), name)

    def _on_circle(self, targets: Array, sources: Array) -> Array:
        differences = targets - sources
        sine, cosine = np.sin(differences), np.cos(differences)
        value, derivative = self(cosine), self.derivative(cosine)
        divergence = sine * sine * derivative - cosine * value
        pull, along = -sine * value, -sine * derivative
        return np.stack([value, pull, divergence, along, self.primitive(cosine)])

    def _between_latitudes(self, dim: int, targets: Array, sources: Array) -> Array:
        cos_t, sin_t, cos_s, sin_s = (f(a) for a in (targets, sources) for f in (np.cos, np.sin))
        rows = line.ROWS
        total = np.zeros((len(rows), *np.broadcast_shapes(targets.shape, sources.shape)))
        for u, share in zip(*self._latitude_rule(dim), strict=True):
            t = np.clip(cos_t * cos_s + sin_t * sin_s * u, -1.0, 1.0)
            along = cos_t * sin_s * u - sin_t * cos_s
            value, derivative = self(t), self.derivative(t)
            total[rows.potential] += share * value
            total[rows.pull] += share * along * value
            total[rows.divergence] += share * ((1.0 - t * t) * derivative - (dim - 1.0) * t * value)
            total[rows.slope] += share * along * derivative
            total[rows.primitive] += share * self.primitive(t)
        return total

    def _latitude_rule(self, dim: int) -> tuple[Array, Array]:
        """Return nodes and weights that integrate s, S and s' over a latitude."""
        return gauss_gegenbauer(dim - 1, self.highest // 2 + 3)

    def attention(self, measure: Summable, points: Array) -> tuple[Array | float, Array, Array]:
        """u, ∫ s dmu (n,) and ∫ s y dmu (n, d) at unit rows (n, d), in units of e^u."""
        sources, masses = measure.kernel_nodes(self.highest + 1, self.reach)
        if (axis := measure.axis) is None:
            sums = measure.series_sums(self, len(points)) or self
            return sums.sums(sources, masses, points)
        cosines = np.clip(sources @ axis, -1.0, 1.0)
        places = np.column_stack([cosines, np.sqrt((1.0 - cosines) * (1.0 + cosines))])
        latitudes = direct.Latitudes(axis, places, points)
        u, shares = self._latitude_rule(points.shape[1])
        around = np.outer(masses, shares).ravel()
        _, potential, pull = self.sums(latitudes.sources(u), around, latitudes.queries)
        return 0.0, potential, latitudes.vectors(pull)

    def sums(
        self, sources: Array, masses: Array, points: Array, *, of_others: bool = False
    ) -> tuple[float, Array, Array]:
        """0, Σ m_j s (n,) and Σ m_j s y_j (n, d), in blocks; without the terms j = i of others.

        A token's pull on itself is radial, up to rounding of s(1).
        """
        potential, pull = np.empty(len(points)), np.empty((len(points), sources.shape[1]))
        for part in direct.blocks(len(points), len(sources)):
            terms = masses * self(np.clip(points[part] @ sources.T, -1.0, 1.0))
            if of_others:
                np.fill_diagonal(terms[:, part.start :], 0.0)
            potential[part], pull[part] = terms.sum(axis=1), terms @ sources
        return 0.0, potential, pull

    def pull_of_others(self, points: Array, masses: Array) -> tuple[Array, Array, Array]:
        """P_x Σ m_j s y_j (n, d), zeros (n,), and log Σ m_j s where that is positive."""
        _, potential, pull = self.sums(points, masses, points, of_others=True)
        potential += masses * self.at_one
        pull -= np.einsum("ij,ij->i", pull, points)[:, None] * points
        return pull, np.zeros(len(points)), np.log(np.maximum(potential, 1e-300))

    def velocity_and_divergence(
        self, points: Array, sources: tuple[Array, Array]
    ) -> tuple[Array, Array]:
        """X and div X = (Σ m (s' (1-t²) - (d-1) t s) - <X, Σ m s' y>)/G of sums of positive s."""
        (places, masses), dim = sources, points.shape[1]
        _, potential, pull = self.sums(places, masses, points)
        divergence, turned = np.empty(len(points)), np.empty_like(pull)
        for part in direct.blocks(len(points), len(places)):
            t = np.clip(points[part] @ places.T, -1.0, 1.0)
            weighted = masses * self.derivative(t)
            turned[part] = weighted @ places
            terms = weighted * (1.0 - t * t) - (dim - 1.0) * masses * t * self(t)
            divergence[part] = terms.sum(axis=1)
        velocity = pull / potential[:, None]
        velocity -= np.einsum("ij,ij->i", velocity, points)[:, None] * points
        divergence -= np.einsum("ij,ij->i", velocity, turned)
        return velocity, divergence / potential


# a series is resolved if its last terms are at most this share of its largest value
_TAIL = 4e-15
# a divisor may be off by the first number, relative; the second is the largest |s|, whose square
# is still a number
_RELATIVE, _LARGEST = 1e-10, 1e100
# a series must agree with its function at these irregular places, to this share of the largest |s|
_BETWEEN = np.cos(np.pi * np.mod(np.arange(1.0, 4096.0) * (0.5 * (5.0**0.5 - 1.0)), 1.0))
_SAME = 1e-12
# a kernel has at most so many Taylor coefficients, or samples of its function
_MOST_TERMS, _MOST_SAMPLES = 1024, 1 << 12


class PowerSeries(tuple[float, ...], SmoothKernel):
    """Σ_j c_j t^j, the tuple of its coefficients; its multipliers are sums of those of powers.

    Parameters
    ----------
    coefficients : sequence of float

    Raises
    ------
    ValueError
        If there are none, more than 1024, or one is not finite.

    Examples
    --------
    >>> kernel = PowerSeries((1.0, 2.0, 1.0))
    >>> kernel(np.array([1.0])), kernel.primitive(np.array([1.0])).round(12)
    (array([4.]), array([2.33333333]))
    >>> kernel.series(3, 2).potential.round(12)  # (4/3, 2/3, 2/15)
    array([1.33333333, 0.66666667, 0.13333333])
    """

    def __new__(cls, coefficients: ArrayLike) -> Self:
        """Check the coefficients."""
        series = real_array("kernel", coefficients, 1)
        if not 1 <= len(series) <= _MOST_TERMS:
            raise ValueError(
                f"kernel must have 1 to {_MOST_TERMS} Taylor coefficients, got {len(series)}"
            )
        return super().__new__(cls, series.tolist())

    @property
    def highest(self) -> int:  # type: ignore[override]
        """The degree of the polynomial."""
        return len(self) - 1

    def values(self, t: Array) -> Array:
        """s(t)."""
        return np.asarray(polynomial.polyval(t, self))

    def derivative(self, t: Array) -> Array:
        """s'(t)."""
        return np.asarray(polynomial.polyval(t, polynomial.polyder(self)))

    def primitive(self, t: Array) -> Array:
        """S(t), S(0) = 0."""
        return np.asarray(polynomial.polyval(t, polynomial.polyint(self)))

    def _rounding(self, t: Array) -> Array:
        sizes = polynomial.polyval(np.abs(t), np.abs(self))
        return np.asarray(4e-16 * len(self) * sizes)

    def series(self, dim: int, kmax: int) -> Series:
        """Sums of c_j j!/(2^j m! (d/2)_{k+m}), k = j - 2m, the multipliers of t^j."""
        lifted = np.append(0.0, np.array(self) / np.arange(1.0, self.highest + 2.0))
        return Series(_of_powers(self, dim, kmax), _of_powers(lifted, dim, kmax))


def _of_powers(coefficients: Sequence[float] | Array, dim: int, kmax: int) -> Array:
    """Return ∫ Σ c_j t^j P_k(t) dν(t), ν the law of a coordinate under σ, k = 0 … kmax."""
    result, half = np.zeros(kmax + 1), 0.5 * dim
    for j, coefficient in enumerate(coefficients):
        k = np.arange(j % 2, min(j, kmax) + 1, 2)
        m = (j - k) // 2
        logs = special.gammaln(j + 1.0) - j * np.log(2.0) - special.gammaln(m + 1.0)
        logs -= special.gammaln(half + k + m) - special.gammaln(half)
        result[k] += coefficient * np.exp(logs)
    return result


class Sampled(tuple[Function, Function], SmoothKernel):
    """A kernel that is given as a function s with its derivative s', the pair of them.

    Its multipliers are Gauss sums, its primitive the integral of its Chebyshev series, whose last
    quarter must be below 4e-15 of the largest value.

    Parameters
    ----------
    function, derivative : callable
        s and s' of arrays of numbers in [-1, 1].

    Attributes
    ----------
    highest : int
        The degree at which the Chebyshev series ends.

    Raises
    ------
    ValueError
        If they give no finite numbers, 4096 samples do not resolve s, or s' is not its derivative.

    Examples
    --------
    >>> kernel = Sampled(np.exp, np.exp)
    >>> kernel.primitive(np.ones(1)).round(12), kernel.highest
    (array([1.71828183]), 14)
    """

    def __new__(cls, function: Function, derivative: Function) -> Self:
        """Pair the functions."""
        return super().__new__(cls, (function, derivative))

    def __init__(self, function: Function, derivative: Function) -> None:  # noqa: ARG002 (above)
        # many functions are undefined at one of these points, which is seen here
        ends = np.array([-1.0, 0.0, 1.0])
        self(ends), self.derivative(ends)
        self._series = self._resolved()
        self.highest = len(self._series) - 1
        integral = chebyshev.chebint(self._series)
        integral[0] -= chebyshev.chebval(0.0, integral)
        self._integral = integral
        t = _BETWEEN
        stated = self.derivative(t)
        of_series = chebyshev.chebval(t, chebyshev.chebder(self._series))
        gap = np.abs(stated - of_series)
        if gap.max() > 1e-7 * max(np.abs(stated).max(), np.abs(self(t)).max()):
            worst = int(gap.argmax())
            raise ValueError(
                f"kernel must be a pair (s, s') with s' the derivative of s, got "
                f"s'({t[worst]:.4g}) = {stated[worst]:.6g} where s has the slope "
                f"{of_series[worst]:.6g}"
            )

    def __getnewargs__(self) -> tuple[Function, Function]:
        """The pair, of which copies are made."""
        return self[0], self[1]

    def __repr__(self) -> str:
        names = (getattr(f, "__name__", repr(f)) for f in self)
        # a resumed run recognises its kernel by these numbers
        samples = ", ".join(f"{value:.12g}" for value in self(np.array([-1.0, 0.0, 1.0])))
        return "<{} and {}, {} at -1, 0, 1>".format(*names, samples)

    def _resolved(self) -> Array:
        """Return the Chebyshev coefficients of s."""
        count, between = 16, self(_BETWEEN)
        largest = float(np.abs(between).max())
        while count <= _MOST_SAMPLES:
            values = self(np.cos(np.pi * (np.arange(count) + 0.5) / count))
            largest = max(largest, float(np.abs(values).max()))
            if largest == 0.0:
                return np.zeros(1)
            series = fft.dct(values, type=2) / count
            series[0] *= 0.5
            if np.abs(series[-(count // 4) :]).max() <= _TAIL * largest:
                counted = np.flatnonzero(np.abs(series) > 0.05 * _TAIL * largest)
                leading = np.asarray(series[: counted.max(initial=0) + 1])
                # nodes of all powers of 2 may miss the same detail
                largest_miss = np.abs(between - chebyshev.chebval(_BETWEEN, leading)).max()
                if largest_miss < _SAME * largest:
                    return leading
            count *= 2
        share = float(np.abs(series[-(len(series) // 4) :]).max()) / largest
        raise ValueError(
            f"kernel must be smooth on [-1, 1], got {self!r}, whose Chebyshev series has not ended "
            f"after {_MOST_SAMPLES} samples: its last quarter is {share:.1e} > {_TAIL:g} of it"
        )

    def values(self, t: Array) -> Array:
        """s(t)."""
        return _values("s", self[0], t)

    def derivative(self, t: Array) -> Array:
        """s'(t)."""
        return _values("s'", self[1], t)

    def primitive(self, t: Array) -> Array:
        """S(t), S(0) = 0."""
        return np.asarray(chebyshev.chebval(t, self._integral))

    def _rounding(self, t: Array) -> Array:
        # the rounding error of a user's function is unknown; its values are tested for 0 themselves
        return np.zeros_like(t)

    def series(self, dim: int, kmax: int) -> Series:
        """Gauss sums that are exact for the polynomial; of the circle its Chebyshev coefficients.

        Raises
        ------
        ValueError
            If their rounding, times the square root of N_k, is more than 1e-8 of s.
        """
        count = min(kmax, self.degree(dim))
        growth = multiplicity_growth(dim, np.arange(1.0, count + 1.0))
        rounding = 2e-16 * float(np.exp(0.5 * np.log(growth).sum()))
        if rounding > 1e-8:
            raise ValueError(
                f"kernel must be given by Taylor coefficients in dim = {dim}, got {self!r}, of "
                f"degree {self.highest}: rounding of its sums makes {rounding:.1e} of a potential"
            )
        multipliers = np.zeros((2, kmax + 1))
        if dim == 2:
            for row, waves in zip(multipliers, (self._series, self._integral), strict=True):
                row[: len(waves)] = 0.5 * waves[: kmax + 1]
                row[0] *= 2.0
            return Series(*multipliers)
        nodes, weights = gauss_gegenbauer(dim, self.highest + 2)
        polynomials = gegenbauer(dim, count, nodes) * weights
        for row, values in zip(multipliers, (self(nodes), self.primitive(nodes)), strict=True):
            row[: count + 1] = polynomials @ values
        return Series(*multipliers)


def _values(name: str, function: Function, t: Array) -> Array:
    try:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            returned = function(t)
    except Exception as error:
        raise ValueError(
            f"kernel must be functions of arrays, got an {name} that raised {error!r} for an array "
            f"of shape {np.shape(t)}"
        ) from error
    checked = unmasked(f"{name} of kernel", returned)
    if checked.shape not in ((), np.shape(t)) or checked.dtype.kind not in "fiu":
        raise ValueError(
            f"kernel must be real functions of each number, got an {name} that gives shape "
            f"{checked.shape} of {checked.dtype} for an array of shape {np.shape(t)}"
        )
    values = np.array(np.broadcast_to(checked, np.shape(t)), dtype=np.float64)
    if not np.isfinite(values).all():
        where = float(np.asarray(t)[~np.isfinite(values)].ravel()[0])
        raise ValueError(f"kernel must be finite on [-1, 1], got {name}({where:.6g}) not finite")
    return values


@dataclass(frozen=True)
class Phases(Kernel):
    """h(φ - θ) on the circle, by c_k of X(θ) = 2 Re Σ_k c_k m_k e^{ikθ}, m_k = ∫ e^{-ikθ} dmu.

    It has no potential to divide by; its primitive is that of sines alone.

    Parameters
    ----------
    multipliers : tuple of complex
    """

    multipliers: tuple[complex, ...]

    # no field is divided by this kernel, and its tables have no primitive
    least_share, primitive_table = 0.0, None

    def __post_init__(self) -> None:
        factors = np.array(self.multipliers)
        # `largest` bounds |X|, and `at_one` is the derivative of -X at a distance of 0
        largest, at_one = 2.0 * np.abs(factors).sum(), 2.0 * factors.imag @ np.arange(len(factors))
        freeze(self, reach=len(factors) - 1.0, largest=float(largest), at_one=float(at_one))

    def degree(self, dim: int) -> int:  # noqa: ARG002 (of the circle)
        """The largest k."""
        return len(self.multipliers) - 1

    def series(self, dim: int, kmax: int) -> Series:  # noqa: ARG002
        """c_k/(ik), since a space multiplies by ik."""
        factors, series = np.array(self.multipliers[: kmax + 1]), np.zeros(kmax + 1, np.complex128)
        series[1 : len(factors)] = factors[1:] / (1j * np.arange(1, len(factors)))
        return Series(np.eye(1, kmax + 1)[0], series)

    @property
    def _powers(self) -> Array:
        """Return ½ p_k = Im c_k/k, k = 1 …, for sines alone."""
        return np.asarray(np.imag(self.multipliers[1:]) / np.arange(1, len(self.multipliers)))

    def energy_bounds(self) -> tuple[float, float, bool]:
        """From 0 <= |m_k| <= 1."""
        powers = self._powers
        lower, upper = np.minimum(powers, 0.0).sum(), np.maximum(powers, 0.0).sum()
        return float(lower), float(upper), bool((powers >= 0.0).all())

    def energy(self, measure: Summable) -> float:
        """½ Σ_k p_k |m_k|²."""
        factors = self._powers
        moments = measure.trigonometric_moments(len(factors))[1:]
        return float(factors @ (moments.real**2 + moments.imag**2))

    def line(self, dim: int) -> line.Line:  # noqa: ARG002
        """Cells short enough for e^{ikθ}, whose tables are 0, X and ∂X of a unit mass."""
        factors = 2.0 * np.array(self.multipliers)
        orders = np.arange(len(factors))

        def tables(targets: Array, sources: Array) -> Array:
            turn = np.exp(1j * (targets - sources))
            velocity = np.zeros(turn.shape, dtype=np.complex128)
            divergence = np.zeros_like(velocity)
            for factor, k in zip(factors[:0:-1], orders[:0:-1], strict=True):
                velocity = (velocity + factor) * turn
                divergence = (divergence + 1j * k * factor) * turn
            return np.stack([np.zeros(turn.shape), velocity.real, divergence.real])

        return line.CircleLine(self.reach, tables)


def kernel_of(given: object) -> SmoothKernel:
    """The kernel that is given by Taylor coefficients or by a pair (s, s') of functions.

    Raises
    ------
    ValueError
        If it is neither.

    Examples
    --------
    >>> kernel_of([1, 2])
    (1.0, 2.0)
    """
    if isinstance(given, SmoothKernel):
        return given
    entries = list(given) if isinstance(given, tuple | list) else []
    functions = [callable(entry) for entry in entries]
    if functions == [True, True]:
        kernel: SmoothKernel = Sampled(*entries)
    elif isinstance(given, tuple | list | np.ndarray) and not any(functions):
        kernel = PowerSeries(given)
    else:
        raise ValueError(
            f"kernel must be Taylor coefficients or a pair (s, s') of functions, got {shown(given)}"
        )
    kernel.check_size()
    return kernel
