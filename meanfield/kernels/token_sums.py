"""Sums over n tokens at once, in O(n): cells on the circle, harmonics on S^2."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property, partial

import numpy as np

from meanfield.kernels.bilinear import SphereBilinear, largest_score
from meanfield.kernels.direct import Lost, log_moment
from meanfield.kernels.kernel import Exponential, SmoothKernel
from meanfield.kernels.line import LAGRANGE, NODES, CircleLine, DenseLine, chebyshev, node_count
from meanfield.kernels.multipliers import relative_eigenvalues
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


class SphereSums:
    """∫ s dmu and ∫ s y dmu of a kernel s(<x,y>) for tokens on S^2, through its multipliers.

    Moments mu_lm up to the kernel's bandwidth, times its multipliers, are evaluated by non-uniform
    transforms, whose errors are relative to the largest potential. Where the potential is below
    1e-3 of its scale, and that of the kernel may be, the sum over all tokens is taken instead,
    whose error is one of rounding. For e^{βt} both keep 1e-12 of G itself.

    Parameters
    ----------
    kernel : Exponential or SmoothKernel
        Of a reach of at most 10000.

    Examples
    --------
    >>> sums = SphereSums(Exponential(1.0))
    >>> points = np.array([[1.0, 0.0, 0.0]])
    >>> log_g, mean = sums.log_moment(points, np.ones(1), np.array([[0.0, 1.0, 0.0]]))
    >>> log_g.round(12) + 0.0, mean.round(12) + 0.0
    (array([0.]), array([[1., 0., 0.]]))
    """

    largest_beta = 1e4

    def __init__(self, kernel: Exponential | SmoothKernel) -> None:
        self._kernel, self._at = kernel, SphereAt(kernel.degree(3))
        series, degrees = kernel.series(3, self._at.lmax), self._at.degrees
        self._log_unit = series.log_unit + float(np.log(series.size))
        self._degree_shares = series.potential
        self._potential, self._primitive = series.potential[degrees], series.primitive[degrees]

    @cached_property
    def _radial(self) -> Array:
        """dΛ_l/dβ = Λ_{l+1} + (l/β) Λ_l of exponentials, over Λ_0."""
        beta, lmax, degrees = self._kernel.reach, self._at.lmax, self._at.degrees
        relative = relative_eigenvalues(beta, 3, lmax + 1)
        return np.asarray(relative[degrees + 1] + degrees * self._primitive)

    def log_moment(self, points: Array, masses: Array, at: Array) -> tuple[Array, Array]:
        """log G(βx), shape (m,), and ∇ log G(βx), shape (m, 3), at unit rows `at` (m, 3).

        Of exponentials, G(z) = Σ_j m_j e^{<z,y_j>}.
        """
        places = Places.of(at)
        moments, log_unit, potential, pull, small = self._sums(points, masses, at, places, np.inf)
        along = self._at.values(self._radial * moments, places)
        along[small] = 0.0
        return log_unit + np.log(potential), (pull + along[:, None] * at) / potential[:, None]

    def pull_of_others(
        self, points: Array, masses: Array, most_pairs: float = _MOST_PAIRS
    ) -> tuple[Array, Array, Array]:
        """P_x Σ m_j s y_j (n, 3) in units of e^{u_i}, u (n,), and log Σ m_j s where that is > 0.

        No more than `most_pairs` terms are summed, at the smallest potential first. Then the error
        where it is a share s < 1e-3 of its scale may grow to about 1e-15/s.
        """
        places = Places.of(points)
        _, log_unit, potential, pull, _ = self._sums(points, masses, points, places, most_pairs)
        return project(points, pull), log_unit, log_unit + np.log(potential)

    def _sums(
        self, points: Array, masses: Array, at: Array, places: Places, most_pairs: float
    ) -> tuple[Coefficients, Array, Array, Array, Indices]:
        """Moments, the unit of sums, ∫ s dmu and P_x ∫ s y dmu, and where both are whole sums."""
        sources = places if at is points else Places.of(points)
        moments = self._at.moments(sources, masses)
        potential = self._at.values(self._potential * moments, places)
        pull = self._at.gradient(self._primitive * moments, places)
        log_unit, small = np.full(len(at), self._log_unit), np.zeros(0, dtype=np.intp)
        if self._kernel.least_share < _SMALL:
            # the mean of G over the measure is no larger than its maximum, and no point may be near
            inside = float(self._degree_shares @ self._at.power(moments)) / float(masses.sum())
            scale = max(float(potential.max()), inside)
            small = Lost(_SMALL, most_pairs).places(potential, scale, len(points))
        if len(small):
            found = self._kernel.sums(points, masses, at[small])
            log_unit[small], potential[small], pull[small] = found
        return moments, log_unit, np.maximum(potential, 1e-300), pull, small


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


KernelSums = CellSums | SphereSums
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


def kernel_sums(kernel: Exponential | SmoothKernel, dim: int) -> KernelSums | None:
    """The fast sums of this kernel in this dimension, None where there are none.

    Examples
    --------
    >>> kernel_sums(Exponential(1.0), 4) is None
    True
    """
    if fewest_pairs(kernel.reach, dim) == np.inf:
        return None
    if dim == 3:
        return SphereSums(kernel)
    return CellSums(kernel.line(2)) if kernel.growth is None else CircleSums(kernel.reach)
