"""The user's own tokens as a law, as they are or smoothed by the heat kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
import scipy
from scipy.special import logsumexp

from meanfield import _checks
from meanfield._checks import freeze, number, real_array, shown, unit_rows
from meanfield._records import key
from meanfield.laws.law import KnownLaw, points_around
from meanfield.laws.series import Pieces, fourier_rows
from meanfield.spaces import FINEST, CircleAt, Places, SphereAt
from meanfield.spaces.gegenbauer import multiplicity_growth, zonal_sum
from meanfield.spaces.geometry import circle_angles, circle_points
from meanfield.typing import Array, ArrayLike, Coefficients

_HIGHEST_DEGREE = 2000
_LOG_NEGLIGIBLE = math.log(1e-18)
_HIGHEST_PEAK = 1e10
_BLOCK = 2**15
# a sum of so many terms takes as long as transforms of few degrees
_MANY_PAIRS = 1 << 20
# so many tokens are compared with one another; a density counts as at least the second number
_MOST_COMPARED, _TINY = 500, 1e-300


def _log_heat(bandwidth: float, dim: int) -> Array:
    """Return log(e^{-bandwidth k(k+d-2)} N_k) for k = 0 … highest degree, concave in k."""
    k = np.arange(_HIGHEST_DEGREE + 1.0)
    # N_k itself may overflow
    log_growth = np.log(multiplicity_growth(dim, k[1:]))
    return np.concatenate([[0.0], np.cumsum(log_growth)]) - bandwidth * k * (k + dim - 2)


def least_bandwidth(dim: int) -> float:
    """The smallest bandwidth for which the series of the heat kernel h is sound in dimension d.

    The terms up to degree 2000 must be enough, and the peak h(0) <= 1e10: at the antipode terms
    of that size cancel, and leave an error of 1e-16 h(0) where h is below 1.

    Examples
    --------
    >>> round(least_bandwidth(3), 7)
    1.24e-05
    """
    log_last = _log_heat(0.0, dim)[-1] - _LOG_NEGLIGIBLE
    by_degree = float(log_last / (_HIGHEST_DEGREE * (_HIGHEST_DEGREE + dim - 2)))

    def excess(log_bandwidth: float) -> float:
        with np.errstate(under="ignore"):
            peak = logsumexp(_log_heat(math.exp(log_bandwidth), dim))
        return float(peak - math.log(_HIGHEST_PEAK))

    if excess(math.log(by_degree)) <= 0.0:
        return by_degree
    return math.exp(scipy.optimize.brentq(excess, math.log(by_degree), math.log(10.0)))


def heat_kernel(bandwidth: float, dim: int) -> Pieces:
    """h(φ) = Σ_k e^{-bandwidth k(k+d-2)} N_k P_k(cos φ) on [0, π], the density of a smoothed token.

    Raises
    ------
    ValueError
        If the bandwidth is not > 0 or too small for the series.
    """
    bandwidth = number("bandwidth", bandwidth, above=0)
    least = least_bandwidth(dim)
    if bandwidth < least:
        # the number in the message is rounded up, so that it is allowed
        raise ValueError(
            f"bandwidth must be >= {1.006 * least:.3g} for points with dim = {dim} (the heat "
            f"kernel of a smaller one is too sharp for its series), got {shown(bandwidth)}"
        )
    degree = _last_degree(bandwidth, dim)
    terms = np.exp(_log_heat(bandwidth, dim)[: degree + 1])
    return Pieces(lambda angles: zonal_sum(dim, terms, np.cos(angles)), degree, np.pi)


def _last_degree(bandwidth: float, dim: int) -> int:
    """Return the degree beyond which no term of the heat kernel matters."""
    return int(np.flatnonzero(_log_heat(bandwidth, dim) >= _LOG_NEGLIGIBLE)[-1])


def likelihood_bandwidth(points: Array, weights: Array) -> float:
    """The bandwidth of the largest leave-one-out likelihood Σ_i w_i log f_{-i}(x_i).

    f_{-i} is the smoothed cloud without its token i (Hall, Watson & Cabrera 1987, Biometrika 74).
    Unlike a rule of thumb it needs no single bump. The search starts at a nearly uniform cloud
    and halves the bandwidth until the likelihood has been smaller three times: of tokens that are
    given twice it may rise again further down. Beyond 500 tokens it is found for so many of them,
    chosen at random but always the same in any order, and scaled by n^{-2/(d+3)} as the
    best one is.

    Parameters
    ----------
    points : ndarray, shape (n, d)
    weights : ndarray, shape (n,)
        Of sum 1.

    Raises
    ------
    ValueError
        If fewer than two tokens have a weight > 0, or the bandwidth is below `least_bandwidth`, as
        it may be where most tokens are given twice.
    """
    # the choice of tokens does not depend on their order
    order = np.lexsort((weights, *points.T))
    order = order[weights[order] > 0.0]
    count, dim = len(order), points.shape[1]
    if count < 2:
        raise ValueError(
            f"bandwidth must be a number: a leave-one-out likelihood needs two points of weight "
            f"> 0, got {count}"
        )
    chosen = np.random.default_rng(0).permutation(order)[:_MOST_COMPARED]
    points_chosen, weights = points[chosen], weights[chosen] / weights[chosen].sum()
    least, first, second = least_bandwidth(dim), *np.triu_indices(len(points_chosen), 1)
    angles = np.arccos(np.clip((points_chosen @ points_chosen.T)[first, second], -1.0, 1.0))

    def misfit(log_bandwidth: float) -> float:
        kernel = heat_kernel(math.exp(log_bandwidth), dim)(angles)
        # the mass 1 - w_i of f_{-i} does not depend on the bandwidth, so it is left out
        with np.errstate(under="ignore"):
            left = np.bincount(first, kernel * weights[second], len(points_chosen))
            left += np.bincount(second, kernel * weights[first], len(points_chosen))
            return -float(weights @ np.log(np.maximum(left, _TINY)))

    tried: list[float] = []
    grid, end = np.log(4.0 / (dim - 1.0) * 0.5 ** np.arange(40.0)), math.log(1.01 * least)
    grid = np.append(grid[grid > end], end)
    for place in grid:
        tried.append(misfit(place))
        best = int(np.argmin(tried))
        if len(tried) > best + 3:
            break
    if best < len(grid) - 1:
        ends = grid[best + 1], grid[max(best - 1, 0)]
        search, to = scipy.optimize.minimize_scalar, {"xatol": 1e-3}
        within = search(misfit, bounds=ends, method="bounded", options=to)
        bandwidth: float = math.exp(within.x) * (len(points_chosen) / count) ** (2.0 / (dim + 3.0))
        if bandwidth >= least:
            return bandwidth
    raise ValueError(
        f"bandwidth must be a number: that of the largest leave-one-out likelihood is below "
        f"{least:.3g}, the least one for points with dim = {dim}, as these points lie too close "
        f"together or are given twice"
    )


@dataclass(frozen=True, init=False, repr=False, eq=False)
class PointCloud(KnownLaw):
    """f(x) = Σ_i w_i Σ_k e^{-bandwidth k(k+d-2)} N_k P_k(<x, x_i>): tokens x_i, smoothed.

    The inner sum is the heat kernel at time `bandwidth` (heat flow ∂_t f = Δf): positive, of mass
    1, and with first moment e^{-bandwidth (d-1)} x_i. In a small ball it is a Gaussian of variance
    2·bandwidth in each direction.

    Parameters
    ----------
    points : array_like, shape (n, d)
        Unit rows x_i (within 1e-6, then normalised).
    weights : array_like, shape (n,), optional
        Non-negative, of sum 1; equal if omitted.
    bandwidth : float or "likelihood", optional
        Without one the law has no density, and draws are tokens. The least one allowed is about
        1e-5 for d <= 5 and 0.014 for any d. "likelihood" takes `likelihood_bandwidth`.
    unit_mass : bool
        Whether weights are divided by their sum.

    Raises
    ------
    ValueError
        If points or weights are not of that kind, or the bandwidth is too small.

    Examples
    --------
    >>> law = PointCloud([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], bandwidth=0.5)
    >>> law
    PointCloud(n=2, dim=3, bandwidth=0.5)
    >>> law.pdf([[0.0, 1.0, 0.0]]).round(6)
    array([0.875686])
    """

    points: Array = field(
        metadata=key(
            'the name of a CSV, NPY or NPZ file, "tokens-s2", or a list of unit rows',
            str | list[list[float]],
        )
    )
    weights: Array = field(
        metadata=key("a number >= 0 for each point, of sum 1; equal if left out", list[float])
    )
    bandwidth: float | None = field(
        metadata=key(
            'the time of the heat kernel that smooths the tokens, > 0, or "likelihood"',
            float | Literal["likelihood"],
            exclusiveMinimum=0,
        )
    )

    def __init__(
        self,
        points: ArrayLike,
        weights: ArrayLike | None = None,
        *,
        bandwidth: float | Literal["likelihood"] | None = None,
        unit_mass: bool = False,
    ) -> None:
        points = unit_rows("points", points)
        weights = _checks.weights("weights", weights, len(points), unit_mass)
        if isinstance(bandwidth, str):
            if bandwidth != "likelihood":
                raise ValueError(
                    f"bandwidth must be a number > 0 or 'likelihood', got {shown(bandwidth)}"
                )
            bandwidth = likelihood_bandwidth(points, weights)
        bandwidth = None if bandwidth is None else number("bandwidth", bandwidth, above=0)
        freeze(self, points=points, weights=weights, bandwidth=bandwidth, dim=points.shape[1])
        # a bandwidth too small for the series is refused here
        if bandwidth is not None:
            _ = self._kernel

    @classmethod
    def from_histogram(
        cls, counts: ArrayLike, edges: ArrayLike | None = None, *, bandwidth: float | None = None
    ) -> PointCloud:
        """The density of a histogram of angles, as `numpy.histogram` gives it.

        The counts, divided by their sum, stand at the middles of their bins and are smoothed by the
        heat kernel. If its bandwidth is omitted it is w²/2 for the widest bin w, a standard
        deviation of one bin: of equal bins then 2 e^{-2π²} = 5e-9 of the density can be seen.

        Parameters
        ----------
        counts : array_like, shape (n,)
        edges : array_like, shape (n + 1,), optional
            Edges of the bins, ascending, in radians, a turn at most; equal bins of [0, 2π] if
            omitted.
        bandwidth : float, optional

        Raises
        ------
        ValueError
            If counts or edges are not of that kind, or the bandwidth is too small.

        Examples
        --------
        >>> PointCloud.from_histogram([3, 1, 0, 1, 2, 5, 9, 6])
        PointCloud(n=8, dim=2, bandwidth=0.308425)
        """
        counts = real_array("counts", counts, 1)
        shares = _checks.weights("counts", counts, len(counts), unit_mass=True)
        if edges is None:
            edges = np.linspace(0.0, 2.0 * np.pi, len(counts) + 1)
        edges = real_array("edges", edges, 1)
        widths = np.diff(edges)
        # 2π in single precision is a little more than 2π
        if len(widths) != len(counts) or widths.min() <= 0.0 or widths.sum() > 2.0 * np.pi + 1e-6:
            raise ValueError(
                f"edges must be {len(counts) + 1} ascending angles in radians within one turn (of "
                f"degrees take np.deg2rad), got {len(edges)} from {edges[0]:g} to {edges[-1]:g}"
            )
        points = circle_points(edges[:-1] + 0.5 * widths)
        width = 0.5 * float(widths.max()) ** 2 if bandwidth is None else bandwidth
        return cls(points, shares, bandwidth=number("bandwidth", width, above=0))

    def __repr__(self) -> str:
        smoothed = "" if self.bandwidth is None else f", bandwidth={self.bandwidth:g}"
        return f"PointCloud(n={len(self.points)}, dim={self.dim}{smoothed})"

    @cached_property
    def _kernel(self) -> Pieces:
        """Return the kernel that smooths a token."""
        return heat_kernel(self._smoothing, self.dim)

    @property
    def has_density(self) -> bool:
        """Whether there is a bandwidth."""
        return self.bandwidth is not None

    @cached_property
    def _harmonics(self) -> tuple[SphereAt, Coefficients]:
        """The series on S^2: each degree of the tokens' moments times that of the heat kernel."""
        basis = SphereAt(_last_degree(self._smoothing, self.dim), FINEST)
        return basis, self._smoothed(basis)

    @cached_property
    def _on_circle(self) -> Pieces:
        """Return the series over the angle on the circle."""
        basis = CircleAt(_last_degree(self._smoothing, self.dim))
        waves = np.asarray(2.0 * self._smoothed(basis)[1:], dtype=np.complex128)
        return Pieces(lambda rows: fourier_rows(waves, rows), basis.kmax, 2.0 * np.pi)

    def _smoothed(self, basis: CircleAt | SphereAt) -> Coefficients:
        """Return the moments of the tokens after the time `bandwidth` of the heat flow."""
        eigenvalues = basis.degrees * (basis.degrees + self.dim - 2.0)
        with np.errstate(under="ignore"):
            heat = np.exp(-self._smoothing * eigenvalues)
            return np.asarray(heat * basis.point_moments(self.points, self.weights))

    @property
    def _smoothing(self) -> float:
        """Return the bandwidth; refuse a law without one, which has no density.

        Raises
        ------
        ValueError
            If there is none.
        """
        if self.bandwidth is None:
            raise ValueError(
                f"bandwidth must be a number > 0 for a density, got {self.bandwidth}: "
                "tokens alone have none"
            )
        return self.bandwidth

    def _pdf(self, points: Array) -> Array:
        """Return f at unit rows (m, d), shape (m,).

        On the circle, and on S^2 from a million pairs on, it is a series, in O(n + m). Elsewhere
        the tokens are summed in blocks, in O(n m) time and O(n + m) memory. The error of either is
        about 1e-14 of the peak h(0) of a single token, plus 1e-16/bandwidth of f; values below
        that are rounding, cut at 0.
        """
        if self.dim == 2:
            density = self._on_circle(circle_angles(points))
        elif self.dim == 3 and len(points) * len(self.points) >= self._many:
            basis, coefficients = self._harmonics
            density = basis.values(coefficients, Places.of(points))
        else:
            density = self._over_tokens(points)
        return np.maximum(density, 0.0)

    @property
    def _many(self) -> float:
        """The number of pairs whose sum takes longer than transforms of the series on S^2."""
        return _MANY_PAIRS + _last_degree(self._smoothing, self.dim) ** 3 / 60.0

    def _over_tokens(self, points: Array) -> Array:
        """Return the sum over the tokens, before negative values of rounding are cut."""
        density = np.zeros(len(points))
        tokens_at_once = min(len(self.points), _BLOCK)
        rows_at_once = max(1, _BLOCK // tokens_at_once)
        for start in range(0, len(self.points), tokens_at_once):
            tokens = slice(start, start + tokens_at_once)
            for row in range(0, len(points), rows_at_once):
                rows = slice(row, row + rows_at_once)
                angles = np.arccos(np.clip(points[rows] @ self.points[tokens].T, -1.0, 1.0))
                density[rows] += self._kernel(angles) @ self.weights[tokens]
        return density

    def _draw(self, n: int, rng: np.random.Generator) -> Array:
        """Draw n independent unit rows (n, d): a token, and a step of heat from there.

        The polar angle about the token is drawn by rejection from a proved bound.
        """
        tokens = self.points[rng.choice(len(self.points), size=n, p=self.weights)]
        if self.bandwidth is None:
            return tokens
        return points_around(tokens, self._kernel.sample(n, self.dim - 2, rng), rng)
