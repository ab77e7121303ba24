"""Sums of kernels over points of S^2 through spherical harmonics."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from meanfield.kernels.bilinear import SphereBilinear
from meanfield.kernels.direct import Lost, log_moment
from meanfield.kernels.kernel import Exponential, SmoothKernel
from meanfield.spaces import Places, SphereAt
from meanfield.spaces.circle import EPSILON
from meanfield.spaces.geometry import project
from meanfield.typing import Array, Coefficients, Indices

# a series of G has errors of some 1e-15 of its maximum (2e-13 at small β, where G varies little):
# below this share of it, positive terms are summed
_SMALL = 1e-3
# up to so many terms may be summed one by one where the series still has most digits
_MOST_PAIRS = 1 << 24
# a potential that divides is at least this
_TINY = 1e-300
# below this share of the largest G positive terms are summed, however many there are
_NO_DIGITS = 1e-6


class SphereSums:
    """∫ s dmu and P_x ∫ s y dmu of a kernel s(<x,y>) on S^2, through its multipliers.

    Moments mu_lm up to the kernel's bandwidth, times its multipliers, are evaluated by non-uniform
    transforms, whose errors are relative to the largest potential. For tokens, where the potential
    is below 1e-3 of its scale, and that of the kernel may be, the sum over all of them is taken
    instead, whose error is one of rounding. For e^{βt} both keep 1e-12 of G itself.

    Parameters
    ----------
    kernel : Exponential or SmoothKernel
        For tokens of a reach of at most 10000.
    epsilon : float, optional
        Of the transforms, see `SphereAt`.

    Attributes
    ----------
    kernel : Exponential or SmoothKernel
    at : SphereAt
        The transforms, up to the degree where multipliers no longer count.
    series : Series
        The multipliers, by degree.
    potential_factors, primitive_factors : ndarray, shape (n_coefficients,)
        Multipliers of s and of its primitive, by coefficient.

    Examples
    --------
    >>> sums = SphereSums(Exponential(1.0))
    >>> points = np.array([[1.0, 0.0, 0.0]])
    >>> log_g, mean = sums.log_moment(points, np.ones(1), np.array([[0.0, 1.0, 0.0]]))
    >>> log_g.round(12) + 0.0, mean.round(12) + 0.0
    (array([0.]), array([[1., 0., 0.]]))
    """

    largest_beta = 1e4

    def __init__(self, kernel: Exponential | SmoothKernel, epsilon: float = EPSILON) -> None:
        self.kernel, self.at = kernel, SphereAt(kernel.degree(3), epsilon)
        degrees, self.series = self.at.degrees, kernel.series(3, self.at.lmax)
        self.potential_factors = self.series.potential[degrees]
        self.primitive_factors = self.series.primitive[degrees]

    def potential(self, moments: Coefficients, places: Places) -> Array:
        """∫ s dmu, shape (n,), in units of the series."""
        return self.at.values(self.potential_factors * moments, places)

    def pull(self, moments: Coefficients, places: Places) -> Array:
        """P_x ∫ s y dmu, shape (n, 3), in units of the series."""
        return self.at.gradient(self.primitive_factors * moments, places)

    @cached_property
    def _radial(self) -> Array:
        """The multipliers of t s(t), ((l + 1) Λ_{l+1} + l Λ_{l-1})/(2l + 1), by coefficient."""
        degrees = np.arange(self.at.lmax + 1.0)
        above, below = (np.roll(self.series.potential, shift) for shift in (-1, 1))
        # Λ beyond the last degree is 0, and Λ_{-1} is multiplied by 0
        above[-1] = 0.0
        radial = ((degrees + 1.0) * above + degrees * below) / (2.0 * degrees + 1.0)
        return np.asarray(radial[self.at.degrees])

    def log_moment(self, points: Array, masses: Array, at: Array) -> tuple[Array, Array]:
        """log G(βx), shape (m,), and ∇ log G(βx), shape (m, 3), at unit rows `at` (m, 3).

        Of exponentials, G(z) = Σ_j m_j e^{<z,y_j>}.
        """
        log_unit, potential, pull = self.sums(points, masses, at)
        potential = np.maximum(potential, _TINY)
        return log_unit + np.log(potential), pull / potential[:, None]

    def sums(self, points: Array, masses: Array, at: Array) -> tuple[Array, Array, Array]:
        """u (m,), Σ m_j s (m,) and Σ m_j s y_j (m, 3) at unit rows `at` (m, 3), in units of e^u."""
        places = Places.of(at)
        moments, log_unit, potential, pull, small = self._sums(points, masses, at, places, np.inf)
        along = self.at.values(self._radial * moments, places)
        along[small] = 0.0
        return log_unit, potential, pull + along[:, None] * at

    def energy(self, points: Array, masses: Array) -> float:
        """½ Σ m_i m_j S(<x_i,x_j>), S' = s, in units of e^{log_unit} of the series."""
        return self.series.energy(self.at.power(self.at.point_moments(points, masses)))

    def pull_of_others(
        self, points: Array, masses: Array, most_pairs: float = _MOST_PAIRS
    ) -> tuple[Array, Array, Array]:
        """P_x Σ m_j s y_j (n, 3) in units of e^{u_i}, u (n,), and log Σ m_j s where that is > 0.

        No more than `most_pairs` terms are summed, at the smallest potential first. Then the error
        where it is a share s < 1e-3 of its scale may grow to about 1e-15/s.
        """
        places = Places.of(points)
        _, log_unit, potential, pull, _ = self._sums(points, masses, points, places, most_pairs)
        return project(points, pull), log_unit, log_unit + np.log(np.maximum(potential, _TINY))

    def _sums(
        self, points: Array, masses: Array, at: Array, places: Places, most_pairs: float
    ) -> tuple[Coefficients, Array, Array, Array, Indices]:
        """Return moments, unit, ∫ s dmu and P_x ∫ s y dmu.

        The places where positive terms replace both sums follow.
        """
        sources = places if at is points else Places.of(points)
        moments = self.at.moments(sources, masses)
        potential, pull = self.potential(moments, places), self.pull(moments, places)
        log_unit = np.full(len(at), self.series.log_unit + float(np.log(self.series.unit)))
        mean = float(self.series.potential @ self.at.power(moments)) / float(masses.sum())
        small = small_places(self.kernel, potential, mean, len(points), most_pairs)
        if len(small):
            pair_sums = self.kernel.sums(points, masses, at[small])
            log_unit[small], potential[small], pull[small] = pair_sums
        return moments, log_unit, potential, pull, small


def small_places(
    kernel: Exponential | SmoothKernel,
    potential: Array,
    mean: float,
    sources: int,
    most_pairs: float = np.inf,
) -> Indices:
    """Places at which a potential that may be divided by is so small that its series lost digits.

    Parameters
    ----------
    kernel : Exponential or SmoothKernel
        The potentials of one with two signs vanish somewhere, and are divided by nowhere.
    potential : ndarray, shape (m,)
    mean : float
        That of the potential over the measure, which is no more than its maximum: no place may be
        near that.
    sources : int
        So many terms are summed in its stead at each place.
    most_pairs : float
        Of all of them, at the smallest potential first.
    """
    if not 0.0 < kernel.least_share < _SMALL:
        return np.zeros(0, dtype=np.intp)
    return Lost(_SMALL, most_pairs).places(potential, max(float(potential.max()), mean), sources)


class SphereNodes:
    """Sums of e^{β(<x,y>-1)} over masses at points of S^2, at these points, for many masses.

    Rows of small G are summed over all pairs.

    Parameters
    ----------
    points : ndarray, shape (n, 3)
    sums : SphereSums
        Of e^{βt}.
    most_pairs : int
        So many terms may be summed one by one, at the smallest G first. The error of a G that is a
        share s < 1e-3 of the largest, and is not among them, is about 1e-15/s.
    """

    def __init__(self, points: Array, sums: SphereSums, most_pairs: int = _MOST_PAIRS) -> None:
        self._points, self._places = points, Places.of(points)
        self._sums, self._most_pairs, self._beta = sums, most_pairs, sums.kernel.reach
        series = sums.series
        self._unit = series.unit * float(np.exp(series.log_unit - self._beta))
        self._small: Indices | None = None
        self._rows = np.zeros((0, len(points)))

    def potential(self, masses: Array) -> Array:
        """G = Σ_j k_ij m_j, shape (n,)."""
        return self._potential(self._sums.at.moments(self._places, masses), masses)

    def _potential(self, moments: Coefficients, masses: Array) -> Array:
        potential = self._unit * self._sums.potential(moments, self._places)
        if self._small is None:
            self._keep_small(potential)
        if len(self._rows):
            with np.errstate(under="ignore"):
                potential[self._small] = self._rows @ masses
        # a sum with errors is at least its own term
        return np.maximum(potential, masses)

    def _keep_small(self, potential: Array) -> None:
        """Keep the rows of the kernel at the nodes where the first G is small."""
        lost = Lost(_SMALL, self._most_pairs)
        self._small = lost.places(potential, float(potential.max()), len(self._points))
        with np.errstate(under="ignore"):
            exponents = self._points[self._small] @ (self._beta * self._points).T - self._beta
            self._rows = np.exp(np.minimum(exponents, 0.0))

    def pull(self, masses: Array) -> tuple[Array, Array]:
        """G (n,) and P_x Σ_j k_ij m_j y_j, shape (n, 3)."""
        moments = self._sums.at.moments(self._places, masses)
        potential = self._potential(moments, masses)
        pull = self._unit * self._sums.pull(moments, self._places)
        if len(self._rows):
            with np.errstate(under="ignore"):
                pull[self._small] = self._rows @ (masses[:, None] * self._points)
        return np.maximum(potential, _TINY), project(self._points, pull)


class SphereScoreSums:
    """log G(Mx) and ∇ log G(Mx) of heads M, G(z) = Σ_j m_j e^{<z,y_j>}, for tokens on S^2.

    Moments mu_lm by one non-uniform transform, through the kernel's matrix to harmonics in x
    (`SphereBilinear`) for each head, which are evaluated by others. Where G is below 1e-3 of its
    scale, the sum over all tokens is taken instead: errors of G itself are 1e-12 of it. But of 1e-6
    to 1e-3 of its scale 2^24 terms at most are summed, smallest first; the error may grow there to
    about 1e-14 over that share.

    Parameters
    ----------
    matrices : sequence of ndarray, shape (3, 3)
        |M|_2 <= 128.

    Raises
    ------
    ValueError
        If |M|_2 > 128.

    Examples
    --------
    >>> sums = SphereScoreSums([np.diag([1.0, 2.0, 3.0])])
    >>> points = np.array([[0.0, 1.0, 0.0]])
    >>> [(log_g, mean)] = sums.log_moments(points, np.ones(1), points)
    >>> log_g.round(11), mean.round(11) + 0.0
    (array([2.]), array([[0., 1., 0.]]))
    """

    def __init__(self, matrices: Sequence[Array]) -> None:
        self._heads = [SphereBilinear(matrix) for matrix in matrices]
        self._sources = SphereAt(max(head.source_degree for head in self._heads))
        degrees = self._sources.degrees
        self._rows = [np.flatnonzero(degrees <= head.source_degree) for head in self._heads]
        self._targets = [SphereAt(head.degree) for head in self._heads]

    def log_moments(self, points: Array, masses: Array, at: Array) -> list[tuple[Array, Array]]:
        """log G(Mx) (m,) and ∇ log G(Mx) (m, 3) of each head at unit rows `at` (m, 3)."""
        places = Places.of(at)
        sources = places if at is points else Places.of(points)
        moments, logs = self._sources.moments(sources, masses), []
        for head, rows, targets in zip(self._heads, self._rows, self._targets, strict=True):
            series, scale = head.coefficients(moments[rows]), head.mean_potential(moments[rows])
            potential, *parts = (targets.values(row, places) for row in series)
            scale = max(float(potential.max()), scale / float(masses.sum()))
            # a potential that rounding made negative is computed again below
            np.maximum(potential, _TINY, out=potential)
            log_g = np.log(potential) + head.log_unit
            mean = np.stack(parts, axis=1) / potential[:, None]
            lost = Lost(_SMALL, _MOST_PAIRS, always=_NO_DIGITS)
            small = lost.places(potential, scale, len(points))
            if len(small):
                log_g[small], mean[small] = log_moment(points, masses, at[small] @ head.matrix.T)
            logs.append((log_g, mean))
        return logs
