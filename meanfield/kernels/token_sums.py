"""Sums over n tokens at once, in O(n): cells on the circle, harmonics on S^2."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np

from meanfield.kernels.bilinear import SphereBilinear, largest_score
from meanfield.kernels.direct import Lost, log_moment
from meanfield.kernels.kernel import Exponential, SmoothKernel
from meanfield.kernels.line import LAGRANGE, NODES, CircleLine, DenseLine, chebyshev, node_count
from meanfield.kernels.multipliers import bandwidth, log_eigenvalues, relative_eigenvalues
from meanfield.spaces.geometry import circle_angles, project
from meanfield.spaces.sphere_fields import Places, SphereAt
from meanfield.typing import Array, Coefficients, Indices


def fewest_pairs(beta: float, dim: int, *, once: bool = False) -> float:
    """Pairs from which sums of e^{β<x,y>} are taken in O(n); inf where there are no such sums.

    Parameters
    ----------
    beta : float
    dim : int
    once : bool
        Whether tables are built for one call, as for a single measure, not for a run.

    Examples
    --------
    >>> [round(fewest_pairs(beta, 2) ** 0.5) for beta in (1.0, 100.0)], fewest_pairs(1.0, 4)
    ([259, 1237], inf)
    """
    largest = {2: CircleSums.largest_beta, 3: SphereSums.largest_beta}
    if beta > largest.get(dim, -1.0):
        return np.inf
    tables = float(once << 18)
    if dim == 2:
        return tables + 2**16 + node_count(2, beta) ** 2 / 8
    return tables + 2**17 + 100 * _harmonics(beta)


def fewest_score_pairs(matrix: Array, *, once: bool = False) -> float:
    """Pairs from which sums of e^{<Mx,y>}, M (d, d), are taken in O(n); inf where there are none.

    Examples
    --------
    >>> [round(fewest_score_pairs(np.eye(dim)) ** 0.5) for dim in (2, 3)]
    [279, 649]
    """
    largest = {2: CircleScoreSums.largest_score, 3: SphereBilinear.largest_score}
    size = largest_score(matrix)
    if size > largest.get(len(matrix), -1.0):
        return np.inf
    if len(matrix) == 2:
        nodes = node_count(2, size)
        return float(2**18 + 40 * nodes**2 if once else 2**16 + nodes**2)
    entries = _harmonics(size) ** 2
    return 2**22 + 15 * entries if once else 3 * 2**17 + entries / 3


def _harmonics(beta: float) -> float:
    """About the square of `harmonics.bandwidth(beta, 3)`, which takes longer than a thousand pairs.

    Λ_k is e^{-k²/2β} Λ_0 or so, hence k² grows like β.
    """
    return 200.0 + 92.0 * beta


# which angles, their cells, and T_k at their places there, shape (16, n)
Block = tuple[slice, Indices, Array]

# angles at a time, so that their Chebyshev polynomials stay in the cache
_BLOCK = 1 << 14


class CellSums:
    """Sums over tokens through the nodes of the cells of a line.

    Parameters
    ----------
    line : CircleLine or DenseLine
    """

    def __init__(self, line: CircleLine | DenseLine) -> None:
        self._line = line
        self._cells = line.size // NODES

    def _blocks(self, angles: Array) -> Iterator[Block]:
        """Cells and Chebyshev polynomials of some angles at a time; the next block overwrites."""
        terms = np.empty((NODES, min(_BLOCK, len(angles))))
        for start in range(0, len(angles), _BLOCK):
            part = slice(start, start + _BLOCK)
            cell, place = self._line.cells(angles[part])
            block = terms[:, : len(place)]
            chebyshev(place, block)
            yield part, cell, block

    def _at(self, points: Array, masses: Array, at: Array) -> Array:
        """The tables (tables, m) summed over masses at points of the circle, at others."""
        fields = self._line.fields(self._charges(self._blocks(circle_angles(points)), masses))
        return self._series(fields, self._blocks(circle_angles(at)), len(at))

    def _charges(self, blocks: Iterable[Block], masses: Array) -> Array:
        moments = np.zeros((NODES, self._cells))
        for part, cell, terms in blocks:
            for moment, term in zip(moments, terms, strict=True):
                moment += np.bincount(cell, term * masses[part], self._cells)
        return (moments.T @ LAGRANGE).ravel()

    def _series(self, fields: Array, blocks: Iterable[Block], count: int) -> Array:
        """Values (tables, count) of the tables at the nodes, shape (size, tables), in blocks."""
        cells = fields.reshape(self._cells, NODES, -1)
        series = np.ascontiguousarray(np.einsum("kj,cjf->fkc", LAGRANGE, cells))
        values, buffer = np.zeros((len(series), count)), np.empty(min(_BLOCK, count))
        for part, cell, terms in blocks:
            product = buffer[: len(cell)]
            for value, coefficients in zip(values[:, part], series, strict=True):
                for coefficient, term in zip(coefficients, terms, strict=True):
                    np.take(coefficient, cell, out=product, mode="clip")
                    product *= term
                    value += product
        return values

    def potential_and_slope(self, angles: Array, masses: Array) -> tuple[Array, Array]:
        """The first two tables, G and the pull along the angle, at the tokens, shape (n,) each."""
        # a single block serves both ways
        once = list(self._blocks(angles)) if len(angles) <= _BLOCK else None
        fields = self._line.fields(self._charges(once or self._blocks(angles), masses))[:, :2]
        potential, slope = self._series(fields, once or self._blocks(angles), len(angles))
        return potential, slope


class CircleSums(CellSums):
    """log G(βx) and ∇ log G(βx), G(z) = Σ_j m_j e^{<z,y_j>}, for tokens on the circle.

    Masses are gathered into Chebyshev moments of the cells of a `CircleLine`, and the potential of
    the cells is a Chebyshev series in each: relative to G itself, errors are about 1e-14, however
    far a point is from all tokens.

    Parameters
    ----------
    beta : float
        At most 100.

    Examples
    --------
    >>> sums = CircleSums(1.0)
    >>> points = np.array([[1.0, 0.0]])
    >>> log_g, mean = sums.log_moment(points, np.ones(1), np.array([[0.0, 1.0]]))
    >>> log_g.round(12) + 0.0, mean.round(12) + 0.0
    (array([0.]), array([[1., 0.]]))
    """

    largest_beta = 100.0

    def __init__(self, beta: float) -> None:
        self.beta = beta
        super().__init__(CircleLine(beta, partial(_kernel, beta)))

    def log_moment(self, points: Array, masses: Array, at: Array) -> tuple[Array, Array]:
        """log G(βx), shape (m,), and ∇ log G(βx), shape (m, 2), at unit rows `at` (m, 2)."""
        potential, along, across = self._at(points, masses, at)
        mean = (across / potential)[:, None] * at
        mean += (along / potential)[:, None] * np.column_stack([-at[:, 1], at[:, 0]])
        return np.log(potential) + self.beta, mean


class CircleScoreSums(CellSums):
    """log G(Mx) and ∇ log G(Mx), G(z) = Σ_j m_j e^{<z,y_j>}, for tokens on the circle.

    As `CircleSums`, with a dense product between the cells: errors are about 1e-14 relative to G
    itself.

    Parameters
    ----------
    matrix : ndarray, shape (2, 2)
        M, |M|_2 <= 100.

    Examples
    --------
    >>> sums = CircleScoreSums(np.diag([1.0, 2.0]))
    >>> points = np.array([[0.0, 1.0]])
    >>> log_g, mean = sums.log_moment(points, np.ones(1), points)
    >>> log_g.round(12), mean.round(12) + 0.0
    (array([2.]), array([[0., 1.]]))
    """

    largest_score = 100.0

    def __init__(self, matrix: Array) -> None:
        self._score = largest_score(matrix)
        super().__init__(DenseLine(2, self._score, partial(_scores, matrix, self._score)))

    def log_moment(self, points: Array, masses: Array, at: Array) -> tuple[Array, Array]:
        """log G(Mx), shape (m,), and ∇ log G(Mx), shape (m, 2), at unit rows `at` (m, 2)."""
        potential, *parts = self._at(points, masses, at)
        return np.log(potential) + self._score, np.stack(parts, axis=1) / potential[:, None]

    # all digits are there, however small G is
    quick = log_moment


def _scores(matrix: Array, unit: float, targets: Array, sources: Array) -> Array:
    """e^{<Mx,y>} and its products with y, x and y at angles, in units of e^{unit}: G and ∇G."""
    y = np.stack([np.cos(sources), np.sin(sources)])
    z = np.tensordot(matrix, np.stack([np.cos(targets), np.sin(targets)]), axes=1)
    with np.errstate(under="ignore"):
        kernel = np.exp(z[0] * y[0] + z[1] * y[1] - unit)
        return np.stack([kernel, kernel * y[0], kernel * y[1]])


def _kernel(beta: float, targets: Array, sources: Array) -> Array:
    """K = e^{β(cos a - 1)}, -sin(a) K and cos(a) K for a = target - source: G, and ∇G in parts."""
    apart = targets - sources
    half = np.sin(0.5 * apart)
    with np.errstate(under="ignore"):
        kernel = np.exp(-2.0 * beta * half * half)
        return np.stack([kernel, -np.sin(apart) * kernel, np.cos(apart) * kernel])


# a series of G has errors of some 1e-15 of its maximum (2e-13 at small β, where G varies little):
# below this share of it, sum positive terms
_SMALL = 1e-3
# terms that may be summed one by one where the series still has most digits
_MOST_PAIRS = 1 << 24


# moments of a measure, and G/Λ_0 and P_x ∇ log G at points
Series = tuple[Coefficients, Array, Array]


class SphereSums:
    """log G(βx) and ∇ log G(βx), G(z) = Σ_j m_j e^{<z,y_j>}, for tokens on S^2.

    Moments mu_lm up to the kernel's bandwidth, times Λ_l, evaluated by non-uniform transforms,
    whose errors are relative to the largest G. Where G is below 1e-3 of that, the sum over all
    tokens is taken instead, whose error is one of rounding. Both keep 1e-12 of G itself.

    Parameters
    ----------
    beta : float
        At most 10000.

    Examples
    --------
    >>> sums = SphereSums(1.0)
    >>> points = np.array([[1.0, 0.0, 0.0]])
    >>> log_g, mean = sums.log_moment(points, np.ones(1), np.array([[0.0, 1.0, 0.0]]))
    >>> log_g.round(12) + 0.0, mean.round(12) + 0.0
    (array([0.]), array([[1., 0., 0.]]))
    """

    largest_beta = 1e4

    def __init__(self, beta: float) -> None:
        self.beta = beta
        self._at = SphereAt(bandwidth(beta, 3))
        degrees, lmax = self._at.degrees, self._at.lmax
        kernel = relative_eigenvalues(beta, 3, lmax + 1)
        # at β = 0, G = 1 and ∇G is the mean: Λ_1/β → 1/3
        share = kernel[:-1] / beta if beta > 0.0 else np.eye(1, lmax + 1, 1)[0] / 3.0
        # dΛ_l/dβ = Λ_{l+1} + (l/β) Λ_l
        radial = kernel[1:] + np.arange(lmax + 1) * share
        self._degree_shares = kernel[:-1]
        self._kernel, self._slope = kernel[degrees], share[degrees]
        self._radial = radial[degrees]
        self._log_unit = float(log_eigenvalues(beta, 3, 0)[0])

    def log_moment(self, points: Array, masses: Array, at: Array) -> tuple[Array, Array]:
        """log G(βx), shape (m,), and ∇ log G(βx), shape (m, 3), at unit rows `at` (m, 3)."""
        places = Places.of(at)
        series = moments, potential, mean = self._tangential(points, masses, at, places)
        mean += (self._at.values(self._radial * moments, places) / potential)[:, None] * at
        return self._with_small((points, masses), at, series, np.inf)

    def pull(
        self, points: Array, masses: Array, at: Array, *, most_pairs: float = np.inf
    ) -> tuple[Array, Array]:
        """log G(βx) and P_x ∇ log G(βx), as `log_moment`.

        With `most_pairs` no more than that many terms are summed, at the smallest G first. Then
        the error where G is a share s < 1e-3 of the largest may grow to about 1e-15/s.
        """
        series = self._tangential(points, masses, at, Places.of(at))
        log_g, pull = self._with_small((points, masses), at, series, most_pairs)
        return log_g, project(at, pull)

    def pull_of_others(self, points: Array, masses: Array) -> tuple[Array, Array, Array]:
        """`pull` at the tokens with 2^24 terms at most, in units of G, and twice log G."""
        log_g, pull = self.pull(points, masses, points, most_pairs=_MOST_PAIRS)
        return pull, log_g, log_g

    def _tangential(self, points: Array, masses: Array, at: Array, places: Places) -> Series:
        sources = places if at is points else Places.of(points)
        moments = self._at.moments(sources, masses)
        potential = self._at.values(self._kernel * moments, places)
        # sums that are negative by rounding are computed again
        np.maximum(potential, 1e-300, out=potential)
        pull = self._at.gradient(self._slope * moments, places)
        pull /= potential[:, None]
        return moments, potential, pull

    def _with_small(
        self, measure: tuple[Array, Array], at: Array, series: Series, most_pairs: float
    ) -> tuple[Array, Array]:
        """log G and ∇ log G, with positive sums over points and masses where G is small."""
        (points, masses), (moments, potential, mean) = measure, series
        # the mean of G over the measure is no larger than its maximum, and no point need be near it
        inside = float(self._degree_shares @ self._at.power(moments)) / float(masses.sum())
        scale = max(float(potential.max()), inside)
        small = Lost(_SMALL, most_pairs).places(potential, scale, len(points))
        log_g = np.log(potential) + self._log_unit
        if len(small):
            log_g[small], mean[small] = log_moment(points, masses, self.beta * at[small])
        return log_g, mean


class SphereKernelSums:
    """Sums of any smooth kernel at tokens on S^2, through its multipliers.

    Where the potential is below 1e-3 of its largest, and the kernel may be, pairs are summed.

    Parameters
    ----------
    kernel : SmoothKernel
    """

    def __init__(self, kernel: SmoothKernel) -> None:
        self._kernel, self._at = kernel, SphereAt(kernel.degree(3))
        series = kernel.series(3, self._at.lmax)
        self._potential = series.potential[self._at.degrees]
        self._primitive = series.primitive[self._at.degrees]

    def pull_of_others(self, points: Array, masses: Array) -> tuple[Array, Array, Array]:
        """P_x Σ m_j s y_j (n, 3), zeros (n,), and log Σ m_j s where that is positive."""
        places = Places.of(points)
        moments = self._at.moments(places, masses)
        pull = self._at.gradient(self._primitive * moments, places)
        potential = self._at.values(self._potential * moments, places)
        if self._kernel.least_share < _SMALL:
            lost = Lost(_SMALL, _MOST_PAIRS)
            small = lost.places(potential, float(potential.max()), len(points))
            potential[small], pull[small] = self._kernel.sums(points, masses, points[small])
        return project(points, pull), np.zeros(len(points)), np.log(np.maximum(potential, 1e-300))


# below this share of the largest G positive terms are summed however many they are
_NO_DIGITS = 1e-6


class SphereScoreSums:
    """log G(Mx) and ∇ log G(Mx), G(z) = Σ_j m_j e^{<z,y_j>}, for tokens on S^2.

    Moments mu_lm by a non-uniform transform, through the kernel's matrix to harmonics in x
    (`SphereBilinear`), which are evaluated by another. Where G is below 1e-3 of its scale, the sum
    over all tokens is taken instead: errors of G itself are 1e-12 of it.

    Parameters
    ----------
    matrix : ndarray, shape (3, 3)
        M, |M|_2 <= 128.

    Raises
    ------
    ValueError
        If |M|_2 > 128.

    Examples
    --------
    >>> sums = SphereScoreSums(np.diag([1.0, 2.0, 3.0]))
    >>> points = np.array([[0.0, 1.0, 0.0]])
    >>> log_g, mean = sums.log_moment(points, np.ones(1), points)
    >>> log_g.round(11), mean.round(11) + 0.0
    (array([2.]), array([[0., 1., 0.]]))
    """

    def __init__(self, matrix: Array) -> None:
        self._bilinear = SphereBilinear(matrix)
        self._sources = SphereAt(self._bilinear.source_degree)
        self._targets = SphereAt(self._bilinear.degree)

    def quick(self, points: Array, masses: Array, at: Array) -> tuple[Array, Array]:
        """As `log_moment`, with 2^24 terms at most where G is 1e-6 to 1e-3 of its scale.

        Smallest first; the error may grow there to about 1e-14 over that share.
        """
        return self.log_moment(points, masses, at, most_pairs=_MOST_PAIRS)

    def log_moment(
        self, points: Array, masses: Array, at: Array, *, most_pairs: float = np.inf
    ) -> tuple[Array, Array]:
        """log G(Mx), shape (m,), and ∇ log G(Mx), shape (m, 3), at unit rows `at` (m, 3)."""
        places = Places.of(at)
        sources = places if at is points else Places.of(points)
        moments = self._sources.moments(sources, masses)
        series = self._bilinear.coefficients(moments)
        potential, *parts = (self._targets.values(row, places) for row in series)
        scale = max(float(potential.max()), self._bilinear.scale(moments) / float(masses.sum()))
        # sums that are negative by rounding are computed again
        np.maximum(potential, 1e-300, out=potential)
        mean = np.stack(parts, axis=1) / potential[:, None]
        lost = Lost(_SMALL, most_pairs, always=_NO_DIGITS)
        small = lost.places(potential, scale, len(points))
        log_g = np.log(potential) + self._bilinear.log_unit
        if len(small):
            z = at[small] @ self._bilinear.matrix.T
            log_g[small], mean[small] = log_moment(points, masses, z)
        return log_g, mean


TokenSums = CircleSums | SphereSums
KernelSums = CellSums | SphereSums | SphereKernelSums | Exponential
ScoreSums = CircleScoreSums | SphereScoreSums


def score_sums(matrix: Array) -> ScoreSums | None:
    """The fast sums of the kernel e^{<Mx,y>} of a matrix (d, d), None where there are none.

    Examples
    --------
    >>> score_sums(np.eye(4)) is None
    True
    """
    if fewest_score_pairs(matrix) == np.inf:
        return None
    return CircleScoreSums(matrix) if len(matrix) == 2 else SphereScoreSums(matrix)


def token_sums(beta: float, dim: int) -> TokenSums | None:
    """The fast sums of this kernel in this dimension, None where there are none.

    Examples
    --------
    >>> token_sums(1.0, 4) is None
    True
    """
    if fewest_pairs(beta, dim) == np.inf:
        return None
    return CircleSums(beta) if dim == 2 else SphereSums(beta)


def kernel_sums(kernel: Exponential | SmoothKernel, dim: int) -> KernelSums | None:
    """The fast sums of a kernel in dimension 2 or 3, up to the reach that `fewest_pairs` allows."""
    if isinstance(kernel, Exponential):
        return token_sums(kernel.beta, dim)
    return CellSums(kernel.line(2)) if dim == 2 else SphereKernelSums(kernel)
